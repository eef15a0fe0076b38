package apptest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/crashpoint"
)

// CrashPoint is where a child kills itself (SIGKILL): one of [crashpoint.Points].
type CrashPoint = crashpoint.Point

// The crash points, for tests' brevity.
const (
	NoCrash      = crashpoint.None
	BeforeClaim  = crashpoint.BeforeClaim
	AfterClaim   = crashpoint.AfterClaim
	BeforeSettle = crashpoint.BeforeSettle
	AfterSettle  = crashpoint.AfterSettle
	AfterLease   = crashpoint.AfterLease
	BeforeMove   = crashpoint.BeforeMove
)

// ChildOptions say what a child does.
type ChildOptions struct {
	Crash             CrashPoint
	NoReconciler      bool
	ReconcileInterval time.Duration // default 20 ms
	// How long others wait for what a killed child was doing; zero: the defaults.
	LeaseGrace, ReconcileLease time.Duration
	DatabaseURL                string // default: the world's
}

// childConfig is what a child is told, in its environment.
type childConfig struct {
	ChildOptions
	SecretsDir string
	PolicyDir  string
	Demo       demo.Options
}

const childEnv = "ONCEWARD_APPTEST_CHILD"

// Main runs tests, or, in a process that StartChild made, a replica. Use it in
// TestMain around the tests' own main:
//
//	func TestMain(m *testing.M) { os.Exit(apptest.Main(func() int { return pgtest.Main(m) })) }
func Main(tests func() int) int {
	told := os.Getenv(childEnv)
	if told == "" {
		return tests()
	}
	if err := runChild(told); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

func runChild(told string) error {
	var c childConfig
	if err := json.Unmarshal([]byte(told), &c); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	adapters, err := demo.New(c.Demo)
	if err != nil {
		return err
	}
	registry, err := actions.NewRegistry(adapters...)
	if err != nil {
		return err
	}
	config, watch, err := configure(ctx, c.DatabaseURL, c.SecretsDir, c.PolicyDir, registry, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	config.Reconcile = !c.NoReconciler
	config.LeaseGrace, config.ReconcileLease = c.LeaseGrace, c.ReconcileLease
	if c.ReconcileInterval > 0 {
		config.ReconcileInterval = c.ReconcileInterval
	}
	if c.Crash != NoCrash {
		config.WrapLedger = func(l app.Ledger) app.Ledger {
			crasher := &crashpoint.Crasher{Ledger: l, Die: crashpoint.Kill}
			crasher.Arm(c.Crash)
			return crasher
		}
	}
	service, err := app.New(ctx, config)
	if err != nil {
		return err
	}
	go watch(ctx)
	fmt.Println(config.Listener.Addr())
	return service.Run(ctx)
}

// Child is a replica in a process of its own.
type Child struct {
	*Replica
	Process *os.Process
	exited  chan struct{}
}

// StartChild runs a replica as another process: the test binary itself, which
// must use Main. It is killed with the test.
func (w *World) StartChild(t testing.TB, o ChildOptions) *Child {
	t.Helper()
	if o.DatabaseURL == "" {
		o.DatabaseURL = w.Database.ServeURL
	}
	told, err := json.Marshal(childConfig{ChildOptions: o, SecretsDir: w.SecretsDir, PolicyDir: w.PolicyDir, Demo: w.Options.Demo})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), self)
	cmd.Env = append(os.Environ(), childEnv+"="+string(told))
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &Child{Process: cmd.Process, exited: make(chan struct{})}
	address, readErr := bufio.NewReader(out).ReadString('\n')
	go func() {
		_ = cmd.Wait() // a killed child is what tests want
		close(c.exited)
	}()
	t.Cleanup(c.Kill)
	if readErr != nil {
		t.Fatalf("child did not start: %v", readErr)
	}
	c.Replica = connect(t, strings.TrimSpace(address))
	c.stop = c.Kill
	return c
}

// Kill ends the child with SIGKILL and waits for it. Doing it twice is harmless.
func (c *Child) Kill() {
	_ = c.Process.Kill() // it may have ended by itself
	<-c.exited
}

// WaitExit waits until the child has ended by itself, as at a crash point.
func (c *Child) WaitExit(t testing.TB) {
	t.Helper()
	select {
	case <-c.exited:
	case <-time.After(Patience):
		t.Fatal("the child did not end")
	}
}
