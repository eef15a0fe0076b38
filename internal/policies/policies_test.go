package policies_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/internal/policies"
)

// notes is a log that can be read while it is written.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notes) Write(data []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(data)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

func (n *notes) await(t *testing.T, what string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(n.String(), what); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s in the log:\n%s", what, n)
		}
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	// As tools do that care: never half a file.
	if err := os.WriteFile(filepath.Join(dir, "."+name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "."+name), filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func file(tenant, version string) string {
	return fmt.Sprintf("kind: policy\ntenant: %s\nversion: %q\nallow: [{id: all, actors: [\"*\"], action_types: [\"a.*\"]}]\n", tenant, version)
}

// TestPolicies opens policies, changes them while they are watched, breaks one, and
// mends it: what is in force is always the last good set.
func TestPolicies(t *testing.T) {
	t.Parallel()
	dir, log := t.TempDir(), &notes{}
	refused := make(chan bool, 1000)
	write(t, dir, "acme.yaml", file("acme", "1"))
	write(t, dir, "globex.yaml", file("globex", "1"))
	write(t, dir, "acme_test.yaml", "kind: policy_test\npolicy: acme.yaml\ncases: []\n")
	p, err := policies.Open(policies.Options{
		Paths: []string{dir}, Interval: time.Millisecond, Log: slog.New(slog.NewTextHandler(log, nil)),
		Specs:   func() []actions.Spec { return []actions.Spec{{Type: "b.c"}} },
		Refused: func(now bool) { refused <- now },
	})
	if err != nil {
		t.Fatal(err)
	}
	version := func(tenant string) string {
		v, _, _ := strings.Cut(p.For(tenant).Version(), "+")
		return v
	}
	if version("acme") != "1" || version("globex") != "1" || version("umbrella") != "" {
		t.Errorf("versions %q, %q and %q", version("acme"), version("globex"), version("umbrella"))
	}
	log.await(t, "a policy does not fit the action types")

	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { p.Watch(ctx) })
	defer func() { stop(); watching.Wait() }()

	write(t, dir, "acme.yaml", file("acme", "2"))
	log.await(t, "tenant=acme version=2+")
	if <-refused {
		t.Error("a good policy is told to be refused")
	}
	if version("acme") != "2" || version("globex") != "1" {
		t.Errorf("versions %q and %q", version("acme"), version("globex"))
	}

	write(t, dir, "acme.yaml", file("acme", "3")+"nonsense: true\n")
	log.await(t, "acme.yaml:5:1 field=nonsense")
	if !<-refused {
		t.Error("a policy with a fault is not told to be refused")
	}
	if version("acme") != "2" {
		t.Errorf("a policy with a fault is in force: %q", version("acme"))
	}
	if !strings.Contains(log.String(), "the last good ones stay in force") {
		t.Error("it is not said that the last good ones stay")
	}

	write(t, dir, "acme.yaml", file("acme", "4"))
	log.await(t, "tenant=acme version=4+")
	for <-refused { // at each look, until it was mended
	}

	if err := os.Remove(filepath.Join(dir, "globex.yaml")); err != nil {
		t.Fatal(err)
	}
	log.await(t, "policy gone: every request of the tenant is refused")
	if version("globex") != "" || version("acme") != "4" {
		t.Errorf("versions %q and %q", version("globex"), version("acme"))
	}
}

// TestNotOpened: what is wrong at the start fails it.
func TestNotOpened(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	empty, broken := t.TempDir(), t.TempDir()
	write(t, broken, "p.yaml", "kind: policy\n")
	for name, paths := range map[string][]string{
		"none": nil, "no such": {filepath.Join(empty, "no.yaml")}, "empty": {empty}, "broken": {broken},
	} {
		if p, err := policies.Open(policies.Options{Paths: paths, Log: log}); err == nil {
			t.Errorf("%s: opened, with %v", name, p.Tenants())
		}
	}
	if d := new(policies.Policies).For("acme"); d.Version() != "" {
		t.Error("the zero value has policies")
	}
}
