package declared

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/httpaction"
)

// writer is an adapter of an action that cannot be looked up; searcher one that
// can.
type (
	writer struct {
		action *action
		conn   *Connection
	}
	searcher struct{ *writer }
)

var (
	_ actions.Adapter  = (*writer)(nil)
	_ actions.Renderer = (*writer)(nil)
	_ actions.Looker   = searcher{}
	_ actions.Renderer = searcher{}
)

// HTTP makes the adapter of an action on a provider. It implements
// actions.Renderer, and actions.Looker where the action has look-ups. It fails
// with an *InvalidError.
func HTTP(conn *Connection, a *definition.Action) (actions.Adapter, error) {
	c := &compiler{envs: conn.contract.envs}
	if a.Provider != conn.contract.p.Name {
		c.bad("provider", "is %s, and this is %s", a.Provider, conn.contract.p.Name)
	}
	compiled := newAction(c, conn.contract, a)
	if err := c.err(a.Type); err != nil {
		return nil, err
	}
	w := &writer{compiled, conn}
	if len(compiled.lookups) == 0 {
		return w, nil
	}
	return searcher{w}, nil
}

// On returns an adapter that HTTP made, on another connection to the same
// provider. What was compiled is shared. It reports false where the adapter is
// none of HTTP, or the connection is to another provider.
func On(adapter actions.Adapter, conn *Connection) (actions.Adapter, bool) {
	switch a := adapter.(type) {
	case *writer:
		return &writer{a.action, conn}, a.action.contract == conn.contract
	case searcher:
		return searcher{&writer{a.action, conn}}, a.action.contract == conn.contract
	default:
		return nil, false
	}
}

// Spec describes the action type.
func (w *writer) Spec() actions.Spec { return w.action.spec }

// Validate tries the declared checks.
func (w *writer) Validate(args actions.Arguments) error { return w.action.checks.validate(args) }

// Render returns the request that Execute sends.
func (w *writer) Render(call actions.Call) ([]byte, error) {
	r, _, err := w.action.render(call, w.conn.to)
	if err != nil {
		return nil, err
	}
	frozen, err := r.Bytes()
	if err != nil {
		return nil, &unrenderableError{err}
	}
	return frozen, nil
}

// Execute makes one attempt, if it is its turn.
func (w *writer) Execute(ctx context.Context, call actions.Call) actions.Outcome {
	ctx, cancel := context.WithTimeout(ctx, w.action.timeout())
	defer cancel()
	r, vars, err := w.action.render(call, w.conn.to)
	if err != nil {
		return w.action.classify(httpaction.NotRendered(err), vars)
	}
	turn := w.conn.paces.of(call.Tenant)
	release, away := turn.take(ctx)
	if release == nil {
		return actions.Outcome{Kind: actions.RateLimited, RetryAfter: away, Failure: actions.Failure{
			Code:     actions.RateLimited.String(),
			Message:  "Nothing was sent: the provider takes no more requests now.",
			Evidence: fmt.Sprintf("held back for %s by the pace of %s, 0 bytes offered", away, w.action.spec.Contract.Provider),
		}}
	}
	defer release()
	x, stale := w.conn.send(ctx, call, r)
	o := w.action.classify(x, vars)
	if o.Kind == actions.Rejected && stale {
		// The same proof that nothing was applied, and no reason to give up.
		o.Kind, o.Failure.Correctable = actions.NotApplied, false
	}
	if o.Kind == actions.RateLimited {
		turn.learn(o.RetryAfter)
	}
	return o
}

// Lookup climbs the declared look-ups.
func (s searcher) Lookup(ctx context.Context, q actions.Query) actions.Finding {
	return s.action.lookUp(ctx, s.conn, q)
}
