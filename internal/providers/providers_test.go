package providers_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/internal/providers"
)

const label = "parcelkit.label.create"

// folder is a copy of the example that can be changed.
type folder struct {
	t   *testing.T
	dir string
}

func newFolder(t *testing.T) *folder {
	t.Helper()
	t.Setenv("PARCELKIT_TOKEN", "token-of-the-test")
	f := &folder{t, t.TempDir()}
	for _, name := range []string{"provider.yaml", label + ".yaml"} {
		data, err := os.ReadFile(filepath.Join("../../examples/provider", name))
		if err != nil {
			t.Fatal(err)
		}
		f.write(name, string(data))
	}
	return f
}

// write replaces a file at once, as editors and mounted configuration do.
func (f *folder) write(name, text string) {
	f.t.Helper()
	next := filepath.Join(f.dir, ".next")
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(f.dir, name)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) change(name, from, to string) {
	f.t.Helper()
	data, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		f.t.Fatal(err)
	}
	if !strings.Contains(string(data), from) {
		f.t.Fatalf("%s has no %q", name, from)
	}
	f.write(name, strings.Replace(string(data), from, to, 1))
}

// notes is a log that can be read while it is written.
type notes struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.buf.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.buf.String()
}

func open(t *testing.T, f *folder) (*providers.Providers, *notes) {
	t.Helper()
	log := &notes{}
	p, err := providers.Open(t.Context(), providers.Options{
		Paths: []string{f.dir}, Log: slog.New(slog.NewTextHandler(log, nil)), Interval: 5 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, log
}

func TestReload(t *testing.T) {
	f := newFolder(t)
	p, _ := open(t, f)
	first, ok := p.Registry().Get(label)
	if !ok || first.Spec.Version != "1" || first.Spec.Contract.Version != "1" || first.Spec.Contract.Provider != "parcelkit" {
		t.Fatalf("got %+v", first)
	}

	// A fault changes nothing, and says where it is.
	f.change("provider.yaml", "window: 24h", "window: a day")
	err := p.Reload(t.Context())
	var faults *definition.FaultsError
	if !errors.As(err, &faults) || !strings.Contains(err.Error(), filepath.Join(f.dir, "provider.yaml")+":7:") || !strings.Contains(err.Error(), "keys.window") {
		t.Errorf("got %v", err)
	}
	if now, _ := p.Registry().Get(label); now != first {
		t.Error("a fault changed something")
	}

	// Comments and places mean nothing: the adapter stays.
	f.change("provider.yaml", "window: a day", "window: 24h")
	f.change(label+".yaml", "kind: action", "# a comment\nkind: action")
	if err := p.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now, _ := p.Registry().Get(label); now.Adapter != first.Adapter {
		t.Error("a comment replaced the adapter")
	}

	f.change(label+".yaml", `version: "1"`, `version: "2"`)
	if err := p.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now, _ := p.Registry().Get(label); now.Spec.Version != "2" || now.Adapter == first.Adapter {
		t.Errorf("got version %s", now.Spec.Version)
	}
	if then, ok := p.Registry().At(label, "1", "1"); !ok || then.Adapter != first.Adapter {
		t.Error("what began with version 1 has lost it")
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		breakIt func(f *folder)
		want    string
	}{
		"a missing secret":        {func(f *folder) { f.t.Setenv("PARCELKIT_TOKEN", "") }, "http.auth.bearer: the environment variable PARCELKIT_TOKEN is not set"},
		"an unknown field":        {func(f *folder) { f.change("provider.yaml", "keys:", "kees:") }, "provider.yaml:7:1: kees: there is no such field"},
		"an expression":           {func(f *folder) { f.change(label+".yaml", "reference: body.id", "reference: bodi.id") }, label + ".yaml:26:3: receipt.reference: at character 1: there is no \"bodi\" here"},
		"an argument that is not": {func(f *folder) { f.change(label+".yaml", "${args.service}", "${args.servis}") }, "args.servis"},
		"no schema":               {func(f *folder) { f.change(label+".yaml", "type: object", "type: thing") }, "arguments: is no schema"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			test.breakIt(f)
			_, err := providers.Open(t.Context(), providers.Options{Paths: []string{f.dir}, Log: slog.New(slog.DiscardHandler)})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestWatch(t *testing.T) {
	f := newFolder(t)
	p, log := open(t, f)
	var refused atomic.Bool
	p.Refused = refused.Store
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { p.Watch(ctx) })
	defer watching.Wait()
	defer stop()
	version := func() string {
		a, ok := p.Registry().Get(label)
		if !ok {
			return ""
		}
		return a.Spec.Version
	}
	f.change(label+".yaml", `version: "1"`, `version: 3`)
	eventually(t, func() bool { return strings.Contains(log.String(), "put it in quotes") })
	if version() != "1" || !refused.Load() {
		t.Errorf("a fault was taken over: version %s, refused %t", version(), refused.Load())
	}
	f.change(label+".yaml", `version: 3`, `version: "3"`)
	eventually(t, func() bool { return version() == "3" && !refused.Load() })
	if n := strings.Count(log.String(), "refused"); n != 1 {
		t.Errorf("refused %d times:\n%s", n, log)
	}
}

// TestWatchAgain: what stands in the way of a change may go without another change.
func TestWatchAgain(t *testing.T) {
	f := newFolder(t)
	p, log := open(t, f)
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { p.Watch(ctx) })
	defer watching.Wait()
	defer stop()
	defer func() {
		if t.Failed() {
			t.Log(log)
		}
	}()

	// A secret that comes later than the file that names it.
	token := filepath.Join(f.dir, "token")
	f.change("provider.yaml", "{env: PARCELKIT_TOKEN}", "{file: "+token+"}")
	eventually(t, func() bool { return strings.Contains(log.String(), "http.auth.bearer") })
	f.write("token", "token-of-the-test")
	eventually(t, func() bool {
		return strings.Contains(log.String(), "taken over\" action_types=1 added=[] changed=[parcelkit]")
	})

	// Other bytes under the old version.
	f.change(label+".yaml", "json: {order: ", "json: {order_id: ")
	eventually(t, func() bool { return strings.Contains(log.String(), "sent in another way under its old version") })

	// A folder that is away, and comes back.
	if err := os.Rename(f.dir, f.dir+".away"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return strings.Contains(log.String(), "stat "+f.dir+": no such file or directory") })
	if err := os.Rename(f.dir+".away", f.dir); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return strings.Contains(log.String(), "definitions changed back") })
	if n := strings.Count(log.String(), "refused"); n != 2 {
		t.Errorf("refused %d times:\n%s", n, log)
	}
}

// eventually waits for something that another goroutine does.
func eventually(t *testing.T, what func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !what(); {
		if time.Now().After(deadline) {
			t.Fatal("it did not come")
		}
		time.Sleep(2 * time.Millisecond)
	}
}
