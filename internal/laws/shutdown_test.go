package laws

import (
	"math"
	"testing"
	"time"

	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
)

// A process that is told to stop while the reconciler's attempt cannot be
// settled ends after its grace. What it leaves is unknown when the lease ends,
// and another process finds out.
func TestShutdownEndsWhileNothingCanBeSettled(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	book := &forgetful{}
	stuck := w.Start(t, func(c *app.Config) {
		forgets(book)(c)
		c.ShutdownGrace = 100 * time.Millisecond
	})
	w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.RateLimited})
	id := start(t, w, stuck, apptest.Refund("ch_1", 500, "run_1"))
	w.WaitFor(t, "acme", id, ledger.Pending)
	book.apply.Store(math.MaxInt32)
	if err := w.Provider.WaitEffects(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() { stuck.Stop(); close(stopped) }()
	await(t, "the end of a process that cannot settle", stopped)

	if op := w.Held(t, id); op.State != ledger.Running || op.Attempt != 2 {
		t.Fatalf("operation is %s after %d attempts", op.State, op.Attempt)
	}
	w.Database.Age(t, ledger.Operation{Tenant: "acme", ID: id}, time.Hour)
	w.Start(t, nil)
	w.WaitFor(t, "acme", id, ledger.Succeeded)
	w.WantOneEffect(t, id)
}
