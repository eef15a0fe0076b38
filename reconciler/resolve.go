package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/internal/panics"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/optrace"
)

const actor = "reconciler"

// Gaps for rows that cannot be worked on here.
const (
	notHereGap = 30 * time.Second
	busyGap    = time.Second
	stoppedGap = notHereGap // where a kill switch is set
)

// What a person is told when an attempt can no longer be made.
const (
	requestChanged = "The request would no longer be the one that was frozen at the first attempt: the adapter or its contract changed. Nothing more was sent. To retry sends it anew, with another provider key."
	notHere        = "No replica that looked has the adapter of this action type and the key to its stored arguments; their logs say which is missing. Nothing more was sent."
	restored       = "The ledger was restored from a backup, and this operation may have been performed in the time that was lost, under an operation id that is not known any more. Look for the effect on the provider by what it does, and in an export of the audit record by its key. Nothing more was sent."
	argumentsGone  = "The arguments are no longer stored, so that nothing can be sent or looked for. Nothing more was sent."
)

// resolve works once on a leased unknown operation.
func (r *Reconciler) resolve(ctx context.Context, op ledger.Operation) error {
	result, err := r.look(ctx, op)
	switch {
	case errors.Is(err, ledger.ErrFenced):
		result = resultOvertaken
	case err != nil:
		result = resultError
	}
	if ctx.Err() == nil { // else it was this process that ended, and not the look
		provider, _ := r.Dispatcher.Provider(op)
		r.Metrics.Looked(op.Tenant, op.ActionType, provider, result)
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(optrace.ResultKey.String(result))
	}
	return err
}

// look takes the next step about a doubt, and says what came of it.
func (r *Reconciler) look(ctx context.Context, op ledger.Operation) (result string, err error) {
	action, args, err := r.Dispatcher.Reload(ctx, op)
	switch {
	case errors.Is(err, ledger.ErrUnavailable):
		return "", err // the lease runs out and somebody takes over
	case errors.Is(err, ledger.ErrNotFound):
		return resultEscalated, r.escalate(ctx, op, ledger.Inconclusive, argumentsGone)
	case err != nil && op.Resolves > actions.DefaultMaxResolves:
		return resultEscalated, r.escalate(ctx, op, ledger.Inconclusive, notHere)
	case err != nil:
		// No adapter, or no key to the arguments: another replica may have them.
		return resultPostponed, r.postpone(ctx, op, ledger.Postponement{Delay: notHereGap, Reason: op.Reason}, err)
	}
	if op, err = r.withAttempts(ctx, op); err != nil {
		return "", err
	}
	looker, canLookUp := action.Adapter.(actions.Looker)
	now := op.LeaseExpiresAt.Add(-r.Lease) // the ledger's time when it leased the row
	switch next := nextStep(op, action.Spec, canLookUp, now, r.Dispatcher.Lease(action.Spec)); next.kind {
	case replay:
		result, err := r.replay(ctx, op)
		wait, why, held := heldBack(err)
		if !held {
			return result, err
		}
		// Nothing may be sent; to ask sends nothing.
		r.log(op).Info("not replayed", "reason", why)
		if canLookUp && op.Resolves < action.Spec.MaxResolves { // the last try is kept for the replay
			return r.lookUp(ctx, op, action.Spec, looker, args, now)
		}
		return resultPostponed, r.postpone(ctx, op, ledger.Postponement{Delay: wait, Reason: op.Reason, NegativeReads: op.NegativeReads, Untried: true}, nil)
	case lookUp:
		return r.lookUp(ctx, op, action.Spec, looker, args, now)
	case wait:
		return resultPostponed, r.postpone(ctx, op, ledger.Postponement{Delay: next.delay, Reason: op.Reason, NegativeReads: op.NegativeReads, Untried: true}, nil)
	default:
		return resultEscalated, r.escalate(ctx, op, next.reason, next.detail)
	}
}

// withAttempts adds how the attempts of an operation ended, where there were
// several: which of them count, and which may have made something.
func (r *Reconciler) withAttempts(ctx context.Context, op ledger.Operation) (ledger.Operation, error) {
	if op.Attempt <= 1 {
		return op, nil
	}
	known, err := r.Ledger.Get(ctx, op.Tenant, op.ID)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return op, err // the lease runs out and somebody takes over
	}
	op.Attempts = known.Attempts // the rest stays as it was leased
	return op, nil
}

// heldBack reports whether a replay was not sent for a reason that says nothing about
// the provider's look-up: a kill switch, or enough further attempts in the last minute.
// (One that does not answer is not asked either.) wait is until it may be sent.
func heldBack(err error) (wait time.Duration, why string, held bool) {
	var stopped *ledger.StoppedError
	var spent *dispatch.RetryBudgetError
	switch {
	case errors.As(err, &stopped):
		return stoppedGap, "stopped by a kill switch: " + stopped.Switch.Reason, true
	case errors.As(err, &spent):
		return spent.RetryAfter, "the retry budget is used up", true
	default:
		return 0, "", false
	}
}

