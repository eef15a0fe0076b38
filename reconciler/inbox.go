package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/optrace"
)

// Inbox is where events of providers wait to be weighed. Its methods fail with
// ledger.ErrNoInbox where the schema is older than it.
type Inbox interface {
	LeaseEvents(ctx context.Context, limit int, lease time.Duration) ([]ledger.InboxEvent, error)
	Referenced(ctx context.Context, events []ledger.InboxEvent) ([]ledger.Operation, error)
	Get(ctx context.Context, tenant, id string) (ledger.Operation, error)
	PostponeEvent(ctx context.Context, e ledger.InboxEvent, delay time.Duration) error
	CloseEvent(ctx context.Context, e ledger.InboxEvent, note string) error
	SweepEvents(ctx context.Context, limit int, keep time.Duration) (swept int64, err error)
}

// hearsay is who moves an operation because of an event.
const hearsay = "webhook"

const (
	// noInboxGap is until the next look for an inbox that the schema has not.
	noInboxGap = time.Minute
	// strangerPatience is how long an event waits for an operation that has its
	// reference. The answer of an attempt may bring it, which takes an attempt's
	// time-out and lease; an event that names nothing of ours never matches.
	strangerPatience = time.Hour
	// eventMemory is how long an event that was weighed is known, so that one
	// that is sent again does nothing. Providers send again for days.
	eventMemory = 30 * 24 * time.Hour
	// Between two looks at an event: it grows fourfold, since most events that
	// find nothing are of operations whose answer came, and there may be one for
	// each of those.
	firstEventGap = 250 * time.Millisecond
	maxEventGap   = 30 * time.Minute
	maxAnswerGap  = 5 * time.Second // while an attempt is under way
	maxAbsentGap  = 5 * time.Minute // while no replica has the adapter
)

// hear takes events that are due, as many as there are places, and hands them to
// the work group. It reports whether more may be due, and whether the ledger has
// answered.
func (r *Reconciler) hear(ctx context.Context, work *sync.WaitGroup) (more, complete bool) {
	limit := cap(r.hearings) - len(r.hearings)
	if limit == 0 || ctx.Err() != nil || time.Now().Before(r.noInbox) {
		return false, true
	}
	events, err := r.Ledger.LeaseEvents(ctx, limit, r.Lease)
	if errors.Is(err, ledger.ErrNoInbox) {
		r.noInbox = time.Now().Add(noInboxGap)
		return false, true
	}
	var named map[referenced][]ledger.Operation
	if err == nil {
		named, err = r.named(ctx, events)
	}
	if err != nil { // what was leased comes up again
		if ctx.Err() == nil {
			r.Log.Error("reconciler: events", "error", err)
		}
		return false, false
	}
	for _, e := range events {
		r.hearings <- struct{}{}
		work.Go(func() {
			defer func() { <-r.hearings }()
			if err := r.weigh(ctx, e, named[referenced{e.Tenant, e.Reference}]); err != nil && ctx.Err() == nil {
				r.eventLog(e).Error("reconciler: event", "error", err)
			}
		})
	}
	return len(events) == limit, true
}

// referenced is how events name operations whose id did not come back.
type referenced struct{ tenant, reference string }

// named finds the operations that events name by a reference alone.
func (r *Reconciler) named(ctx context.Context, events []ledger.InboxEvent) (map[referenced][]ledger.Operation, error) {
	var nameless []ledger.InboxEvent
	for _, e := range events {
		if e.OperationID == "" {
			nameless = append(nameless, e)
		}
	}
	if len(nameless) == 0 {
		return nil, nil
	}
	ops, err := r.Ledger.Referenced(ctx, nameless)
	named := map[referenced][]ledger.Operation{}
	for _, op := range ops {
		key := referenced{op.Tenant, op.ProviderReference}
		named[key] = append(named[key], op)
	}
	return named, err
}

// weigh works once on a leased event; named are the operations that have its
// reference.
func (r *Reconciler) weigh(ctx context.Context, e ledger.InboxEvent, named []ledger.Operation) error {
	var op ledger.Operation
	if e.OperationID != "" {
		var err error
		op, err = r.Ledger.Get(ctx, e.Tenant, e.OperationID)
		switch {
		case errors.Is(err, ledger.ErrNotFound):
			// The ledger is first: an operation that was sent is there before its
			// event. This one was swept, or is another tenant's, or nobody's.
			return r.closeEvent(ctx, e, "no such operation")
		case err != nil:
			return err
		}
		return r.report(ctx, e, op)
	}
	ours, unsure := 0, false
	for _, candidate := range named {
		switch provider, here := r.Dispatcher.Provider(candidate); {
		case !here:
			unsure = true
		case provider == e.Provider:
			op, ours = candidate, ours+1
		}
	}
	switch {
	case ours == 1:
		return r.report(ctx, e, op)
	case ours > 1:
		r.eventLog(e).Error("INCIDENT: several operations have the reference of one event", "reference", e.Reference, "operations", ours)
		return r.closeEvent(ctx, e, fmt.Sprintf("%d operations have this reference", ours))
	case unsure:
		return r.notHere(ctx, e, dispatch.ErrNoAdapter)
	case e.Age < strangerPatience:
		return r.Ledger.PostponeEvent(ctx, e, eventGap(e.Looks, maxEventGap))
	default:
		return r.closeEvent(ctx, e, "no operation in doubt has this reference")
	}
}

