package dispatch

import (
	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// Judgement is what the ledger is to record: a change, possibly a second one
// after it on the operation that it returned, or evidence alone. At most one of
// Change and Evidence is set; neither means that it is on record already.
type Judgement struct {
	Change, Then *ledger.Change
	Evidence     *ledger.Evidence
}

// Judge is the verdict on the outcome of attempt number attempt of an operation
// that is now as cur says. It is pure, and what a Dispatcher itself decides by:
// internal/model walks through every order of events with it.
func Judge(cur ledger.Operation, attempt int, spec actions.Spec, o actions.Outcome) Judgement {
	return judgement(decide(cur, attempt, spec, o))
}

// Weigh is the verdict on what a provider says by itself; wait means that it is
// too early to say. It is pure, and what Report decides by.
func Weigh(cur ledger.Operation, spec actions.Spec, e actions.Event) (j Judgement, wait bool) {
	v, wait := weigh(cur, spec.Contract.Keys, e)
	if v.change != nil && v.change.Event == ledger.Refuse {
		v.change.Watch = spec.Contract.LateLanding
	}
	return judgement(v), wait
}

// Recorded reports whether an operation as Get returns it shows the outcome of
// an attempt already, so that the answer to an earlier try to record it was lost.
func Recorded(cur ledger.Operation, attempt int, o actions.Outcome) bool {
	return isRecorded(cur, attempt, o)
}

func judgement(v verdict) Judgement {
	return Judgement{Change: v.change, Then: v.then, Evidence: v.evidence}
}
