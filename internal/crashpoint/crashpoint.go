package crashpoint

import (
	"context"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/ledger"
)

// Point is a moment at which a process can die.
type Point string

// The points. "The provider has applied it, the answer has not come" is not among
// them: whoever plays the provider holds the answer, and kills.
const (
	None         Point = ""
	BeforeClaim  Point = "before_claim"  // the request was admitted, nothing is recorded
	AfterClaim   Point = "after_claim"   // the claim is committed, nothing is sent
	BeforeSettle Point = "before_settle" // the answer has arrived, nothing of it is recorded
	AfterSettle  Point = "after_settle"  // the outcome is committed, nobody was told
	AfterLease   Point = "after_lease"   // the reconciler holds the lease of an unknown operation
	BeforeMove   Point = "before_move"   // the reconciler has found something and not recorded it
	BeforeAgain  Point = "before_again"  // a later attempt was decided, and is not claimed
	AfterAgain   Point = "after_again"   // a later attempt is claimed, nothing is sent
)

// Points returns every point but None, in the order of an operation's life.
func Points() []Point {
	return []Point{BeforeClaim, AfterClaim, BeforeSettle, AfterSettle, AfterLease, BeforeMove, BeforeAgain, AfterAgain}
}

// Kill ends this process as a crash would: SIGKILL cannot be handled, so that no
// deferred function runs and nothing is flushed.
func Kill(Point) {
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {}
}

// Crasher is a ledger that calls Die at the point that it is armed with. It is safe
// for concurrent use.
type Crasher struct {
	app.Ledger
	// Die ends the process and does not return: Kill.
	Die func(Point)

	mu sync.Mutex
	at Point
}

var _ app.Ledger = (*Crasher)(nil)

// Arm says at which point to die from now on; None is at none.
func (c *Crasher) Arm(at Point) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

func (c *Crasher) reach(point Point) {
	c.mu.Lock()
	reached := point != None && point == c.at
	c.mu.Unlock()
	if reached {
		c.Die(point)
	}
}

// Open records an operation.
func (c *Crasher) Open(ctx context.Context, o ledger.Opening) (ledger.Operation, bool, error) {
	c.reach(BeforeClaim)
	op, created, err := c.Ledger.Open(ctx, o)
	if created {
		c.reach(AfterClaim)
	}
	return op, created, err
}

// Start claims a later attempt.
func (c *Crasher) Start(ctx context.Context, claiming ledger.Claiming) (ledger.Operation, error) {
	c.reach(BeforeAgain)
	op, err := c.Ledger.Start(ctx, claiming)
	if err == nil {
		c.reach(AfterAgain)
	}
	return op, err
}

// Apply makes a move.
func (c *Crasher) Apply(ctx context.Context, change ledger.Change) (ledger.Operation, error) {
	before, after := BeforeSettle, AfterSettle
	if change.Operation.State == ledger.Unknown {
		before, after = BeforeMove, None
	}
	c.reach(before)
	op, err := c.Ledger.Apply(ctx, change)
	if err == nil {
		c.reach(after)
	}
	return op, err
}

// LeaseUnknown leases operations in doubt.
func (c *Crasher) LeaseUnknown(ctx context.Context, limit int, lease time.Duration) ([]ledger.Operation, error) {
	ops, err := c.Ledger.LeaseUnknown(ctx, limit, lease)
	if len(ops) > 0 {
		c.reach(AfterLease)
	}
	return ops, err
}
