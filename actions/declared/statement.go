package declared

import (
	"encoding/json"
	"fmt"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/actions/sqlaction"
)

// SQL makes the adapter of an action whose effect is a row in a Postgres:
// database is where, and nil for the ledger's own. It fails with an
// *InvalidError.
func SQL(p *definition.Provider, a *definition.Action, database *sqlaction.Database) (actions.Adapter, error) {
	envs, err := newEnvironments()
	if err != nil {
		return nil, err
	}
	c := &compiler{envs: envs}
	out := newStatement(c, p, a)
	if err := c.err(a.Type); err != nil {
		return nil, err
	}
	declared := sqlaction.Declared{SQL: out.sql, Params: out.parameters}
	if database == nil {
		return sqlaction.NewDeclaredLocal(out.spec, out.validate, declared)
	}
	return sqlaction.NewRemote(database, out.spec, out.validate, declared)
}

// plain is what an action that does not speak HTTP has in any case.
type plain struct {
	spec     actions.Spec
	checks   checks
	spending spending
	config   map[string]any
}

func newPlain(c *compiler, p *definition.Provider, a *definition.Action) plain {
	out := plain{checks: c.checks(a.Checks), spending: c.spending(a.Spending), config: configOf(p)}
	var err error
	if out.spec, err = specOf(p, a, nil); err != nil {
		c.bad("arguments", "%v", err)
	}
	return out
}

func (p *plain) validate(args actions.Arguments) error { return p.checks.validate(args) }

// vars are what the expressions of a call see. The provider's key is shown as it
// is: there is nobody who would shape it.
func (p *plain) vars(call actions.Call) expr.Vars { return callVars(call, call.ProviderKey, p.config) }

// statement is a compiled SQL action.
type statement struct {
	plain
	sql    string
	params []*expr.Expression
}

func newStatement(c *compiler, p *definition.Provider, a *definition.Action) *statement {
	if a.Statement == nil {
		c.bad("", "an action on a Postgres wants a statement")
		return nil
	}
	out := &statement{plain: newPlain(c, p, a), sql: a.Statement.SQL}
	for i, text := range a.Statement.Parameters {
		out.params = append(out.params, c.expression(c.envs.request, element("statement.parameters", i), text))
	}
	return out
}

// parameters are the values of a call: text, numbers, true and false as they are,
// lists and objects as JSON, and NULL for null and an empty optional.
func (s *statement) parameters(call actions.Call) ([]any, error) {
	vars := s.vars(call)
	values := make([]any, len(s.params))
	for i, x := range s.params {
		value, err := x.Eval(vars)
		if err != nil {
			return nil, fmt.Errorf("parameter $%d: %w", i+1, err)
		}
		switch value := value.(type) {
		case map[string]any, []any:
			text, err := expr.Encode(value)
			if err != nil {
				return nil, fmt.Errorf("parameter $%d: %w", i+1, err)
			}
			values[i] = json.RawMessage(text)
		default:
			if value != expr.Omitted {
				values[i] = value
			}
		}
	}
	return values, nil
}
