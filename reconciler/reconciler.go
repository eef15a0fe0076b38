package reconciler

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/optrace"
)

// Ledger is what the reconciler needs of the store.
type Ledger interface {
	Apply(ctx context.Context, c ledger.Change) (ledger.Operation, error)
	AddEvidence(ctx context.Context, e ledger.Evidence) (ledger.Operation, error)
	ExpireLeases(ctx context.Context, limit int) (ops []ledger.Operation, more bool, err error)
	DuePending(ctx context.Context, limit int) ([]ledger.Operation, error)
	LeaseUnknown(ctx context.Context, limit int, lease time.Duration) ([]ledger.Operation, error)
	Postpone(ctx context.Context, p ledger.Postponement) (ledger.Operation, error)
	ExpiredReviews(ctx context.Context, limit int) ([]ledger.Operation, error)
	ApprovedReviews(ctx context.Context, limit int) ([]ledger.Operation, error)
	LeaseWatched(ctx context.Context, limit int, gap time.Duration) ([]ledger.Operation, error)
	EndWatch(ctx context.Context, op ledger.Operation) error
	Sweep(ctx context.Context, limit int) (buried, swept int64, more bool, err error)
	PrepareAudit(ctx context.Context, days int) error
	Inbox
	Records
}

// Dispatcher is what the reconciler needs of dispatch.
type Dispatcher interface {
	Attempt(ctx context.Context, op ledger.Operation, event ledger.Event, actor string) (ledger.Operation, error)
	Reload(ctx context.Context, op ledger.Operation) (*actions.Action, actions.Arguments, error)
	Call(op ledger.Operation, args actions.Arguments) actions.Call
	Lease(spec actions.Spec) time.Duration
	Provider(op ledger.Operation) (name string, here bool)
	Report(ctx context.Context, op ledger.Operation, r dispatch.Report) (ledger.Operation, error)
}

var _ Dispatcher = (*dispatch.Dispatcher)(nil)

// Options configure a Reconciler. Ledger, Dispatcher and Log are required.
type Options struct {
	Ledger     Ledger
	Dispatcher Dispatcher
	Log        *slog.Logger
	// Changed is told every new state of an operation, if set. It must not
	// block.
	Changed func(ledger.Operation)
	// Metrics is told what was looked for and found; nil: nobody is.
	Metrics Metrics
	// Tracers make the spans of what is done; nil: there are none.
	Tracers trace.TracerProvider

	Interval      time.Duration // between two rounds; default 1 s
	Concurrency   int           // attempts, looks, and events weighed, at once; default 16 each
	Lease         time.Duration // of a row; longer than LookupTimeout; default 1 min
	LookupTimeout time.Duration // default 20 s, or a third of the lease where that is less
	WatchGap      time.Duration // between two looks for a late landing; default 15 s
	SweepInterval time.Duration // between two clean-ups; default 30 s
	SweepBatch    int           // rows of one clean-up; default 2000
}

// Reconciler resolves doubt and does what is due. Run it once per process, in
// as many processes as you like.
type Reconciler struct {
	Options
	// Places for work. Attempts have their own: a slow provider with a backlog
	// must not keep doubt about other operations waiting.
	attempts, looks chan struct{}
	hearings        chan struct{} // events: they call nobody, and wait for nobody who does
	noInbox         time.Time     // until then there is nothing to hear; of Run alone
	spans           optrace.Tracer
}

