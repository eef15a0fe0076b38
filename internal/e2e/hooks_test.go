package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/ledger"
)

// write chooses the provider's writes whose body names something.
func write(name string) fakeprovider.Predicate {
	return func(r *http.Request, body []byte) bool {
		return r.Method == http.MethodPost && bytes.Contains(body, []byte(name))
	}
}

// joinCounter is a ledger that counts the requests that found their key taken.
type joinCounter struct {
	app.Ledger
	joined *atomic.Int32
}

func (c joinCounter) Open(ctx context.Context, o ledger.Opening) (ledger.Operation, bool, error) {
	op, created, err := c.Ledger.Open(ctx, o)
	if err == nil && !created {
		c.joined.Add(1)
	}
	return op, created, err
}

// countJoins makes a replica count the requests that join.
func countJoins(joined *atomic.Int32) func(*app.Config) {
	return func(c *app.Config) {
		c.WrapLedger = func(l app.Ledger) app.Ledger { return joinCounter{l, joined} }
	}
}

// forgetful is a ledger whose answer to a move of a running operation is lost
// on the way, the first time.
type forgetful struct {
	app.Ledger
	lost atomic.Bool
}

func (f *forgetful) Apply(ctx context.Context, c ledger.Change) (ledger.Operation, error) {
	op, err := f.Ledger.Apply(ctx, c)
	if err == nil && f.lost.CompareAndSwap(false, true) {
		return ledger.Operation{}, ledger.ErrUnavailable
	}
	return op, err
}

// door is a ledger before which claims wait until it is opened. The first that
// comes closes reached.
type door struct {
	app.Ledger
	arrive  func()
	release func()
	reached chan struct{}
	opened  chan struct{}
}

func newDoor() *door {
	d := &door{reached: make(chan struct{}), opened: make(chan struct{})}
	d.arrive = sync.OnceFunc(func() { close(d.reached) })
	d.release = sync.OnceFunc(func() { close(d.opened) })
	return d
}

func (d *door) Open(ctx context.Context, o ledger.Opening) (ledger.Operation, bool, error) {
	d.arrive()
	<-d.opened
	return d.Ledger.Open(ctx, o)
}

// patient is a ledger that finds no deferred attempt due.
type patient struct{ app.Ledger }

func (patient) DuePending(context.Context, int) ([]ledger.Operation, error) { return nil, nil }

// scripted is an adapter whose provider exists in the test only.
type scripted struct {
	spec    actions.Spec
	execute func(actions.Call) actions.Outcome
	calls   *atomic.Int32
}

var _ actions.Adapter = scripted{}

func newScripted(actionType string, execute func(actions.Call) actions.Outcome) scripted {
	return scripted{
		spec: actions.Spec{
			Type: actionType, Version: "1", Schema: json.RawMessage(`{"type":"object"}`),
			Contract: actions.Contract{Provider: "scripted", Version: "1"},
		},
		execute: execute, calls: new(atomic.Int32),
	}
}

func (s scripted) Spec() actions.Spec               { return s.spec }
func (s scripted) Validate(actions.Arguments) error { return nil }
func (s scripted) Execute(_ context.Context, call actions.Call) actions.Outcome {
	s.calls.Add(1)
	return s.execute(call)
}