// replay sends the same request with the same provider key again. Its result is of
// [Reconciler.resolve], as that of lookUp is.
func (r *Reconciler) replay(ctx context.Context, op ledger.Operation) (result string, err error) {
	settled, err := r.Dispatcher.Attempt(ctx, op, ledger.Replay, actor)
	if _, _, held := heldBack(err); held {
		return "", err
	}
	if wait, later := dispatch.Later(err); later {
		return resultPostponed, r.postpone(ctx, op, ledger.Postponement{Delay: wait, Reason: op.Reason, NegativeReads: op.NegativeReads, Untried: true}, nil)
	}
	switch {
	case err == nil:
		r.log(settled).Info("replayed with the same provider key", "state", settled.State)
		return resultReplayed, nil
	case errors.Is(err, dispatch.ErrRequestChanged):
		return resultEscalated, r.escalate(ctx, op, ledger.Inconclusive, requestChanged)
	case errors.Is(err, ledger.ErrFenced):
		// Overtaken, or the horizon passed meanwhile: the row says which.
		return resultPostponed, r.postpone(ctx, op, ledger.Postponement{Delay: busyGap, Reason: op.Reason}, nil)
	case errors.Is(err, dispatch.ErrBusy):
		return resultPostponed, r.postpone(ctx, op, ledger.Postponement{Delay: busyGap, Reason: op.Reason, Untried: true}, err)
	default:
		return "", err
	}
}

// lookUp asks the provider whether the effect exists, and acts on the finding.
func (r *Reconciler) lookUp(ctx context.Context, op ledger.Operation, spec actions.Spec, looker actions.Looker, args actions.Arguments, now time.Time) (result string, err error) {
	finding := r.find(ctx, op, spec, looker, args)
	if err := ctx.Err(); err != nil {
		return "", err
	}
	r.log(op).Info("looked up", "finding", finding.Kind.String(), "detail", finding.Detail)
	change := ledger.Change{Operation: op, Leased: true, Actor: actor, Detail: "look-up: " + finding.Kind.String() + " " + finding.Detail}
	switch finding.Kind {
	case actions.Found:
		if op.ProviderReference != "" && op.ProviderReference != finding.Receipt.Reference {
			return resultEscalated, r.escalate(ctx, op, ledger.Contradicted, fmt.Sprintf("The look-up found %s, but the provider had answered with %s. The target may hold two effects.", finding.Receipt.Reference, op.ProviderReference))
		}
		if finding.Receipt.Reference == "" {
			break // a finding without a reference is no receipt
		}
		change.Event, change.Effect = ledger.Confirm, ledger.EffectApplied
		change.ProviderReference, change.Receipt = finding.Receipt.Reference, actions.Redact(finding.Receipt.JSON, spec.SensitiveReceipt)
		return resultFound, r.apply(ctx, change)
	case actions.Several:
		return resultEscalated, r.escalate(ctx, op, ledger.Contradicted, "The look-up found several effects of one operation: "+joined(finding.References)+".")
	case actions.Foreign:
		if op.Reason == ledger.ReasonRestored {
			// The operation id that it carries may be the one that was forgotten.
			return resultEscalated, r.escalate(ctx, op, ledger.Inconclusive, restored+" The name is taken by "+cmp.Or(joined(finding.References), "something")+": "+finding.Detail)
		}
		if op.Effect == ledger.EffectApplied || op.ProviderReference != "" {
			return resultEscalated, r.escalate(ctx, op, ledger.Contradicted, "The provider answered as if it had done it, but the name is taken by something that this operation did not make. "+finding.Detail)
		}
		change.Event, change.Effect = ledger.Refuse, ledger.EffectNotApplied
		change.Failure = &ledger.Failure{Code: "taken_by_another", Message: "The name is taken by something that this operation did not make. " + finding.Detail, Correctable: true}
		return finding.Kind.String(), r.apply(ctx, change)
	case actions.Ended:
		ended := endedReference(op, finding)
		switch {
		case op.Effect == ledger.EffectApplied:
			return resultEscalated, r.escalate(ctx, op, ledger.Contradicted, "The provider answered as if it had done it, and now says that it ended without an effect. "+finding.Detail)
		case dispatch.EndsAll(op, spec.Contract.Keys, ended):
			change.Event, change.Effect = ledger.Refuse, ledger.EffectNotApplied
			change.Failure, change.Watch = dispatch.EndedFailure(finding.Failure), spec.Contract.LateLanding
			return finding.Kind.String(), r.apply(ctx, change)
		case op.Resolves >= spec.MaxResolves:
			return resultEscalated, r.escalate(ctx, op, ledger.Inconclusive, "What the look-up found ended without an effect, but another attempt may have made something that is not listed. "+finding.Detail)
		}
		// What another attempt made may be listed later.
	case actions.Absent:
		weighed := weighAbsence(op, spec, now)
		if weighed.ask {
			return resultEscalated, r.escalate(ctx, op, ledger.Inconclusive, restored+" The look-up finds nothing.")
		}
		if !weighed.proved {
			return resultNotSeen, r.postpone(ctx, op, ledger.Postponement{Delay: notBefore(weighed.delay, finding.After), Reason: op.Reason, NegativeReads: weighed.negativeReads}, nil)
		}
		return resultAbsent, r.apply(ctx, absent(change, spec, now))
	default: // inconclusive
	}
	delay := notBefore(resolveGap(op.Resolves, spec.Contract.Lookup.ReadGap), finding.After)
	return resultInconclusive, r.postpone(ctx, op, ledger.Postponement{Delay: delay, Reason: op.Reason}, nil)
}

