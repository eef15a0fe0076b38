//go:build upgrade

package upgrade

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

//go:embed base
var base string

// build makes the program of a tree.
func build(t *testing.T, tree, name string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), name)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", out, "./cmd/onceward")
	cmd.Dir, cmd.Env = tree, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build in %s: %v\n%s", tree, err, text)
	}
	return out
}

// former unpacks the base revision, and fails where the clone does not have it.
func former(t *testing.T, root string) string {
	t.Helper()
	dir := t.TempDir()
	revision := strings.TrimSpace(base)
	archive := exec.CommandContext(t.Context(), "git", "archive", "--format=tar", revision)
	archive.Dir = root
	var said bytes.Buffer
	archive.Stderr = &said
	data, err := archive.Output()
	if err != nil {
		t.Fatalf("revision %s of internal/upgrade/base: %v: %s (a shallow clone wants: git fetch --unshallow)", revision, err, said.String())
	}
	unpack := exec.CommandContext(t.Context(), "tar", "-x", "-C", dir)
	unpack.Stdin = bytes.NewReader(data)
	if text, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("unpack: %v: %s", err, text)
	}
	return dir
}

// run runs a command to its end and returns what it printed.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", filepath.Base(program), strings.Join(args, " "), err, out, said.String())
	}
	return string(out)
}

// process is a replica in a process of its own.
type process struct {
	name    string
	actions oncewardv1.ActionServiceClient
	cmd     *exec.Cmd
	exited  chan struct{}
	err     error // of its end

	mu  sync.Mutex
	log strings.Builder
}

// serve starts a replica and waits until it says where it listens.
func serve(t *testing.T, program, name string, args ...string) *process {
	t.Helper()
	p := &process{name: name, exited: make(chan struct{})}
	p.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), program, append([]string{"serve", "--listen=127.0.0.1:0"}, args...)...)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(stderr)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			p.mu.Lock()
			p.log.WriteString(lines.Text() + "\n")
			p.mu.Unlock()
			var line struct{ Msg, Address string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
				address <- line.Address
			}
		}
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			said := p.said()
			t.Logf("log of %s ends with:\n%s", name, said[max(0, len(said)-4000):])
		}
	})
	select {
	case where := <-address:
		conn, err := grpc.NewClient(where, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		p.actions = oncewardv1.NewActionServiceClient(conn)
	case <-p.exited:
		t.Fatalf("%s ended: %v\n%s", name, p.err, p.said())
	case <-time.After(patience):
		t.Fatalf("%s does not serve:\n%s", name, p.said())
	}
	return p
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// stop asks the replica to end, and wants an orderly end.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.wantEnd(t)
	if p.err != nil {
		t.Errorf("%s: %v", p.name, p.err)
	}
}

func (p *process) wantEnd(t *testing.T) {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		t.Fatalf("%s does not end:\n%s", p.name, p.said())
	}
}