// report tells the event to the operation that it is about.
func (r *Reconciler) report(ctx context.Context, e ledger.InboxEvent, op ledger.Operation) error {
	reporting, span := r.spans.Work(ctx, &op, "webhook")
	reported, err := r.Dispatcher.Report(reporting, op, dispatch.Report{Provider: e.Provider, Event: eventOf(e), Actor: hearsay})
	if span.IsRecording() {
		span.SetAttributes(optrace.ProviderKey.String(e.Provider), optrace.OutcomeKey.String(e.Outcome), optrace.StateKey.String(string(reported.State)))
	}
	endSpan(span, err)
	switch {
	case err == nil && reported.Revision == op.Revision:
		return r.closeEvent(ctx, e, "no news: the operation is "+string(reported.State))
	case err == nil:
		return r.closeEvent(ctx, e, "recorded: the operation is "+string(reported.State))
	case errors.Is(err, dispatch.ErrNotYet):
		return r.Ledger.PostponeEvent(ctx, e, eventGap(e.Looks, maxAnswerGap))
	case errors.Is(err, dispatch.ErrOtherProvider):
		return r.closeEvent(ctx, e, "the operation is on another provider")
	case errors.Is(err, dispatch.ErrNoAdapter) && op.State.Final():
		return r.closeEvent(ctx, e, "the operation is "+string(op.State)+" and its adapter is not here")
	case errors.Is(err, dispatch.ErrNoAdapter):
		return r.notHere(ctx, e, err)
	case errors.Is(err, ledger.ErrFenced):
		return r.Ledger.PostponeEvent(ctx, e, eventGap(e.Looks, maxAnswerGap))
	case errors.Is(err, ledger.ErrNotFound):
		return r.closeEvent(ctx, e, "the operation is gone")
	default:
		return err // the lease runs out and somebody takes over
	}
}

// notHere leaves an event to a replica that has the adapter.
func (r *Reconciler) notHere(ctx context.Context, e ledger.InboxEvent, cause error) error {
	r.eventLog(e).Error("cannot be worked on now", "error", cause)
	return r.Ledger.PostponeEvent(ctx, e, max(notHereGap, eventGap(e.Looks, maxAbsentGap)))
}

func (r *Reconciler) closeEvent(ctx context.Context, e ledger.InboxEvent, note string) error {
	if err := r.Ledger.CloseEvent(ctx, e, note); err != nil {
		return err
	}
	r.eventLog(e).Info("event weighed", "says", e.Outcome, "note", note)
	return nil
}

// sweepEvents forgets events that were weighed long ago.
func (r *Reconciler) sweepEvents(ctx context.Context) {
	for ctx.Err() == nil {
		swept, err := r.Ledger.SweepEvents(ctx, r.SweepBatch, eventMemory)
		if err != nil && !errors.Is(err, ledger.ErrNoInbox) && ctx.Err() == nil {
			r.Log.Error("reconciler: sweep events", "error", err)
		}
		if err != nil || swept < int64(r.SweepBatch) {
			return
		}
	}
}

// eventGap is until the next look at an event that nothing came of yet.
func eventGap(looks int, most time.Duration) time.Duration {
	return min(firstEventGap<<min(2*max(looks-1, 0), 32), most)
}

// eventOf is what the inbox holds, as dispatch weighs it.
func eventOf(e ledger.InboxEvent) actions.Event {
	event := actions.Event{
		ID: e.ID, OperationID: e.OperationID, Reference: e.Reference, Detail: e.Detail,
		Outcome: actions.Outcome{Kind: kindOf(e.Outcome), Receipt: actions.Receipt{Reference: e.Reference, JSON: e.Receipt}},
	}
	if f := e.Failure; f != nil {
		event.Outcome.Failure = actions.Failure{Code: f.Code, Message: f.Message, Correctable: f.Correctable}
		for _, v := range f.Violations {
			event.Outcome.Failure.Violations = append(event.Outcome.Failure.Violations, actions.Violation{Field: v.Field, Reason: v.Reason, Message: v.Message})
		}
	}
	return event
}

// kindOf is what an event proves; what is not known here proves nothing.
func kindOf(outcome string) actions.Kind {
	for _, kind := range []actions.Kind{actions.Applied, actions.AppliedNoReceipt, actions.Rejected, actions.Accepted} {
		if kind.String() == outcome {
			return kind
		}
	}
	return actions.Ambiguous
}

func (r *Reconciler) eventLog(e ledger.InboxEvent) *slog.Logger {
	return r.Log.With("tenant", e.Tenant, "provider", e.Provider, "event", e.ID, "operation", e.OperationID)
}
