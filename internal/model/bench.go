package model

import (
	"context"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/ledger"
)

// bench is the ledger and the dispatcher of the real reconciler: what it does is
// done to one key of one world.
type bench struct {
	model  *Model
	action *actions.Action

	key     *Key
	number  int // of the key
	finding Finding
	ref     uint8
	looked  bool  // it asked the provider
	failed  error // errFull
}

// run does what the real reconciler does about an operation that it knows as op,
// with finding as the answer to its look-up. It reports whether there was one.
func (m *Model) run(w *World, key int, op ledger.Operation, finding Finding, ref uint8) (looked bool, err error) {
	b := &m.bench
	b.key, b.number, b.finding, b.ref, b.looked, b.failed = &w.Keys[key], key, finding, ref, false, nil
	if err := m.reconciler.Work(context.Background(), op); err != nil {
		return b.looked, err
	}
	return b.looked, b.failed
}

func (b *bench) lookup() actions.Finding {
	b.looked = true
	name := b.model.names.text(b.ref)
	switch b.finding {
	case FoundOne:
		return actions.Finding{Kind: actions.Found, Receipt: actions.Receipt{Reference: name, JSON: []byte(`{}`)}}
	case FoundAbsent:
		return actions.Finding{Kind: actions.Absent}
	case FoundSeveral:
		return actions.Finding{Kind: actions.Several, References: []string{reference(1), reference(2)}}
	case FoundEnded:
		return actions.Finding{Kind: actions.Ended, References: []string{name}}
	default:
		return actions.Finding{}
	}
}

// What a reconciler writes.

func (b *bench) Apply(_ context.Context, c ledger.Change) (ledger.Operation, error) {
	err := b.model.apply(b.key, c)
	return b.now(), err
}

func (b *bench) AddEvidence(_ context.Context, e ledger.Evidence) (ledger.Operation, error) {
	err := b.model.addEvidence(b.key, e)
	return b.now(), err
}

func (b *bench) Postpone(_ context.Context, p ledger.Postponement) (ledger.Operation, error) {
	err := b.model.postpone(b.key, p)
	return b.now(), err
}

func (b *bench) EndWatch(context.Context, ledger.Operation) error {
	if r := &b.key.Row; b.model.state(*r).Final() && r.WatchEnds == 0 {
		r.WatchEnds, r.Sealed = never, false
	}
	return nil
}

// Get is of the row as it is now: the real reconciler takes the attempts from it.
func (b *bench) Get(context.Context, string, string) (ledger.Operation, error) {
	if !b.key.Row.Exists {
		return ledger.Operation{}, ledger.ErrNotFound
	}
	return b.now(), nil
}

func (b *bench) now() ledger.Operation { return b.model.operation(b.number, b.key.Row) }

// Attempt claims; the worker goes on by itself, since it may take as long as it
// likes.
func (b *bench) Attempt(_ context.Context, op ledger.Operation, event ledger.Event, _ string) (ledger.Operation, error) {
	err := b.model.start(b.key, op, event)
	if err == errFull { //nolint:errorlint // it is never wrapped
		b.failed = err
		return op, nil
	}
	return b.now(), err
}

func (b *bench) Reload(context.Context, ledger.Operation) (*actions.Action, actions.Arguments, error) {
	if !b.key.Row.Sealed {
		return nil, actions.Arguments{}, ledger.ErrNotFound
	}
	return b.action, actions.Arguments{}, nil
}

func (b *bench) Call(ledger.Operation, actions.Arguments) actions.Call { return actions.Call{} }

func (b *bench) Lease(spec actions.Spec) time.Duration { return b.model.leaseOf(spec) }

// What Work does not call: how rows are taken is the model's own affair.

func (*bench) ExpireLeases(context.Context, int) ([]ledger.Operation, bool, error) {
	return nil, false, nil
}
func (*bench) DuePending(context.Context, int) ([]ledger.Operation, error) { return nil, nil }
func (*bench) LeaseUnknown(context.Context, int, time.Duration) ([]ledger.Operation, error) {
	return nil, nil
}
func (*bench) ExpiredReviews(context.Context, int) ([]ledger.Operation, error)  { return nil, nil }
func (*bench) ApprovedReviews(context.Context, int) ([]ledger.Operation, error) { return nil, nil }
func (*bench) LeaseWatched(context.Context, int, time.Duration) ([]ledger.Operation, error) {
	return nil, nil
}
func (*bench) Sweep(context.Context, int) (buried, swept int64, more bool, err error) {
	return 0, 0, false, nil
}
func (*bench) PrepareAudit(context.Context, int) error { return nil }
func (*bench) LeaseEvents(context.Context, int, time.Duration) ([]ledger.InboxEvent, error) {
	return nil, nil
}
func (*bench) Referenced(context.Context, []ledger.InboxEvent) ([]ledger.Operation, error) {
	return nil, nil
}
func (*bench) PostponeEvent(context.Context, ledger.InboxEvent, time.Duration) error { return nil }
func (*bench) CloseEvent(context.Context, ledger.InboxEvent, string) error           { return nil }
func (*bench) SweepEvents(context.Context, int, time.Duration) (int64, error)        { return 0, nil }
func (*bench) Provider(ledger.Operation) (string, bool)                              { return "model", true }
func (*bench) Report(_ context.Context, op ledger.Operation, _ dispatch.Report) (ledger.Operation, error) {
	return op, nil
}
func (*bench) SweepTallies(context.Context, int, time.Duration) (int64, error)      { return 0, nil }
func (*bench) SweepObservations(context.Context, int, time.Duration) (int64, error) { return 0, nil }