// New makes a reconciler with the defaults filled in.
func New(o Options) *Reconciler {
	o.Interval = orDefault(o.Interval, time.Second)
	o.Concurrency = orDefault(o.Concurrency, 16)
	o.Lease = orDefault(o.Lease, time.Minute)
	o.LookupTimeout = orDefault(o.LookupTimeout, min(20*time.Second, o.Lease/3))
	o.WatchGap = orDefault(o.WatchGap, 15*time.Second)
	o.SweepInterval = orDefault(o.SweepInterval, 30*time.Second)
	o.SweepBatch = orDefault(o.SweepBatch, 2000)
	if o.Changed == nil {
		o.Changed = func(ledger.Operation) {}
	}
	if o.Metrics == nil {
		o.Metrics = unmeasured{}
	}
	return &Reconciler{
		Options: o, attempts: make(chan struct{}, o.Concurrency), looks: make(chan struct{}, o.Concurrency), hearings: make(chan struct{}, o.Concurrency),
		spans: optrace.New(o.Tracers, "github.com/onceward/onceward/reconciler"),
	}
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Run does rounds until ctx ends, and returns when the work under way has
// ended. A round that fails is logged, and the next one tries again.
func (r *Reconciler) Run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	tick := time.NewTicker(r.Interval)
	defer tick.Stop()
	var swept, prepare time.Time
	sweeping := make(chan struct{}, 1) // the one place for a clean-up
	for ctx.Err() == nil {
		if !time.Now().Before(prepare) {
			prepare = time.Now().Add(prepareInterval)
			if err := r.Ledger.PrepareAudit(ctx, prepareDays); err != nil && ctx.Err() == nil {
				prepare = time.Now().Add(prepareAgain)
				r.Log.Error("reconciler: prepare the audit record of the days to come", "error", err)
			}
		}
		began := time.Now()
		more, complete := r.round(ctx, &work)
		if complete {
			r.Metrics.Round(time.Now(), time.Since(began))
		}
		if time.Since(swept) >= r.SweepInterval {
			select {
			case sweeping <- struct{}{}:
				swept = time.Now()
				// Beside the rounds: doubt does not wait for a long clean-up, nor for
				// one that the ledger does not answer.
				work.Go(func() {
					defer func() { <-sweeping }()
					r.Sweep(ctx)
				})
			default: // the last one is still at it
			}
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// The audit record is prepared this often, for so many days to come.
const (
	prepareInterval = time.Hour
	prepareAgain    = time.Minute // where it failed
	prepareDays     = 7
)

// leaseBatch is how many leases are looked at in one statement.
const leaseBatch = 100

// round takes what is due and hands it to the work group. It takes no more
// than there are free places, so that a leased row is worked on at once. It
// reports whether more may be due that there is a place for, and whether the round
// is complete: the ledger has answered everything that it was asked.
func (r *Reconciler) round(ctx context.Context, work *sync.WaitGroup) (more, complete bool) {
	more, complete = r.expireLeases(ctx)
	// Before the doubts: what the provider said need not be asked.
	moreToHear, heard := r.hear(ctx, work)
	more, complete = moreToHear || more, heard && complete
	for _, duty := range []struct {
		span   string
		what   string
		places chan struct{}
		take   func(limit int) ([]ledger.Operation, error)
		do     func(context.Context, ledger.Operation) error
	}{
		{"retry", "deferred attempts", r.attempts, func(limit int) ([]ledger.Operation, error) { return r.Ledger.DuePending(ctx, limit) }, r.retry},
		{"reconcile", "resolve", r.looks, func(limit int) ([]ledger.Operation, error) { return r.Ledger.LeaseUnknown(ctx, limit, r.Lease) }, r.resolve},
		{"lapse", "lapse reviews", r.looks, func(limit int) ([]ledger.Operation, error) { return r.Ledger.ExpiredReviews(ctx, limit) }, r.lapse},
		{"approve", "finish approvals", r.looks, func(limit int) ([]ledger.Operation, error) { return r.Ledger.ApprovedReviews(ctx, limit) }, r.approved},
		{"watch", "watch late landings", r.looks, func(limit int) ([]ledger.Operation, error) { return r.Ledger.LeaseWatched(ctx, limit, r.WatchGap) }, r.watch},
	} {
		limit := cap(duty.places) - len(duty.places)
		if limit == 0 || ctx.Err() != nil {
			continue
		}
		ops, err := duty.take(limit)
		complete = complete && err == nil
		if err != nil && ctx.Err() == nil {
			r.Log.Error("reconciler: "+duty.what, "error", err)
		}
		more = more || len(ops) == limit
		for _, op := range ops {
			duty.places <- struct{}{}
			work.Go(func() {
				defer func() { <-duty.places }()
				ctx, span := r.spans.Work(ctx, &op, duty.span)
				err := r.unlessOvertaken(op, duty.do(ctx, op))
				endSpan(span, err)
				if err != nil && ctx.Err() == nil {
					r.log(op).Error("reconciler: "+duty.what, "error", err)
				}
			})
		}
	}
	return more, complete
}

// expireLeases moves operations whose worker did not report in time to unknown.
// It needs no place: it calls nobody.
func (r *Reconciler) expireLeases(ctx context.Context) (more, complete bool) {
	ops, more, err := r.Ledger.ExpireLeases(ctx, leaseBatch)
	if err != nil && ctx.Err() == nil {
		r.Log.Error("reconciler: expire leases", "error", err)
	}
	for _, op := range ops {
		r.log(op).Warn("lease ran out: the outcome is unknown")
		// The move is made; the span marks its place in the trace.
		_, span := r.spans.Work(ctx, &op, "lease expired")
		span.End()
		r.Changed(op)
	}
	return more, err == nil
}

// retry makes the deferred attempt of a pending operation.
func (r *Reconciler) retry(ctx context.Context, op ledger.Operation) error {
	settled, err := r.Dispatcher.Attempt(ctx, op, ledger.Claim, actor)
	if wait, later := dispatch.Later(err); later {
		return r.postpone(ctx, op, ledger.Postponement{Delay: wait, Reason: op.Reason, Untried: true}, nil)
	}
	var stopped *ledger.StoppedError
	switch {
	case err == nil:
		r.log(settled).Info("deferred attempt made", "state", settled.State)
		return nil
	case errors.As(err, &stopped):
		r.log(op).Info("stopped by a kill switch", "reason", stopped.Switch.Reason)
		return r.postpone(ctx, op, ledger.Postponement{Delay: stoppedGap, Reason: op.Reason}, nil)
	case errors.Is(err, ledger.ErrUnavailable), errors.Is(err, ledger.ErrFenced):
		return err
	case errors.Is(err, dispatch.ErrRequestChanged):
		return r.escalate(ctx, op, ledger.Inconclusive, requestChanged)
	case errors.Is(err, dispatch.ErrBusy):
		return r.postpone(ctx, op, ledger.Postponement{Delay: busyGap, Reason: op.Reason}, err)
	case errors.Is(err, ledger.ErrNotFound):
		return r.escalate(ctx, op, ledger.Inconclusive, argumentsGone)
	default:
		// A fault of this replica (its keys, its rights) decides nothing about
		// the operation.
		return r.postpone(ctx, op, ledger.Postponement{Delay: notHereGap, Reason: op.Reason}, err)
	}
}

// unlessKnown returns a reference unless the ledger has one: the first is never
// overwritten.
func unlessKnown(op ledger.Operation, reference string) string {
	if op.ProviderReference != "" {
		return ""
	}
	return reference
}

// lapse fails an operation whose approval was not given in time.
func (r *Reconciler) lapse(ctx context.Context, op ledger.Operation) error {
	return r.apply(ctx, ledger.Change{
		Operation: op, Event: ledger.Expire, Actor: actor, Detail: "nobody decided in time", Effect: op.Effect,
		Failure:  &ledger.Failure{Code: "approval_expired", Message: "Nobody approved the action in time; nothing was sent."},
		Decision: &ledger.ReviewClosing{Decision: ledger.Expired},
	})
}

// approved makes the move that the last vote of a review leads to, where whoever
// gave it did not get to it.
func (r *Reconciler) approved(ctx context.Context, op ledger.Operation) error {
	names := make([]string, len(op.Review.Approvals))
	for i, a := range op.Review.Approvals {
		names[i] = a.By
	}
	by := joined(names)
	return r.apply(ctx, ledger.Change{
		Operation: op, Event: ledger.Approve, Actor: actor, Detail: "approved by " + by, Effect: op.Effect, ResetResolves: true,
		Decision: &ledger.ReviewClosing{ReviewID: op.Review.ID, Decision: ledger.Approved, By: by, Note: "approved by as many as must"},
	})
}

// watch looks for effects that landed after their absence was proved.
func (r *Reconciler) watch(ctx context.Context, op ledger.Operation) error {
	action, args, err := r.Dispatcher.Reload(ctx, op)
	if errors.Is(err, ledger.ErrUnavailable) {
		return err
	}
	if err != nil { // nothing to look with; the watch still ends in its time
		return errors.Join(err, r.Ledger.EndWatch(ctx, op))
	}
	if looker, ok := action.Adapter.(actions.Looker); ok {
		finding := r.find(ctx, op, action.Spec, looker, args)
		if err := r.landed(ctx, op, finding); err != nil {
			return err
		}
	}
	return r.Ledger.EndWatch(ctx, op)
}

// landed acts on what a watch found.
func (r *Reconciler) landed(ctx context.Context, op ledger.Operation, finding actions.Finding) error {
	found := finding.References
	if finding.Kind == actions.Found {
		found = []string{finding.Receipt.Reference}
	}
	surprise := finding.Kind == actions.Several ||
		finding.Kind == actions.Found && (op.State == ledger.Failed || finding.Receipt.Reference != op.ProviderReference)
	switch {
	case !surprise:
		return nil
	case op.State == ledger.Failed:
		detail := "An effect landed after its absence was established: " + joined(found) + "."
		r.log(op).Error("INCIDENT: " + detail)
		return r.apply(ctx, ledger.Change{
			Operation: op, Event: ledger.Contradict, Actor: actor, Detail: detail,
			Effect: ledger.EffectApplied, Reason: dispatch.ReasonContradicted, InDoubt: true, ProviderReference: unlessKnown(op, found[0]),
			Review: &ledger.ReviewOpening{ID: dispatch.NewID(), Reason: ledger.Contradicted, Detail: detail},
		})
	case op.Incident != "":
		return nil // told once
	default:
		detail := "The target holds other effects of this operation than its receipt: " + joined(found) + "."
		r.log(op).Error("INCIDENT: " + detail)
		_, err := r.Ledger.AddEvidence(ctx, ledger.Evidence{
			Operation: op, Attempt: op.Attempt, Actor: actor, Detail: detail, Incident: detail,
		})
		return err
	}
}

// Sweep removes what is past its window, until nothing is due.
func (r *Reconciler) Sweep(ctx context.Context) {
	r.sweepEvents(ctx)
	r.sweepRecords(ctx)
	for ctx.Err() == nil {
		buried, swept, more, err := r.Ledger.Sweep(ctx, r.SweepBatch)
		if err != nil {
			if ctx.Err() == nil {
				r.Log.Error("reconciler: sweep", "error", err)
			}
			return
		}
		if buried+swept > 0 {
			r.Log.Info("swept", "tombstones", buried, "operations", swept)
		}
		if !more {
			return
		}
	}
}

func (r *Reconciler) log(op ledger.Operation) *slog.Logger {
	return r.Log.With("tenant", op.Tenant, "operation", op.ID, "action_type", op.ActionType, "run", op.Run.RunID, "step", op.Run.StepID, "attempt", op.Attempt, optrace.LogAttr(&op))
}
