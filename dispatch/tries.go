package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// turnedAway is how many attempts a rate limit may turn away for each one that
// an operation may make. A limit says when to come again and nothing about the
// request, so that a burst must not use up the attempts of those who wait in it.
const turnedAway = 10

// MaxAttempts is how many attempts an operation may make: as many as its action
// type allows, or fewer where its policy does.
func MaxAttempts(op ledger.Operation, spec actions.Spec) int {
	if op.MaxAttempts > 0 {
		return min(op.MaxAttempts, spec.MaxAttempts)
	}
	return spec.MaxAttempts
}

// GivenUp reports whether no attempt of an operation begins any more, because the
// time that its policy gives it is over.
func GivenUp(op ledger.Operation, now time.Time) bool {
	return !op.GiveUpAt.IsZero() && !now.Before(op.GiveUpAt)
}

// GaveUp is why an operation failed that was given up. last is why its last
// attempt did, where there was one.
func GaveUp(op ledger.Operation, last *ledger.Failure) *ledger.Failure {
	f := &ledger.Failure{Code: "gave_up", Message: "Not sent: the time that the policy gives it is over."}
	if op.Attempt > 0 {
		f.Message = fmt.Sprintf("Not applied after %d attempts, and the time that the policy gives it is over.", op.Attempt)
	}
	if last != nil {
		f.Message += " Last: " + last.Message
	}
	return f
}

// giveUp ends a pending operation whose time is over.
func (d *Dispatcher) giveUp(ctx context.Context, op ledger.Operation, actor string) (ledger.Operation, error) {
	failed, err := d.Ledger.Apply(ctx, ledger.Change{
		Operation: op, Event: ledger.Expire, Actor: actor, Detail: "given up: the policy's time for it is over",
		Effect: op.Effect, Failure: GaveUp(op, op.Failure),
	})
	if err == nil {
		d.Changed(failed)
	}
	return failed, err
}

// LongestTries is the longest that all attempts of an operation can take, from the
// first one to the end of the last: their timeouts, and the time between them where
// each is proved not applied. Rate limits and a provider's own wishes come on top.
func LongestTries(spec actions.Spec) time.Duration {
	total := spec.Timeout * time.Duration(spec.MaxAttempts)
	for attempt := 1; attempt < spec.MaxAttempts; attempt++ {
		total += backoff(attempt)
	}
	return total
}

// Tries is how many attempts of an operation count against MaxAttempts: those
// that no rate limit turned away. Where the attempts were not read (the operation
// is not from Get) all of them count.
func Tries(op ledger.Operation) int {
	return op.Attempt - attemptsThatWere(op, actions.RateLimited)
}

// makers is how many attempts of an operation may have made something: those
// that were not answered with a proof that they made nothing. Where the attempts
// were not read, all of them may have.
func makers(op ledger.Operation) int {
	return op.Attempt - attemptsThatWere(op, actions.RateLimited, actions.NotApplied, actions.Rejected)
}

func attemptsThatWere(op ledger.Operation, kinds ...actions.Kind) (n int) {
	for _, a := range op.Attempts {
		for _, kind := range kinds {
			if a.Outcome == kind.String() {
				n++
			}
		}
	}
	return n
}

// needsAttempts reports whether the verdict on an outcome depends on how the
// attempts before it ended: all may be used up.
func needsAttempts(cur ledger.Operation, spec actions.Spec, o actions.Outcome) bool {
	switch o.Kind {
	case actions.NotApplied, actions.RateLimited:
		return cur.State == ledger.Running && !cur.InDoubt && cur.Attempts == nil && cur.Attempt > 1 && cur.Attempt >= MaxAttempts(cur, spec)
	default:
		return false
	}
}

// EndsAll reports whether the end of what a reference names is the end of all
// that an operation may have made. A provider's word that one thing ended says
// nothing of another that a lost attempt may have made and that is not listed
// yet. So it does where one attempt only may have made something, since one
// attempt makes one thing. Where several may have, it does for what the ledger
// has on record and only if they cannot have made two: the last of them was
// answered with it, and those before were proved to have made nothing or had the
// same provider key; or all had one key that the provider honours.
func EndsAll(cur ledger.Operation, keys actions.KeyRules, reference string) bool {
	switch {
	case contradicts(cur, reference):
		return false
	case makers(cur) <= 1:
		return true
	case reference == "" || cur.ProviderReference != reference:
		return false
	default:
		return cur.Reason == ReasonAwaitingProvider ||
			keys.Honoured && cur.Epoch == 0 && cur.LastSentAt.Before(cur.KeyHorizon)
	}
}
