package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/onceward/onceward/ledger"
)

// Finding is a key whose calls fit no order.
type Finding struct {
	Tenant, Key string
	// Undecided says that the search took too long: nothing is known of the key.
	Undecided bool
}

// Check looks for an order of the calls of each key, and returns the keys that have
// none, sorted. It spends at most patience on a key; zero is no bound.
func Check(calls []Call, patience time.Duration) []Finding {
	return check(calls, patience, Call.place)
}

// check is Check, with the time in which each call can have its place.
func check(calls []Call, patience time.Duration, place func(c Call, corrected bool) (from, to time.Duration)) []Finding {
	type key struct{ tenant, key string }
	byKey := map[key][]porcupine.Operation{}
	corrected := map[key]bool{}
	for _, c := range calls {
		k := key{c.Tenant, c.Key}
		corrected[k] = corrected[k] || c.Corrects
	}
	for _, c := range calls {
		k := key{c.Tenant, c.Key}
		if c.Kind == Request && (c.Answer == Nothing || c.Answer == Told) {
			asked := c
			asked.Answer = Nothing
			// See register.step for why it needs no end.
			byKey[k] = append(byKey[k], porcupine.Operation{ClientId: c.Client, Output: asked, Call: int64(c.Invoked), Return: int64(c.Invoked)})
		}
		if c.Answer != Nothing {
			from, to := place(c, corrected[k])
			byKey[k] = append(byKey[k], porcupine.Operation{ClientId: c.Client, Output: c, Call: int64(from), Return: int64(to)})
		}
	}
	nondeterministic := porcupine.NondeterministicModel{
		Init: func() []any { return []any{register{}} },
		Step: func(state, _, output any) []any {
			var next []any
			r, isRegister := state.(register)
			c, isCall := output.(Call)
			if !isRegister || !isCall {
				return nil // nothing else is ever put in
			}
			for _, after := range r.step(c) {
				next = append(next, after)
			}
			return next
		},
	}
	model := nondeterministic.ToModel()
	var found []Finding
	for k, operations := range byKey {
		switch porcupine.CheckOperationsTimeout(model, operations, patience) {
		case porcupine.Illegal:
			found = append(found, Finding{Tenant: k.tenant, Key: k.key})
		case porcupine.Unknown:
			found = append(found, Finding{Tenant: k.tenant, Key: k.key, Undecided: true})
		case porcupine.Ok:
		}
	}
	slices.SortFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Key, b.Key))
	})
	return found
}

// place is the time in which a call can have its place in the order: a moment where
// one is as good as any other. Orders of many calls at once are too many to try, and
// twenty callers who got the same receipt need none.
//
// What ends a register for good can come last: nobody but the caller needs to have seen
// it, and it is true for ever after. What is true only of a key that nobody holds, or
// that has not ended, can come first. Neither changes what other calls find possible.
// A correction begins a register that had ended anew, so that a failure, arguments that
// hold a key, and a refusal are for ever only where there is none.
func (c Call) place(corrected bool) (from, to time.Duration) {
	switch {
	case c.Answer == Told && (c.State == ledger.Succeeded || c.State.Final() && !corrected), c.Answer == Reused && !corrected:
		return c.Returned, c.Returned
	case c.Answer == Absent, c.Answer == Refused && !corrected:
		return c.Invoked, c.Invoked
	default:
		return c.Invoked, c.Returned
	}
}
