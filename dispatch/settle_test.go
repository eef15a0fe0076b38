package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// shaky is a ledger that answers as a test says, in order.
type shaky struct {
	Ledger // what no test expects
	apply  []func(ledger.Change) (ledger.Operation, error)
	get    []func() (ledger.Operation, error)
}

func (s *shaky) Apply(_ context.Context, c ledger.Change) (ledger.Operation, error) {
	next := s.apply[0]
	s.apply = s.apply[1:]
	return next(c)
}

func (s *shaky) Get(context.Context, string, string) (ledger.Operation, error) {
	next := s.get[0]
	s.get = s.get[1:]
	return next()
}

func settleOn(t *testing.T, s *shaky, op ledger.Operation) ledger.Operation {
	t.Helper()
	d, err := New(Options{Ledger: s, Secret: make([]byte, 32), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Abandon()
	return d.settle(t.Context(), op, spec(), outcome(actions.Applied))
}

// A receipt survives a ledger that goes away, fences the worker off and fails
// the read that should tell why.
func TestReceiptSurvivesAShakyLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := func(ledger.Change) (ledger.Operation, error) { return ledger.Operation{}, ledger.ErrUnavailable }
		fenced := func(ledger.Change) (ledger.Operation, error) { return ledger.Operation{}, ledger.ErrFenced }
		now := running(1, true)
		now.State, now.Revision = ledger.Unknown, 3
		s := &shaky{
			apply: []func(ledger.Change) (ledger.Operation, error){away, fenced, fenced, func(c ledger.Change) (ledger.Operation, error) {
				if c.Event != ledger.Confirm || c.Operation.State != ledger.Unknown || c.ProviderReference != "re_1" || c.Operation.ID != "op" {
					t.Errorf("settled by %+v", c)
				}
				c.Operation.State = ledger.Succeeded
				return c.Operation, nil
			}},
			get: []func() (ledger.Operation, error){
				func() (ledger.Operation, error) { return ledger.Operation{}, errors.New("flaky") },
				func() (ledger.Operation, error) { return now, nil },
			},
		}
		if got := settleOn(t, s, running(1, false)); got.State != ledger.Succeeded {
			t.Errorf("settled as %+v", got)
		}
	})
}

// An operation that is gone is no reason to try for ever.
func TestSettlingEndsWhenTheOperationIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shaky{
			apply: []func(ledger.Change) (ledger.Operation, error){func(ledger.Change) (ledger.Operation, error) { return ledger.Operation{}, ledger.ErrFenced }},
			get:   []func() (ledger.Operation, error){func() (ledger.Operation, error) { return ledger.Operation{}, ledger.ErrNotFound }},
		}
		settleOn(t, s, running(1, false))
	})
}

// Whether attempts are used up is read before an operation is ended for it, as
// often as it takes.
func TestUsedUpAttemptsAreReadFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := actions.RateLimited
		s := &shaky{
			apply: []func(ledger.Change) (ledger.Operation, error){func(c ledger.Change) (ledger.Operation, error) {
				if c.Event != ledger.Defer || c.Effect != ledger.EffectNotApplied {
					t.Errorf("settled by %+v", c)
				}
				c.Operation.State = ledger.Pending
				return c.Operation, nil
			}},
			get: []func() (ledger.Operation, error){
				func() (ledger.Operation, error) { return ledger.Operation{}, ledger.ErrUnavailable },
				func() (ledger.Operation, error) { return after(ledger.Running, limited, limited), nil },
			},
		}
		d, err := New(Options{Ledger: s, Secret: make([]byte, 32), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Abandon()
		if got := d.settle(t.Context(), running(3, false), spec(), outcome(limited)); got.State != ledger.Pending || len(s.get) != 0 {
			t.Errorf("settled as %+v", got)
		}
	})
}
