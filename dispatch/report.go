package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

var (
	// ErrNotYet: an attempt is under way, and what a report means depends on its
	// answer; or what the ledger holds contradicts itself and is about to be put
	// before a person. Report again later; the lease of the attempt, and the next
	// look of the reconciler, bound the wait.
	ErrNotYet = errors.New("dispatch: it is too early to say what the report means")
	// ErrOtherProvider: the operation is not performed on the provider that
	// reports. Nothing was changed.
	ErrOtherProvider = errors.New("dispatch: the operation is on another provider")
)

// reportTries is how often a report is weighed anew when the operation moves on
// under it.
const reportTries = 4

// Report is what a provider said by itself about an operation.
type Report struct {
	Provider string // that said it, by its name in contracts
	Event    actions.Event
	Actor    string // of the audit record
}

// Report records what a provider said by itself (a webhook event) about an
// operation, and returns the operation as it is then. It proves what the answer
// of an attempt would prove, and is late by nature: it confirms what is unknown
// or running, refuses what is unknown and has ended for good, contradicts what
// was called not applied, and never moves a final state. Reporting twice is
// harmless; evidence that moves nothing is then in the audit record twice.
//
// Its errors: ErrNotYet, ErrOtherProvider, ErrNoAdapter, ledger.ErrFenced when
// the operation kept moving on, ledger.ErrNotFound, ledger.ErrUnavailable. The
// report is not recorded then.
func (d *Dispatcher) Report(ctx context.Context, op ledger.Operation, r Report) (ledger.Operation, error) {
	action, ok := d.Registry.At(op.ActionType, op.AdapterVersion, op.ContractVersion)
	switch {
	case !ok:
		return op, fmt.Errorf("%w: %s", ErrNoAdapter, op.ActionType)
	case action.Spec.Contract.Provider != r.Provider:
		return op, ErrOtherProvider
	}
	r.Event.Outcome.Receipt.JSON = actions.Redact(r.Event.Outcome.Receipt.JSON, action.Spec.SensitiveReceipt)
	var err error
	if r.Event.Outcome.Failure, err = d.withoutArguments(ctx, op, action.Spec.SensitiveArgs, r.Event.Outcome); err != nil {
		return op, err
	}
	if r.Event.Outcome.Kind == actions.Rejected && op.Attempt > 1 && op.Attempts == nil {
		// How they ended says which of them may have made what ended.
		if op, err = d.Ledger.Get(ctx, op.Tenant, op.ID); err != nil {
			return op, err
		}
	}
	for range reportTries {
		v, wait := weigh(op, action.Spec.Contract.Keys, r.Event)
		if wait {
			return op, ErrNotYet
		}
		if v.change == nil && v.evidence == nil {
			return op, nil
		}
		v.by(r.Actor)
		if v.change != nil && v.change.Event == ledger.Refuse {
			v.change.Watch = action.Spec.Contract.LateLanding
		}
		recorded, err := d.record(op, v)
		if err == nil {
			d.Changed(recorded)
			d.log(recorded).Info("event recorded", "provider", r.Provider, "event", r.Event.ID, "says", r.Event.Outcome.Kind.String(), "state", recorded.State)
			return recorded, nil
		}
		if !errors.Is(err, ledger.ErrFenced) {
			return op, err
		}
		if op, err = d.Ledger.Get(ctx, op.Tenant, op.ID); err != nil {
			return op, err
		}
	}
	return op, ledger.ErrFenced
}

// withoutArguments is what an event says of a failure, without sensitive
// arguments, which providers repeat. Where the arguments are not to be had (they
// are dropped when an operation ends) nobody knows what to take out, and its words
// are: the code stays.
func (d *Dispatcher) withoutArguments(ctx context.Context, op ledger.Operation, sensitive []string, o actions.Outcome) (actions.Failure, error) {
	if o.Kind != actions.Rejected || len(sensitive) == 0 {
		return o.Failure, nil
	}
	args, err := d.StoredArguments(ctx, op)
	switch {
	case errors.Is(err, ledger.ErrUnavailable):
		return o.Failure, err
	case err == nil:
		return scrubbed(o.Failure, args, sensitive), nil
	default:
		return actions.Failure{Code: o.Failure.Code, Message: actions.Redacted, Correctable: o.Failure.Correctable}, nil
	}
}