// endedReference names what a look-up says has ended: without a name of its own
// it is what the look-up was given.
func endedReference(op ledger.Operation, finding actions.Finding) string {
	switch {
	case finding.Receipt.Reference != "":
		return finding.Receipt.Reference
	case len(finding.References) == 1:
		return finding.References[0]
	default:
		return op.ProviderReference
	}
}

// absent completes the change for a proved absence: the same operation is
// tried again, or closed when its attempts are used up. Either way the
// reconciler keeps looking for a late landing.
func absent(change ledger.Change, spec actions.Spec, now time.Time) ledger.Change {
	change.Effect, change.Watch = ledger.EffectNotApplied, spec.Contract.LateLanding
	change.Failure = &ledger.Failure{Code: "not_applied", Message: "The provider has no effect of this operation."}
	change.Event, change.Reason = ledger.Defer, "absent"
	change.BumpEpoch = spec.Contract.Keys.StoresFailures
	switch op := change.Operation; {
	case dispatch.Tries(op) >= dispatch.MaxAttempts(op, spec):
		change.Event, change.BumpEpoch = ledger.Refuse, false
		change.Failure.Code = "attempts_exhausted"
	case dispatch.GivenUp(op, now):
		change.Event, change.BumpEpoch = ledger.Refuse, false
		change.Failure = dispatch.GaveUp(op, change.Failure)
	}
	return change
}

// find calls the adapter's look-up, in its time and behind a recover.
func (r *Reconciler) find(ctx context.Context, op ledger.Operation, spec actions.Spec, looker actions.Looker, args actions.Arguments) (finding actions.Finding) {
	ctx, cancel := context.WithTimeout(ctx, r.LookupTimeout)
	defer cancel()
	ctx, span := r.spans.Within(ctx, "lookup")
	began := time.Now()
	defer func() {
		if p := recover(); p != nil {
			r.log(op).Error("look-up panicked", panics.Attr(p))
			finding = actions.Finding{Detail: "the adapter panicked"}
		}
		r.Metrics.LookedUp(spec.Contract.Provider, time.Since(began))
		if span.IsRecording() {
			span.SetAttributes(optrace.ProviderKey.String(spec.Contract.Provider), optrace.ResultKey.String(finding.Kind.String()))
		}
		span.End()
		// Providers repeat what they were sent.
		finding.Detail = args.Scrub(finding.Detail, spec.SensitiveArgs)
		finding.Failure.Message = args.Scrub(finding.Failure.Message, spec.SensitiveArgs)
		finding.Failure.Evidence = args.Scrub(finding.Failure.Evidence, spec.SensitiveArgs)
	}()
	return looker.Lookup(ctx, actions.Query{
		Call: r.Dispatcher.Call(op, args), ProviderReference: op.ProviderReference,
		FirstSentAt: op.FirstSentAt, LastSentAt: op.LastSentAt,
	})
}

// escalate asks a person: once, since the operation leaves unknown by it.
func (r *Reconciler) escalate(ctx context.Context, op ledger.Operation, reason ledger.ReviewReason, detail string) error {
	return r.apply(ctx, ledger.Change{
		Operation: op, Leased: op.State == ledger.Unknown, Event: ledger.Escalate, Actor: actor, Detail: detail,
		Effect: op.Effect, Reason: op.Reason, InDoubt: op.InDoubt, Failure: op.Failure,
		Review: &ledger.ReviewOpening{ID: dispatch.NewID(), Reason: reason, Detail: detail},
	})
}

// apply makes a move. ledger.ErrFenced means that somebody else has moved the
// operation on.
func (r *Reconciler) apply(ctx context.Context, change ledger.Change) error {
	moved, err := r.Ledger.Apply(ctx, change)
	if err != nil {
		return err
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(optrace.StateKey.String(string(moved.State)), optrace.EventKey.String(string(change.Event)))
	}
	r.Changed(moved)
	r.log(moved).Info("moved", "event", change.Event, "state", moved.State)
	if change.Event == ledger.Escalate {
		r.log(moved).Warn("a person must decide", "reason", change.Review.Reason, "detail", change.Review.Detail)
	}
	return nil
}

func (r *Reconciler) postpone(ctx context.Context, op ledger.Operation, p ledger.Postponement, cause error) error {
	if cause != nil {
		r.log(op).Error("cannot be worked on now", "error", cause)
	}
	p.Operation = op
	_, err := r.Ledger.Postpone(ctx, p)
	return err
}

func joined(references []string) string { return strings.Join(references, ", ") }
