package laws

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
)

// A worker is stopped while the provider works, its lease runs out, another one
// takes over and settles. When it wakes up with its answer it changes nothing.
func TestReport27_PausedWorkerChangesNothing(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	gate := fakeprovider.NewGate()
	t.Cleanup(gate.Release)
	w.Provider.Next(fakeprovider.Fault{HoldAfter: gate})
	paused := w.StartChild(t, apptest.ChildOptions{NoReconciler: true})
	id := start(t, w, paused.Replica, apptest.Invoice("inv_1"))
	await(t, "the request at the provider", gate.Reached())
	signal(t, paused, syscall.SIGSTOP)

	w.Database.Age(t, w.Held(t, id), 2*time.Minute)
	w.StartChild(t, apptest.ChildOptions{}) // same host, same everything
	op := w.WaitFor(t, "acme", id, ledger.Succeeded)
	row, audit := w.Database.Row(t, op), len(w.Database.Audit(t, op))

	gate.Release()
	signal(t, paused, syscall.SIGCONT)
	signal(t, paused, syscall.SIGTERM) // ends when its attempt is settled
	paused.WaitExit(t)
	if now := w.Database.Row(t, op); now != row || len(w.Database.Audit(t, op)) != audit {
		t.Errorf("the paused worker changed the row from\n%s\nto\n%s", row, now)
	}
	w.WantOneEffect(t, id)
}

// A worker is held up between its claim and its call, longer than its lease
// allows: it does not send any more.
func TestReport27_LateWorkerDoesNotSend(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	hold := make(chan struct{})
	claimed := make(chan ledger.Operation, 1)
	slow := w.Start(t, func(c *app.Config) {
		c.Reconcile, c.LeaseGrace = false, 20*time.Millisecond
		c.WrapLedger = func(l app.Ledger) app.Ledger { return &slowOpener{Ledger: l, claimed: claimed, hold: hold} }
	})
	answered := make(chan error, 1)
	go func() {
		_, err := w.Try(t.Context(), slow, apptest.Waiting(apptest.Invoice("inv_1"), 0))
		answered <- err
	}()
	op := <-claimed
	w.Database.Age(t, op, 2*time.Minute)
	w.Start(t, nil)
	w.WaitFor(t, "acme", op.ID, ledger.Succeeded)
	close(hold)
	if err := <-answered; err != nil {
		t.Errorf("the held up request: %v", err)
	}
	slow.Stop() // after its attempt
	w.WantOneEffect(t, op.ID)
	if n := writes(w); n != 1 {
		t.Errorf("%d writes, want the one of the second worker; %s", n, w.Describe())
	}
	w.WantTrail(t, op.ID, "claim doubt defer claim confirm evidence")
}

// slowOpener is a ledger that tells of a claim and gives the answer later.
type slowOpener struct {
	app.Ledger
	claimed chan<- ledger.Operation
	hold    <-chan struct{}
}

func (s *slowOpener) Open(ctx context.Context, o ledger.Opening) (ledger.Operation, bool, error) {
	op, created, err := s.Ledger.Open(ctx, o)
	if created {
		s.claimed <- op
		<-s.hold
	}
	return op, created, err
}

func signal(t testing.TB, c *apptest.Child, s syscall.Signal) {
	t.Helper()
	if err := c.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