// Provider returns the provider that an operation is performed on, unless the
// operation's action type is not registered here.
func (d *Dispatcher) Provider(op ledger.Operation) (name string, here bool) {
	action, here := d.Registry.At(op.ActionType, op.AdapterVersion, op.ContractVersion)
	if !here {
		return "", false
	}
	return action.Spec.Contract.Provider, true
}

// by says who moves.
func (v verdict) by(actor string) {
	for _, c := range []*ledger.Change{v.change, v.then} {
		if c != nil {
			c.Actor = actor
		}
	}
	if v.evidence != nil {
		v.evidence.Actor = actor
	}
}

// weigh says what to record for an event about an operation that is now as cur
// says, or that it is too early to say. It is pure.
//
// An event is about the operation, not about one attempt of it. So it confirms
// whatever attempt made the effect, but its failure ends an operation only where
// it is certain that it is about the one thing that may have been made.
func weigh(cur ledger.Operation, keys actions.KeyRules, e actions.Event) (v verdict, wait bool) {
	if cur.State == ledger.Unknown && (cur.Reason == ReasonContradicted || cur.Reason == ReasonKeyMismatch) {
		// A process died between this and its escalation. To end it now would
		// hide the contradiction.
		return verdict{}, true
	}
	o := e.Outcome
	o.Write = nil // no event makes a write of ours
	if o.Receipt.Reference == "" {
		o.Receipt.Reference = e.Reference
	}
	if o.Kind == actions.Applied && o.Receipt.Reference == "" {
		o.Kind = actions.AppliedNoReceipt // a success needs a receipt (L3)
	}
	detail := fmt.Sprintf("event %s: %s", e.ID, o.Kind)
	for _, more := range []string{o.Receipt.Reference, e.Detail, o.Failure.Evidence} {
		if more != "" {
			detail += ", " + more
		}
	}
	switch o.Kind {
	case actions.Applied:
		return weighReceipt(cur, o, detail)
	case actions.AppliedNoReceipt:
		return weighApplied(cur, detail)
	case actions.Rejected:
		return weighEnd(cur, keys, o, detail)
	case actions.Accepted:
		return weighUnderWay(cur, o, detail)
	default: // proves nothing
		return verdict{}, false
	}
}

// weighReceipt: the effect is there.
func weighReceipt(cur ledger.Operation, o actions.Outcome, detail string) (v verdict, wait bool) {
	if cur.State != ledger.Running {
		v = lateReceipt(cur, cur.Attempt, actions.Spec{}, o, detail) // redacted by Report
		if v.change != nil {
			v.change.AttemptOutcome = "" // it ended before
		}
		return v, false
	}
	if cur.Epoch > 0 || contradicts(cur, o.Receipt.Reference) {
		// It may be the effect of another request than the one under way.
		return verdict{}, true
	}
	return verdict{change: &ledger.Change{
		Operation: cur, Event: ledger.Confirm, Detail: detail, Effect: ledger.EffectApplied,
		ProviderReference: o.Receipt.Reference, Receipt: o.Receipt.JSON,
		// Another name than the answer's: an answer with another receipt must not
		// pass for recorded.
		AttemptOutcome: "applied_by_event",
	}}, false
}

// weighApplied: the effect is there, and nobody says which it is.
func weighApplied(cur ledger.Operation, detail string) (v verdict, wait bool) {
	switch cur.State {
	case ledger.Running:
		return verdict{}, true
	case ledger.Unknown:
		if cur.Effect == ledger.EffectApplied {
			return verdict{}, false
		}
		// Left unknown, a look-up could prove its absence.
		return contradiction(cur, ledger.Escalate, ledger.EffectApplied, "The provider says by itself that it was done, and not what it made: "+detail+"."), false
	case ledger.Pending:
		return contradiction(cur, ledger.Escalate, ledger.EffectApplied, aboutToTryAgain+detail+"."), false
	case ledger.Failed:
		return contradiction(cur, ledger.Contradict, ledger.EffectApplied, calledFailed+detail+"."), false
	case ledger.NeedsReview:
		noted := evidence(cur, cur.Attempt, detail)
		noted.InDoubt = true
		return verdict{evidence: noted}, false
	default: // succeeded: no news
		return verdict{}, false
	}
}

