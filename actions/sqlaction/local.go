package sqlaction

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/actions"
)

// Local is an action on the ledger's own database. It is immutable and safe for
// concurrent use.
type Local struct {
	spec      actions.Spec
	check     func(actions.Arguments) error
	statement func(actions.Call) (actions.Statement, error)
}

var (
	_ actions.Adapter = (*Local)(nil)
	_ actions.Looker  = (*Local)(nil)
)

// NewLocal makes an action of spec. statement returns what to run for a call: a
// statement of the serving role that returns one row, the reference (text) and
// the receipt (json). Its parameters must depend on nothing but the call. check
// may be nil; it is Adapter.Validate.
//
// The contract's look-up rules are set here: while the operation is unknown its
// transaction has not been committed, and the fence of the ledger keeps it from
// being committed after the doubt was resolved, so that absence is certain at
// once.
func NewLocal(spec actions.Spec, check func(actions.Arguments) error, statement func(actions.Call) (actions.Statement, error)) *Local {
	spec.Contract.Lookup = actions.LookupRules{Authoritative: true, NegativeReads: 1}
	if check == nil {
		check = func(actions.Arguments) error { return nil }
	}
	return &Local{spec: spec, check: check, statement: statement}
}

// NewDeclaredLocal is NewLocal for SQL that is always the same. It fails when
// the statement is not one that can run as a part of a transaction; whether the
// database can run it is not seen before the first call.
func NewDeclaredLocal(spec actions.Spec, check func(actions.Arguments) error, statement Declared) (*Local, error) {
	if err := statement.check(); err != nil {
		return nil, fmt.Errorf("action type %s: %w", spec.Type, err)
	}
	return NewLocal(spec, check, statement.bind), nil
}

// Spec describes the action type.
func (l *Local) Spec() actions.Spec { return l.spec }

// Validate runs the check.
func (l *Local) Validate(args actions.Arguments) error { return l.check(args) }

// Execute sends nothing: it returns the statement, and the ledger runs it with
// the settlement.
func (l *Local) Execute(_ context.Context, call actions.Call) actions.Outcome {
	statement, err := l.statement(call)
	if err != nil {
		return actions.Outcome{Kind: actions.Rejected, Failure: actions.Failure{
			Code: "not_renderable", Message: "The arguments make no statement.", Correctable: true, Evidence: err.Error()}}
	}
	if statement.SQL == "" {
		return actions.Outcome{Kind: actions.Rejected, Failure: actions.Failure{
			Code: "not_renderable", Message: "The action has no statement.", Evidence: errNoStatement.Error()}}
	}
	return actions.Outcome{Kind: actions.Applied, Write: &statement}
}

// Lookup answers from what the ledger guarantees: an operation that is unknown
// has no row.
func (l *Local) Lookup(context.Context, actions.Query) actions.Finding {
	return actions.Finding{Kind: actions.Absent, Detail: "the transaction that settles the operation was not committed"}
}
