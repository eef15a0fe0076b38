package policy

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/expr"
)

// Action is an action type with its expressions compiled: what it spends, who
// gets it, and the intents it belongs to. It is immutable and safe for
// concurrent use.
type Action struct {
	Spec actions.Spec

	amount, currency, counterparty *expr.Expression // nil where there is none
}

// spendingCost bounds an expression of an action type, in CEL's units.
const spendingCost = 100_000

// Compile compiles the expressions of an action type. It fails where one is
// wrong, or an amount has no currency. It takes milliseconds where there are
// expressions: once for each version of an action type, not for each request.
func Compile(spec actions.Spec) (*Action, error) {
	a := &Action{Spec: spec}
	s := spec.Spending
	if s == (actions.Spending{}) {
		return a, nil
	}
	if (s.Amount == "") != (s.Currency == "") {
		return nil, fmt.Errorf("action type %s: spending: amount and currency go together", spec.Type)
	}
	env, err := expr.NewEnv("args")
	if err != nil {
		return nil, err
	}
	env = env.Within(spendingCost)
	var errs []error
	for _, e := range []struct {
		field, text string
		into        **expr.Expression
	}{{"amount", s.Amount, &a.amount}, {"currency", s.Currency, &a.currency}, {"counterparty", s.Counterparty, &a.counterparty}} {
		if e.text == "" {
			continue
		}
		if *e.into, err = env.Expression(e.text); err != nil {
			errs = append(errs, fmt.Errorf("action type %s: spending.%s: %w", spec.Type, e.field, err))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return a, nil
}
