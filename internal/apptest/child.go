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
	"github.com/onceward/onceward/ledger"
)

// CrashPoint is where a child kills itself (SIGKILL).
type CrashPoint string

// The crash points. "The provider has applied it, the answer has not come" is
// the parent's to bring about: it holds the answer with a gate and kills.
const (
	NoCrash      CrashPoint = ""
	BeforeClaim  CrashPoint = "before_claim"  // the request was admitted, nothing is recorded
	AfterClaim   CrashPoint = "after_claim"   // the claim is committed, nothing is sent
	BeforeSettle CrashPoint = "before_settle" // the answer has arrived, nothing of it is recorded
	AfterSettle  CrashPoint = "after_settle"  // the outcome is committed, nobody was told
	AfterLease   CrashPoint = "after_lease"   // the reconciler holds the lease of an unknown operation
	BeforeMove   CrashPoint = "before_move"   // the reconciler has found something and not recorded it
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
		config.WrapLedger = func(l app.Ledger) app.Ledger { return &crasher{l, c.Crash} }
	}
	service, err := app.New(ctx, config)
	if err != nil {
		return err
	}
	go watch(ctx)
	fmt.Println(config.Listener.Addr())
	return service.Run(ctx)
}

// crasher is a ledger that kills its process at one point.
type crasher struct {
	app.Ledger
	at CrashPoint
}

func (c *crasher) reach(point CrashPoint) {
	if point != c.at {
		return
	}
	// SIGKILL cannot be handled: no deferred function, no flush, as in a crash.
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {}
}

func (c *crasher) Open(ctx context.Context, o ledger.Opening) (ledger.Operation, bool, error) {
	c.reach(BeforeClaim)
	op, created, err := c.Ledger.Open(ctx, o)
	if created {
		c.reach(AfterClaim)
	}
	return op, created, err
}

func (c *crasher) Apply(ctx context.Context, change ledger.Change) (ledger.Operation, error) {
	before, after := BeforeSettle, AfterSettle
	if change.Operation.State == ledger.Unknown {
		before, after = BeforeMove, NoCrash
	}
	c.reach(before)
	op, err := c.Ledger.Apply(ctx, change)
	if err == nil && after != NoCrash {
		c.reach(after)
	}
	return op, err
}

func (c *crasher) LeaseUnknown(ctx context.Context, limit int, lease time.Duration) ([]ledger.Operation, error) {
	ops, err := c.Ledger.LeaseUnknown(ctx, limit, lease)
	if len(ops) > 0 {
		c.reach(AfterLease)
	}
	return ops, err
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
