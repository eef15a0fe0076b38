package dispatch

import (
	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// turnedAway is how many attempts a rate limit may turn away for each one that
// an operation may make. A limit says when to come again and nothing about the
// request, so that a burst must not use up the attempts of those who wait in it.
const turnedAway = 10

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
		return cur.State == ledger.Running && !cur.InDoubt && cur.Attempts == nil && cur.Attempt > 1 && cur.Attempt >= spec.MaxAttempts
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
