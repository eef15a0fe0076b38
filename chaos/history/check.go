package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
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
	type key struct{ tenant, key string }
	byKey := map[key][]porcupine.Operation{}
	for _, c := range calls {
		k := key{c.Tenant, c.Key}
		if c.Kind == Request && (c.Answer == Nothing || c.Answer == Told) {
			asked := c
			asked.Answer = Nothing
			// See register.step for why it needs no end.
			byKey[k] = append(byKey[k], porcupine.Operation{ClientId: c.Client, Output: asked, Call: int64(c.Invoked), Return: int64(c.Invoked)})
		}
		if c.Answer != Nothing {
			byKey[k] = append(byKey[k], porcupine.Operation{ClientId: c.Client, Output: c, Call: int64(c.Invoked), Return: int64(c.Returned)})
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
