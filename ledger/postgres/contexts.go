package postgres

import (
	"cmp"

	"github.com/onceward/onceward/ledger"
)

// openingContext is what the first event of an operation says of its request, but
// for its key.
func openingContext(o *ledger.Opening) ledger.EventContext {
	op := &o.Operation
	return ledger.EventContext{
		ActionType: op.ActionType, Run: op.Run,
		Decision: o.Verdict.Decision, Reason: o.Verdict.Reason,
		Rule: cmp.Or(o.Verdict.Rule, op.Rule), PolicyVersion: cmp.Or(o.Verdict.PolicyVersion, op.PolicyVersion),
		Stage: op.Stage, Amount: op.Amount, Currency: op.Currency,
	}
}

// contextJSON is a context as it is stored, and chained. Of the key, where there is
// one, it has the hash.
func contextJSON(c ledger.EventContext, key string) string {
	return string(c.AppendJSON(nil, key))
}
