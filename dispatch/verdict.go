package dispatch

import (
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// Reasons of doubt, beside the names of the outcomes that cause it.
const (
	ReasonAwaitingProvider   = "awaiting_provider"
	ReasonInProgress         = "in_progress"
	ReasonMaybeOurs          = "maybe_ours"
	ReasonKeyMismatch        = "key_mismatch"
	ReasonAppliedNoReceipt   = "applied_no_receipt"
	ReasonAmbiguous          = "ambiguous"
	ReasonRejectedAfterDoubt = "rejected_after_doubt"
	ReasonContradicted       = "contradicted"
)

const worker = "worker"

// verdict is what the ledger is to record for the outcome of an attempt: a
// change, possibly a second one after it, or evidence alone. At most one of
// change and evidence is set; neither means that it is on record already.
type verdict struct {
	change   *ledger.Change
	then     *ledger.Change // after change, on the operation that it returned
	evidence *ledger.Evidence
}

// decide says what to record for the outcome of attempt number attempt of an
// operation that is now as cur says. It is pure.
//
// While the attempt is the current one it settles the operation. A later
// answer is evidence: it may still confirm what is unknown, but it never
// overwrites what a newer attempt, the reconciler or a person decided (L7).
func decide(cur ledger.Operation, attempt int, spec actions.Spec, o actions.Outcome) verdict {
	if o.Kind == actions.Applied && o.Write == nil && o.Receipt.Reference == "" {
		// A success needs a receipt (L3).
		o.Kind = actions.AppliedNoReceipt
		o.Failure.Evidence = "the adapter reported success without a reference; " + o.Failure.Evidence
	}
	o.Receipt.JSON = actions.Redact(o.Receipt.JSON, spec.SensitiveReceipt)
	if cur.State == ledger.Running && cur.Attempt == attempt {
		return settle(cur, spec, o)
	}
	if o.Kind == actions.Applied {
		return lateReceipt(cur, attempt, spec, o, fmt.Sprintf("late receipt %s of attempt %d", o.Receipt.Reference, attempt))
	}
	return verdict{evidence: evidence(cur, attempt, fmt.Sprintf("late answer of attempt %d: %s: %s", attempt, o.Kind, o.Failure.Evidence))}
}

// settle is the verdict on the current attempt of a running operation.
func settle(cur ledger.Operation, spec actions.Spec, o actions.Outcome) verdict {
	c := ledger.Change{
		Operation: cur, Actor: worker,
		AttemptOutcome: o.Kind.String(), Detail: o.Failure.Evidence,
	}
	doubt := func(reason string, effect ledger.Effect) verdict {
		c.Event, c.Effect, c.Reason, c.InDoubt = ledger.Doubt, effect, reason, true
		c.ProviderReference = unlessKnown(cur, o.Receipt.Reference)
		c.Failure = failure(o)
		c.Delay = doubtDelay(cur.Attempt, o)
		return verdict{change: &c}
	}
	contradicted := func(effect ledger.Effect, detail string) verdict {
		// Here too, since the process may die before it escalates: the audit
		// record has both names then.
		c.Detail = strings.TrimSpace(detail + " " + c.Detail)
		v := doubt(ReasonContradicted, effect)
		v.then = escalation(ledger.Contradicted, detail)
		return v
	}
	switch o.Kind {
	case actions.Applied:
		if contradicts(cur, o.Receipt.Reference) {
			return contradicted(ledger.EffectApplied, secondReceipt(cur, o))
		}
		c.Event, c.Effect = ledger.Confirm, ledger.EffectApplied
		c.ProviderReference, c.Receipt = o.Receipt.Reference, o.Receipt.JSON
		if o.Write != nil {
			c.Write = writeOf(o.Write, spec)
		}
		return verdict{change: &c}
	case actions.AppliedNoReceipt, actions.Accepted:
		reason, effect := ReasonAppliedNoReceipt, ledger.EffectApplied
		if o.Kind == actions.Accepted {
			reason, effect = ReasonAwaitingProvider, ledger.EffectUnknown
		}
		if contradicts(cur, o.Receipt.Reference) {
			// Two names are two things, whether or not both are done.
			return contradicted(effect, twoNames(cur, o.Receipt.Reference))
		}
		return doubt(reason, effect)
	case actions.InProgress:
		return doubt(ReasonInProgress, ledger.EffectUnknown)
	case actions.MaybeOurs:
		return doubt(ReasonMaybeOurs, ledger.EffectUnknown)
	case actions.KeyMismatch:
		v := doubt(ReasonKeyMismatch, ledger.EffectUnknown)
		v.then = escalation(ledger.Contradicted,
			"The provider says that our key came with another body before. Compare the request hash with the provider's log.")
		return v
	case actions.Rejected:
		if cur.InDoubt {
			// It refuses this attempt, and says nothing about an earlier one.
			return doubt(ReasonRejectedAfterDoubt, ledger.EffectUnknown)
		}
		c.Event, c.Effect, c.Failure = ledger.Refuse, ledger.EffectNotApplied, failure(o)
		return verdict{change: &c}
	case actions.NotApplied, actions.RateLimited:
		if cur.InDoubt {
			v := doubt(o.Kind.String()+"_after_doubt", ledger.EffectUnknown)
			// To be turned away is no try to resolve the doubt either.
			v.change.ResetResolves = o.Kind == actions.RateLimited && cur.Attempt < turnedAway*MaxAttempts(cur, spec)
			return v
		}
		c.Effect, c.Failure = ledger.EffectNotApplied, failure(o)
		tries := Tries(cur)
		if o.Kind == actions.RateLimited {
			tries-- // the one under way
		}
		away, most := cur.Attempt-tries, MaxAttempts(cur, spec)
		if tries >= most || away >= turnedAway*most {
			c.Event = ledger.Refuse
			c.Failure.Code = "attempts_exhausted"
			c.Failure.Message = exhausted(cur.Attempt, away, c.Failure.Message)
			return verdict{change: &c}
		}
		c.Event, c.Reason = ledger.Defer, o.Kind.String()
		c.Delay = max(o.RetryAfter, backoff(cur.Attempt))
		if o.Kind == actions.RateLimited && o.RetryAfter > 0 {
			c.Delay = o.RetryAfter
			if crowd := away - most; crowd > 0 {
				// It came when it was told to, and in vain: there are others.
				c.Delay = max(c.Delay, backoff(crowd))
			}
		}
		c.BumpEpoch = o.Kind == actions.NotApplied && spec.Contract.Keys.StoresFailures
		return verdict{change: &c}
	default: // Ambiguous, and whatever an adapter makes up
		return doubt(ReasonAmbiguous, ledger.EffectUnknown)
	}
}

// lateReceipt is the verdict on a receipt that comes after its operation moved
// on. detail says in the audit record where it came from.
func lateReceipt(cur ledger.Operation, attempt int, spec actions.Spec, o actions.Outcome, detail string) verdict {
	c := ledger.Change{Operation: cur, Actor: worker, Detail: detail, ProviderReference: unlessKnown(cur, o.Receipt.Reference), Effect: ledger.EffectApplied}
	if o.Write != nil {
		// The statement runs with the confirmation or not at all.
		if cur.State == ledger.Succeeded {
			return verdict{}
		}
		if cur.State != ledger.Unknown || cur.Attempt != attempt {
			return verdict{evidence: evidence(cur, attempt, "late: the write was not made")}
		}
		c.Event, c.Write = ledger.Confirm, writeOf(o.Write, spec)
		return verdict{change: &c}
	}
	e := evidence(cur, attempt, detail)
	e.ProviderReference, e.InDoubt = o.Receipt.Reference, true
	if contradicts(cur, o.Receipt.Reference) {
		e.Incident = secondReceipt(cur, o)
	}
	switch cur.State {
	case ledger.Unknown:
		if cur.Attempt == attempt && !contradicts(cur, o.Receipt.Reference) {
			c.Event, c.ProviderReference, c.Receipt = ledger.Confirm, o.Receipt.Reference, o.Receipt.JSON
			c.AttemptOutcome = o.Kind.String()
			return verdict{change: &c}
		}
	case ledger.Succeeded:
		if cur.ProviderReference == o.Receipt.Reference {
			return verdict{}
		}
		e.InDoubt = false
	case ledger.Failed:
		c.Event, c.Reason, c.InDoubt = ledger.Contradict, ReasonContradicted, true
		c.Review = review(ledger.Contradicted, calledFailed+detail+".")
		return verdict{change: &c}
	case ledger.Pending:
		// Sending again now would make a second effect.
		c.Event, c.Reason, c.InDoubt = ledger.Escalate, ReasonContradicted, true
		c.Review = review(ledger.Contradicted, aboutToTryAgain+detail+".")
		return verdict{change: &c}
	default: // running again, or before a person: evidence for whoever ends it
	}
	return verdict{evidence: e}
}

// writeOf is a statement whose receipt comes from the ledger's own database.
func writeOf(s *actions.Statement, spec actions.Spec) *ledger.Write {
	w := &ledger.Write{SQL: s.SQL, Args: s.Args}
	if sensitive := spec.SensitiveReceipt; len(sensitive) > 0 {
		w.Redact = func(receipt []byte) []byte { return actions.Redact(receipt, sensitive) }
	}
	return w
}

func escalation(reason ledger.ReviewReason, detail string) *ledger.Change {
	return &ledger.Change{Event: ledger.Escalate, Actor: worker, Detail: detail, InDoubt: true, Review: review(reason, detail)}
}

func review(reason ledger.ReviewReason, detail string) *ledger.ReviewOpening {
	return &ledger.ReviewOpening{ID: NewID(), Reason: reason, Detail: detail}
}

func evidence(cur ledger.Operation, attempt int, detail string) *ledger.Evidence {
	return &ledger.Evidence{Operation: cur, Attempt: attempt, Actor: worker, Detail: detail}
}

// contradicts reports whether a reference is another one than the ledger has.
func contradicts(cur ledger.Operation, reference string) bool {
	return reference != "" && cur.ProviderReference != "" && cur.ProviderReference != reference
}

func unlessKnown(cur ledger.Operation, reference string) string {
	if cur.ProviderReference != "" {
		return ""
	}
	return reference
}

func secondReceipt(cur ledger.Operation, o actions.Outcome) string {
	return fmt.Sprintf("Two receipts for one operation: %s and %s. The target may hold two effects.", cur.ProviderReference, o.Receipt.Reference)
}

func twoNames(cur ledger.Operation, other string) string {
	return fmt.Sprintf("The provider names %s and %s for one operation. The target may hold two effects.", cur.ProviderReference, other)
}

// exhausted says that no attempt is left: of those that were made, so many were
// turned away by a rate limit.
func exhausted(made, away int, last string) string {
	if away > 1 {
		return fmt.Sprintf("Not applied after %d attempts, %d of them turned away by a rate limit. Last: %s", made, away, last)
	}
	return fmt.Sprintf("Not applied after %d attempts. Last: %s", made, last)
}

func failure(o actions.Outcome) *ledger.Failure {
	f := &ledger.Failure{Code: o.Failure.Code, Message: o.Failure.Message, Correctable: o.Failure.Correctable}
	if f.Code == "" {
		f.Code = o.Kind.String()
	}
	if f.Message == "" {
		f.Message = o.Failure.Evidence
	}
	for _, v := range o.Failure.Violations {
		f.Violations = append(f.Violations, ledger.Violation{Field: v.Field, Reason: v.Reason, Message: v.Message})
	}
	return f
}

// doubtDelay is when the reconciler should look at a doubt: at once after the
// first attempt, unless the provider is known to be still at work.
func doubtDelay(attempt int, o actions.Outcome) time.Duration {
	delay := o.RetryAfter
	if o.Kind == actions.Accepted || o.Kind == actions.InProgress {
		delay = max(delay, time.Second)
	}
	if attempt > 1 {
		delay = max(delay, backoff(attempt-1))
	}
	return delay
}

// Backoff bounds between attempts that were proved not applied.
const (
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 5 * time.Minute
)

// backoff doubles from firstBackoff after the first attempt. It has no jitter:
// rows become due at different times by themselves, and the reconciler's
// concurrency bounds what runs at once.
func backoff(attempt int) time.Duration {
	return min(firstBackoff<<min(max(attempt-1, 0), 16), maxBackoff)
}
