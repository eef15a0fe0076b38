package reconciler

import (
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/ledger"
)

// stepKind is what to do about a doubt now.
type stepKind int

const (
	escalate stepKind = iota // ask a person; the zero value, for lack of anything better
	replay                   // the same request with the same provider key
	lookUp                   // ask the provider whether the effect exists
	wait                     // the provider will say by itself
)

// step is the next step of a plan.
type step struct {
	kind   stepKind
	reason ledger.ReviewReason // of an escalation
	detail string              // of an escalation, for the person
	delay  time.Duration       // of a wait
}

// nextStep climbs the plan of an unknown operation: a look-up where the
// provider gave a reference, else a replay inside the key horizon (once the first
// request cannot be under way any more, where its key does not say so), else a
// look-up by operation id, else the provider's own event for as long as the
// contract says, else a person. A doubt that a restore left is looked into, and goes
// to a person. In the stage protect it is a person at once,
// unless the provider said that it will finish later. now is the ledger's time, lease how long a replay
// may take to arrive.
func nextStep(op ledger.Operation, spec actions.Spec, canLookUp bool, now time.Time, lease time.Duration) step {
	switch op.Reason {
	case dispatch.ReasonKeyMismatch:
		return step{kind: escalate, reason: ledger.Contradicted, detail: "The provider says that our key came with another body before."}
	case dispatch.ReasonContradicted:
		return step{kind: escalate, reason: ledger.Contradicted, detail: "Two receipts for one operation; the audit record has both."}
	}
	if op.Reason == ledger.ReasonRestored {
		// Only a find counts: what is sent may be sent twice.
		if canLookUp && op.Stage != ledger.StageProtect && op.Resolves <= spec.MaxResolves {
			return step{kind: lookUp}
		}
		return step{kind: escalate, reason: ledger.Inconclusive, detail: restored}
	}
	if op.Stage == ledger.StageProtect && op.Reason != dispatch.ReasonAwaitingProvider {
		return step{kind: escalate, reason: ledger.Inconclusive, detail: "In the stage protect a person finds out: look for the effect on the provider by operation id."}
	}
	if op.Resolves > spec.MaxResolves {
		return waitOrAsk(op, spec, now, "Every way to find out was tried as often as the action type allows. Look for the effect on the provider by operation id.")
	}
	switch {
	case canLookUp && op.ProviderReference != "":
		return step{kind: lookUp}
	case mayReplay(op, spec, now.Add(lease)) && !dispatch.GivenUp(op, now):
		busy := op.DoubtedAt.Add(spec.Contract.Keys.InFlight).Sub(now)
		switch {
		case spec.Contract.Keys.InFlight == 0 || busy <= 0:
			return step{kind: replay}
		case canLookUp && op.Resolves < spec.MaxResolves:
			return step{kind: lookUp}
		default: // the last look is kept for the replay
			return step{kind: wait, delay: busy}
		}
	case canLookUp:
		return step{kind: lookUp}
	case spec.Contract.Keys.Honoured:
		return waitOrAsk(op, spec, now, "The same key cannot be sent again (horizon, attempts, the time that the policy gives it, or it is known to be applied), and this provider has no look-up.")
	default:
		return waitOrAsk(op, spec, now, "This provider honours no keys and has no look-up: only a person can find out.")
	}
}

// waitOrAsk is what is left when nothing can be done: to wait for an event of the
// provider, and then to ask a person.
func waitOrAsk(op ledger.Operation, spec actions.Spec, now time.Time, detail string) step {
	if left := op.DoubtedAt.Add(spec.Contract.EventWait).Sub(now); spec.Contract.EventWait > 0 && left > 0 {
		return step{kind: wait, delay: left}
	}
	return step{kind: escalate, reason: ledger.Inconclusive, detail: detail}
}

// mayReplay reports whether the same request with the same provider key is
// safe and can help. arrives is the latest that it may reach the provider.
func mayReplay(op ledger.Operation, spec actions.Spec, arrives time.Time) bool {
	switch op.Reason {
	case dispatch.ReasonAppliedNoReceipt, dispatch.ReasonAwaitingProvider, dispatch.ReasonMaybeOurs, dispatch.ReasonRejectedAfterDoubt:
		return false
	}
	return spec.Contract.Keys.Honoured && op.Effect != ledger.EffectApplied &&
		dispatch.Tries(op) < dispatch.MaxAttempts(op, spec) && arrives.Before(op.KeyHorizon)
}

// absence is what a look-up that found nothing comes to.
type absence struct {
	proved        bool
	ask           bool          // a person: to look on is of no use
	negativeReads int           // to remember
	delay         time.Duration // until the next look
}

// weighAbsence says what a look-up that found nothing proves. It proves absence
// only by the contract: an authoritative look-up, after the settle time since
// the last attempt could have been under way, as often in a row as it asks. It
// never does where the provider has given a reference or the effect is known to
// be applied, nor after a restore: the look-up cannot know an operation by an id or
// by arguments that were forgotten. A person is asked then.
func weighAbsence(op ledger.Operation, spec actions.Spec, now time.Time) absence {
	rules := spec.Contract.Lookup
	later := resolveGap(op.Resolves, rules.ReadGap)
	restored := op.Reason == ledger.ReasonRestored // counted, and no proof
	if !restored && !rules.Authoritative || op.Effect == ledger.EffectApplied || op.ProviderReference != "" || op.Reason == dispatch.ReasonAwaitingProvider {
		return absence{delay: later}
	}
	if unsettled := op.DoubtedAt.Add(rules.SettleTime).Sub(now); unsettled > 0 {
		// Look early, since finding it early is worth much; but keep enough
		// looks for the reads that count.
		if op.Resolves >= spec.MaxResolves-rules.NegativeReads {
			later = unsettled
		}
		return absence{delay: min(later, unsettled)}
	}
	reads := op.NegativeReads + 1
	if reads < rules.NegativeReads {
		return absence{negativeReads: reads, delay: rules.ReadGap}
	}
	return absence{proved: !restored, ask: restored, negativeReads: reads}
}

// maxResolveGap bounds the time between two looks at one doubt.
const maxResolveGap = 5 * time.Minute

// resolveGap doubles with every look at a doubt, from the contract's read gap.
func resolveGap(resolves int, readGap time.Duration) time.Duration {
	return min(readGap<<min(max(resolves-1, 0), 16), maxResolveGap)
}

// maxAfter bounds how long a provider may put the next look off.
const maxAfter = 24 * time.Hour

// notBefore is the time until the next look where a provider asks to wait.
func notBefore(delay, after time.Duration) time.Duration {
	return max(delay, min(after, maxAfter))
}
