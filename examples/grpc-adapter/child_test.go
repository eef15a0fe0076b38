package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/grpcaction"
	"github.com/onceward/onceward/internal/pgtest"
)

// childEnv holds the command line of a child, as JSON.
const childEnv = "ONCEWARD_GRPC_ADAPTER_CHILD"

// TestMain runs the tests, or, in a process that startChild made, the command.
func TestMain(m *testing.M) {
	told := os.Getenv(childEnv)
	if told == "" {
		os.Exit(pgtest.Main(m))
	}
	var args []string
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := json.Unmarshal([]byte(told), &args)
	if err == nil {
		err = run(ctx, args, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
}

// child is the command as another process.
type child struct {
	address string
	process *os.Process
	exited  chan struct{}
	kill    func() // SIGKILL, and waits; twice is harmless
}

// startChild runs the command until it is killed. What it needs and does not
// name itself is a provider URL.
func startChild(stderr io.Writer, dir string, args ...string) (*child, error) {
	tokenFile := filepath.Join(dir, "token")
	if err := os.WriteFile(tokenFile, []byte(token+"\n"), 0o600); err != nil {
		return nil, err
	}
	told, err := json.Marshal(append([]string{"-token-file", tokenFile, "-allow-loopback-provider"}, args...))
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+string(told))
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{process: cmd.Process, exited: make(chan struct{})}
	address, err := bufio.NewReader(out).ReadString('\n')
	go func() {
		_ = cmd.Wait() // tests kill it
		close(c.exited)
	}()
	c.kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		<-c.exited
	})
	if err != nil {
		c.kill()
		return nil, fmt.Errorf("the child did not start: %w", err)
	}
	c.address = strings.TrimSpace(address)
	return c, nil
}

// terminate asks it to end (SIGTERM).
func (c *child) terminate() error { return c.process.Signal(syscall.SIGTERM) }

// connect returns the one adapter that a child describes.
func connect(ctx context.Context, o grpcaction.Options) (actions.Adapter, *grpcaction.Client, error) {
	client, err := grpcaction.New(o)
	if err != nil {
		return nil, nil, err
	}
	adapters, err := client.Describe(ctx)
	if err == nil && len(adapters) != 1 {
		err = fmt.Errorf("%d adapters", len(adapters))
	}
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return adapters[0], client, nil
}

// ownAddress is a loopback address that hardly anybody else has, so that its
// port is free again after its process was killed.
func ownAddress() string {
	return fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
}
