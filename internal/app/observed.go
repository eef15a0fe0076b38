package app

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/inbox"
	"github.com/onceward/onceward/internal/telemetry"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/reconciler"
	"github.com/onceward/onceward/server"
)

// observers are what each part tells what happens; nil: nobody.
type observers struct {
	server     server.Metrics
	dispatch   dispatch.Metrics
	reconciler reconciler.Metrics
	inbox      inbox.Metrics
	tracers    trace.TracerProvider
}

// observing puts the telemetry of a configuration, if there is any, between the parts
// and the ledger, and in front of the API.
func observing(c *Config, book *Ledger) observers {
	t := c.Telemetry
	if t == nil {
		return observers{}
	}
	counted := &observedLedger{Ledger: *book, moves: t.Moves, registry: c.Registry}
	*book = counted
	c.StatsHandlers = append(slices.Clone(c.StatsHandlers), t.RPC())
	return observers{
		server: t.Requests, dispatch: attempts{t.Attempts, counted}, reconciler: t.Repairs, inbox: t.Webhooks, tracers: t.Tracers,
	}
}

// observedLedger counts the moves that this process makes, where they are made: a
// move is counted when the ledger says that it is committed, and by the process that
// made it alone. One whose commit was not answered is counted when its process finds
// out (dispatch.Metrics), and else not.
type observedLedger struct {
	Ledger
	moves    *telemetry.Moves
	registry *actions.Registry
}

var _ Ledger = (*observedLedger)(nil)

// provider is that of an operation; empty where its adapter is not here.
func (l *observedLedger) provider(op *ledger.Operation) string {
	if action, ok := l.registry.At(op.ActionType, op.AdapterVersion, op.ContractVersion); ok {
		return action.Spec.Contract.Provider
	}
	return ""
}

// Open implements Ledger.
func (l *observedLedger) Open(ctx context.Context, o ledger.Opening) (op ledger.Operation, created bool, err error) {
	op, created, err = l.Ledger.Open(ctx, o)
	if created && err == nil {
		l.opened(&o, &op)
	}
	return op, created, err
}

// opened counts the first move of a new operation: as it was asked for, unless the
// ledger was restored. Then it is a doubt, and nobody is asked yet.
func (l *observedLedger) opened(o *ledger.Opening, op *ledger.Operation) {
	event := o.Event
	if op.Reason == ledger.ReasonRestored {
		event = ledger.Doubt
	}
	to, _ := ledger.Next(ledger.New, event) // op may have been found when it had moved on
	l.moves.Moved(op.Tenant, op.ActionType, string(event), string(to))
	switch {
	case event == ledger.Doubt:
		l.moves.Doubted(op.Tenant, op.ActionType, l.provider(op), op.Reason)
	case o.Review != nil:
		l.moves.ReviewOpened(op.Tenant, op.ActionType, string(o.Review.Reason))
	}
}

// Start implements Ledger.
func (l *observedLedger) Start(ctx context.Context, c ledger.Claiming) (ledger.Operation, error) {
	op, err := l.Ledger.Start(ctx, c)
	if err == nil {
		l.moves.Moved(op.Tenant, op.ActionType, string(c.Event), string(op.State))
	}
	return op, err
}

// Correct implements Ledger.
func (l *observedLedger) Correct(ctx context.Context, existing ledger.Operation, o ledger.Opening) (ledger.Operation, error) {
	op, err := l.Ledger.Correct(ctx, existing, o)
	if err == nil {
		l.moves.Moved(op.Tenant, op.ActionType, string(ledger.Correct), string(op.State))
	}
	return op, err
}

// Apply implements Ledger.
func (l *observedLedger) Apply(ctx context.Context, c ledger.Change) (ledger.Operation, error) {
	op, err := l.Ledger.Apply(ctx, c)
	if err == nil {
		l.changed(&c, &op)
	}
	return op, err
}

// ExpireLeases implements Ledger.
func (l *observedLedger) ExpireLeases(ctx context.Context, limit int) (ops []ledger.Operation, more bool, err error) {
	ops, more, err = l.Ledger.ExpireLeases(ctx, limit)
	for i := range ops {
		op := &ops[i]
		l.moves.LeaseExpired(op.Tenant, op.ActionType)
		l.moves.Moved(op.Tenant, op.ActionType, string(ledger.Doubt), string(op.State))
		l.moves.Doubted(op.Tenant, op.ActionType, l.provider(op), op.Reason)
	}
	return ops, more, err
}

// AddEvidence implements Ledger.
func (l *observedLedger) AddEvidence(ctx context.Context, e ledger.Evidence) (ledger.Operation, error) {
	op, err := l.Ledger.AddEvidence(ctx, e)
	if err == nil && e.Incident != "" {
		l.moves.Contradicted(op.Tenant, op.ActionType, l.provider(&op))
	}
	return op, err
}

// changed counts a change that was made; op is the operation after it, or, where its
// answer was lost, as it was found.
func (l *observedLedger) changed(c *ledger.Change, op *ledger.Operation) {
	was := &c.Operation
	to, _ := ledger.Next(was.State, c.Event)
	l.moves.Moved(op.Tenant, op.ActionType, string(c.Event), string(to))
	switch {
	case to == ledger.Unknown:
		l.moves.Doubted(op.Tenant, op.ActionType, l.provider(op), c.Reason)
	case was.State == ledger.Unknown, was.State == ledger.Running && was.InDoubt:
		// By the ledger's clock, both. A replay is no end: it ends as the attempt does.
		l.moves.DoubtEnded(l.provider(op), string(to), op.UpdatedAt.Sub(was.DoubtedAt))
	}
	if c.Review != nil {
		l.moves.ReviewOpened(op.Tenant, op.ActionType, string(c.Review.Reason))
		if c.Review.Reason == ledger.Contradicted {
			l.moves.Contradicted(op.Tenant, op.ActionType, l.provider(op))
		}
	}
	if c.Decision != nil {
		l.moves.ReviewDecided(op.Tenant, op.ActionType, string(c.Decision.Decision))
	}
}

// attempts tell telemetry of attempts, and the ledger's count of the moves that only
// a dispatcher can find.
type attempts struct {
	*telemetry.Attempts
	book *observedLedger
}

// FoundMade implements dispatch.Metrics.
func (a attempts) FoundMade(c ledger.Change, now ledger.Operation) { a.book.changed(&c, &now) }