// weighEnd: the provider ended it for good without an effect.
func weighEnd(cur ledger.Operation, keys actions.KeyRules, o actions.Outcome, detail string) (v verdict, wait bool) {
	switch cur.State {
	case ledger.Running:
		return verdict{}, true
	case ledger.Unknown:
		switch {
		case !EndsAll(cur, keys, o.Receipt.Reference):
			return verdict{evidence: evidence(cur, cur.Attempt, detail)}, false
		case cur.Effect == ledger.EffectApplied:
			return contradiction(cur, ledger.Escalate, ledger.EffectApplied, "The provider had answered that it was done, and now says that it ended without an effect: "+detail+"."), false
		}
		return verdict{change: &ledger.Change{
			Operation: cur, Event: ledger.Refuse, Detail: detail, Effect: ledger.EffectNotApplied,
			// What ended, so that older events of it are known for what they are.
			ProviderReference: unlessKnown(cur, o.Receipt.Reference),
			Failure:           EndedFailure(o.Failure),
		}}, false
	case ledger.Succeeded, ledger.NeedsReview:
		// Events come in any order, and a receipt stays: a person may want to know.
		return verdict{evidence: evidence(cur, cur.Attempt, detail)}, false
	default: // pending, failed: the ledger says so already
		return verdict{}, false
	}
}

// weighUnderWay: the provider has it and will finish later.
func weighUnderWay(cur ledger.Operation, o actions.Outcome, detail string) (v verdict, wait bool) {
	same := cur.ProviderReference != "" && cur.ProviderReference == o.Receipt.Reference
	other := contradicts(cur, o.Receipt.Reference)
	noted := evidence(cur, cur.Attempt, detail)
	switch {
	case cur.State == ledger.Running:
		return verdict{}, true
	case same:
		return verdict{}, false // no news, or an old one whose end was proved since
	case cur.State == ledger.Pending:
		return contradiction(cur, ledger.Escalate, ledger.EffectUnknown, "The provider is at work on an operation that was about to be tried again: "+detail+"."), false
	case cur.State == ledger.Failed:
		// What was refused may have been begun: if it is done after all, that is
		// said too.
		return verdict{evidence: noted}, false
	case other && cur.State == ledger.Unknown:
		return contradiction(cur, ledger.Escalate, cur.Effect, twoNames(cur, o.Receipt.Reference)+" It says by itself: "+detail+"."), false
	case other:
		noted.Incident = twoNames(cur, o.Receipt.Reference)
		return verdict{evidence: noted}, false
	case cur.State == ledger.Succeeded, o.Receipt.Reference == "":
		return verdict{}, false
	default: // unknown, or before a person
		noted.ProviderReference, noted.InDoubt = o.Receipt.Reference, true
		return verdict{evidence: noted}, false
	}
}

// What a person is told.
const (
	calledFailed    = "An effect exists for an operation that was called failed: "
	aboutToTryAgain = "An effect exists for an operation that was about to be tried again: "
)

// contradiction puts what the ledger holds and what the provider says before a
// person.
func contradiction(cur ledger.Operation, event ledger.Event, effect ledger.Effect, detail string) verdict {
	return verdict{change: &ledger.Change{
		Operation: cur, Event: event, Detail: detail, Effect: effect, Reason: ReasonContradicted, InDoubt: true,
		Review: review(ledger.Contradicted, detail),
	}}
}

// EndedFailure is the failure of an operation that the provider took up and
// ended without an effect.
func EndedFailure(f actions.Failure) *ledger.Failure {
	if f.Code == "" {
		f.Code = "ended_by_provider"
	}
	if f.Message == "" {
		f.Message = "The provider took it up and ended it without an effect."
	}
	return failure(actions.Outcome{Failure: f})
}
