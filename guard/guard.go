package guard

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// DefaultHold is how long a request is taken to be under way.
	DefaultHold = time.Minute
	// DefaultMaxResponse is the longest body that is kept, in bytes.
	DefaultMaxResponse = 256 << 10
	// recordTimeout bounds one call of the store after the handler is done, when
	// the caller may have left.
	recordTimeout = 10 * time.Second
)

// Options configure a Guard.
type Options struct {
	Verifier *Verifier // required
	// Store makes each operation happen once. Required, unless HandlersClaim.
	Store Store
	// HandlersClaim: every handler makes sure of that by itself, with
	// guardsql.Once in the transaction of its write.
	HandlersClaim bool
	// SafeMethods are the HTTP methods that write nothing and need no token;
	// default GET, HEAD and OPTIONS.
	SafeMethods []string
	// Hold is longer than any handler takes; after it an operation whose process
	// died is unresolved. Default DefaultHold.
	Hold time.Duration
	// MaxResponse is the longest body that is kept for the next request; default
	// DefaultMaxResponse. A longer one is sent, and the next request is answered
	// with ReasonDone.
	MaxResponse int
	// Log gets why requests are refused. Required.
	Log *slog.Logger
}

// Guard lets operations through, each of them once. It is safe for concurrent
// use.
type Guard struct{ o Options }

// New makes a guard.
func New(o Options) (*Guard, error) {
	switch {
	case o.Verifier == nil || o.Log == nil:
		return nil, errors.New("guard: Verifier and Log are required")
	case o.Store == nil && !o.HandlersClaim:
		return nil, errors.New("guard: give a Store, or say HandlersClaim: without either a second request would be performed again")
	case o.Store != nil && o.HandlersClaim:
		return nil, errors.New("guard: either the Store claims operations or the handlers do, not both")
	case o.Hold < 0 || o.MaxResponse < 0:
		return nil, errors.New("guard: Hold and MaxResponse cannot be negative")
	}
	if o.SafeMethods == nil {
		o.SafeMethods = []string{http.MethodGet, http.MethodHead, http.MethodOptions}
	}
	if o.Hold == 0 {
		o.Hold = DefaultHold
	}
	if o.MaxResponse == 0 {
		o.MaxResponse = DefaultMaxResponse
	}
	o.SafeMethods = slices.Clone(o.SafeMethods)
	return &Guard{o}, nil
}

// Admit believes a token for one of the action types, and claims its operation.
// It is what middleware of any transport is made of; Require is the one for
// net/http, guardgrpc has those for gRPC.
//
// The caller performs the operation and calls one method of the Pass, unless the
// Pass brings the response of an earlier request. The error is a *RefusedError, and
// is logged here.
func (g *Guard) Admit(ctx context.Context, token string, actionTypes ...string) (*Pass, error) {
	claims, err := g.o.Verifier.Allow(ctx, token, actionTypes...)
	if err != nil {
		g.refused(claims, err)
		return nil, err
	}
	pass := &Pass{Claims: claims, guard: g}
	if g.o.HandlersClaim {
		return pass, nil
	}
	entry, err := g.o.Store.Begin(ctx, claims, g.o.Hold)
	if err != nil {
		err = refuse(ReasonUnavailable, err)
	} else {
		pass.Replay, err = Judge(claims, entry)
	}
	if err != nil {
		g.refused(claims, err)
		return nil, err
	}
	return pass, nil
}

// Judge says what an entry of a store means for a request: perform it (nil,
// nil), answer with the response, or refuse it with a *RefusedError.
func Judge(claims Claims, entry Entry) (*Response, error) {
	if entry.ArgumentsHash != claims.ArgumentsHash {
		return nil, refuse(ReasonMismatch, nil)
	}
	switch entry.State {
	case Begun:
		return nil, nil //nolint:nilnil // nothing to answer with, and no error: perform it
	case Running:
		return nil, refuse(ReasonInProgress, nil)
	case Finished:
		if entry.Response.NotKept {
			return nil, refuse(ReasonDone, nil)
		}
		return &entry.Response, nil
	default: // Unresolved, and what a store makes up
		return nil, refuse(ReasonUnresolved, nil)
	}
}

// refused logs why, for the people of the service.
func (g *Guard) refused(c Claims, err error) {
	g.o.Log.Warn("request refused", "reason", string(ReasonOf(err)), "error", err,
		"tenant", c.Tenant, "operation", c.OperationID, "action_type", c.ActionType)
}

// Pass is a request that was let through.
type Pass struct {
	Claims Claims
	// Replay is the response of an earlier request: send it, and do nothing.
	Replay *Response
	guard  *Guard
	free   atomic.Bool // the handler said NotApplied
}

type passKey struct{}

// Context carries the claims, and what NotApplied needs, to the handler.
func (p *Pass) Context(ctx context.Context) context.Context {
	return context.WithValue(NewContext(ctx, p.Claims), passKey{}, p)
}

// NotApplied says, from within a handler, that it has proof of having done
// nothing, whatever it answers: the next attempt of the operation is performed.
// Without it, an answer that is neither a success nor a refusal leaves the
// operation unresolved.
func NotApplied(ctx context.Context) {
	if p, ok := ctx.Value(passKey{}).(*Pass); ok {
		p.free.Store(true)
	}
}

// Done keeps the response of an operation that was performed. If it cannot be
// kept the operation becomes unresolved, and nobody performs it again.
func (p *Pass) Done(ctx context.Context, r Response) {
	if len(r.Body) > p.guard.o.MaxResponse {
		r = Response{Status: r.Status, NotKept: true}
	}
	p.record(ctx, func(ctx context.Context, s Store) error { return s.Finish(ctx, p.Claims.Operation(), r) })
}

// Refused gives back an operation that the handler refused: nothing was done.
func (p *Pass) Refused(ctx context.Context) {
	p.record(ctx, func(ctx context.Context, s Store) error { return s.Release(ctx, p.Claims) })
}

// Doubtful leaves an operation unresolved, unless the handler said NotApplied.
func (p *Pass) Doubtful(ctx context.Context) {
	switch {
	case p.guard.o.HandlersClaim: // the transaction of the write has decided
		return
	case p.free.Load():
		p.Refused(ctx)
		return
	}
	p.guard.o.Log.Error("operation is unresolved: find out whether it was done, and finish or release it in the store",
		"tenant", p.Claims.Tenant, "operation", p.Claims.OperationID, "action_type", p.Claims.ActionType)
	p.record(ctx, func(ctx context.Context, s Store) error { return s.Doubt(ctx, p.Claims.Operation()) })
}

// record tells the store, also when the caller has left.
func (p *Pass) record(ctx context.Context, tell func(context.Context, Store) error) {
	if p.guard.o.HandlersClaim {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := tell(ctx, p.guard.o.Store); err != nil {
		p.guard.o.Log.Error("how the operation ended is not recorded: it will be unresolved",
			"tenant", p.Claims.Tenant, "operation", p.Claims.OperationID, "error", err)
	}
}
