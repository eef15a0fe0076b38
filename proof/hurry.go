package proof

import (
	"context"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/ledger"
)

// A proof has no minutes to spend. The contract's times are replaced by short
// ones in the same order, and the waits between attempts are shortened by one
// factor; what is decided when they are over is not touched.
//
// Times that race with a path are far apart from each other: what a look-up does
// not show yet is shown long before the settle time ends, and a worker that is
// killed has died long before its lease does.
const (
	// provedSettle stands for the contract's settle time, where it has one.
	provedSettle = 250 * time.Millisecond
	provedGap    = 5 * time.Millisecond // for its read gap
	// LookupLag is how long the look-ups of a target may lag behind of their own
	// accord, whatever the contract's settle time is.
	LookupLag = 50 * time.Millisecond
	// shownLag is how long after the attempt a look-up may still lag behind: well
	// within the settle time.
	shownLag = 200 * time.Millisecond
	// hiddenLag is for ever, on the target's clock; the path moves that.
	hiddenLag = time.Hour
	// acceptedLag is how long the provider works on what it has accepted.
	acceptedLag = 50 * time.Millisecond
	// longLag is how long it lags where the contract has no settle time, and so
	// says that it never does.
	longLag = 2 * time.Second
	// spareLooks are looks at a doubt beside the negative reads that the contract
	// asks for.
	spareLooks = 6

	// waitFactor shortens the waits before another attempt or look, which are half
	// a second and more.
	waitFactor = 25
	// longestWait bounds what is left of them. It is more than the settle time, so
	// that no look is made before its time because of it.
	longestWait = provedSettle + 50*time.Millisecond

	// longestTimeout bounds one attempt, where the provider is not slow.
	longestTimeout = 10 * time.Second
	// shortTimeout is the time of an attempt where the provider is.
	shortTimeout = 250 * time.Millisecond
	// shortLease is the lease of a worker that is killed.
	shortLease = 300 * time.Millisecond

	leaseGrace        = 5 * time.Second
	reconcileInterval = 10 * time.Millisecond
	reconcileLease    = 6 * time.Second // so that a look-up has two seconds
	shutdownGrace     = time.Second
)

// hurried is the spec under which an adapter is proved.
func hurried(s actions.Spec) actions.Spec {
	s.Timeout = min(s.Timeout, longestTimeout)
	look := &s.Contract.Lookup
	if look.SettleTime > 0 {
		look.SettleTime = provedSettle
	}
	look.ReadGap = provedGap
	if s.Contract.Keys.InFlight > 0 {
		s.Contract.Keys.InFlight = provedSettle
	}
	s.MaxResolves = look.NegativeReads + spareLooks
	s.Contract.LateLanding = 0 // an hour of watching proves nothing more about the adapter
	if s.Contract.EventWait > 0 {
		s.Contract.EventWait = provedSettle // nobody sends events here
	}
	// Approval is the server's business, and the proof would be the one who gives it.
	s.RequiresApproval = false
	// So are intents. And the paths share their providers, which fail on purpose in
	// most of them: no path may stop another.
	s.Intents = nil
	s.Contract.Protection = actions.Protection{Failures: 1000, OpenFor: time.Second, RetryShare: 100, RetryFloor: 10_000}
	return s
}

// brisk is a ledger whose waits are short, and which ends leases and key
// horizons early where a path says so.
type brisk struct {
	app.Ledger
	stages *stages
}

// Open implements server.Ledger.
func (b brisk) Open(ctx context.Context, o ledger.Opening) (ledger.Operation, bool, error) {
	s := b.stages.of(o.Operation.Tenant, o.Operation.ActionType)
	if s != nil {
		if s.dies != nowhere {
			o.Start.Lease = shortLease
		}
		s.shorten(&o.Start)
	}
	op, created, err := b.Ledger.Open(ctx, o)
	if s != nil && err == nil && !created {
		s.joined()
	}
	return op, created, err
}

// GetByKey implements server.Ledger. A request that is foreseen to be a duplicate
// joins its operation by this.
func (b brisk) GetByKey(ctx context.Context, tenant, key string) (ledger.Operation, error) {
	op, err := b.Ledger.GetByKey(ctx, tenant, key)
	if err == nil {
		if s := b.stages.of(tenant, op.ActionType); s != nil {
			s.joined()
		}
	}
	return op, err
}

// Start implements dispatch.Ledger.
func (b brisk) Start(ctx context.Context, c ledger.Claiming) (ledger.Operation, error) {
	if s := b.stages.of(c.Operation.Tenant, c.Operation.ActionType); s != nil {
		s.shorten(&c.Start)
	}
	return b.Ledger.Start(ctx, c)
}

// Apply implements dispatch.Ledger and reconciler.Ledger.
func (b brisk) Apply(ctx context.Context, c ledger.Change) (ledger.Operation, error) {
	c.Delay = min(c.Delay/waitFactor, longestWait)
	return b.Ledger.Apply(ctx, c)
}

// Postpone implements reconciler.Ledger.
func (b brisk) Postpone(ctx context.Context, p ledger.Postponement) (ledger.Operation, error) {
	p.Delay = min(p.Delay, longestWait)
	return b.Ledger.Postpone(ctx, p)
}
