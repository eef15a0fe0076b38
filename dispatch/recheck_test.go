package dispatch

import (
	"context"
	"log/slog"
	"testing"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// moving is a ledger that makes the moves it is told.
type moving struct {
	counting
	moves []ledger.Change
}

func (m *moving) Apply(_ context.Context, c ledger.Change) (ledger.Operation, error) {
	m.moves = append(m.moves, c)
	op := c.Operation
	op.State, _ = ledger.Next(op.State, c.Event)
	op.LastEvent, op.Effect, op.Failure = c.Event, c.Effect, c.Failure
	return op, nil
}

// A policy that changes while the claim of an approved write waits for the ledger
// is asked after it, before a byte is sent, and again before the next attempt.
func TestPolicyThatChangesDuringTheClaim(t *testing.T) {
	t.Parallel()
	adapter, store := &scripted{answers: []actions.Outcome{kind(actions.Applied)}}, &moving{}
	registry, err := actions.NewRegistry(adapter)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	d, err := New(Options{
		Ledger: store, Registry: registry, Sealer: unsealed{}, Secret: make([]byte, 32), Log: slog.New(slog.DiscardHandler),
		Recheck: func(_ context.Context, op ledger.Operation, _ *actions.Action, _ actions.Arguments) (*ledger.Change, error) {
			if asked++; asked == 1 {
				return nil, nil
			}
			return &ledger.Change{Operation: op, Event: ledger.Reject, Failure: &ledger.Failure{Code: "policy_denied"}, Detail: "refused now"}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Abandon()
	for _, event := range []ledger.Event{ledger.Approve, ledger.Release} {
		asked, adapter.sent, store.claims, store.moves = 0, 0, 0, nil
		op := ledger.Operation{
			Tenant: "acme", ID: NewID(), ActionType: "pay.charge", AdapterVersion: "1", ContractVersion: "1", State: ledger.Pending, LastEvent: event,
		}
		held, err := d.Attempt(t.Context(), op, ledger.Claim, worker)
		if err != nil {
			t.Fatal(err)
		}
		if asked != 2 || store.claims != 1 || adapter.sent != 0 || held.State != ledger.Pending || held.Effect != ledger.EffectNotApplied {
			t.Errorf("%s: asked %d times, %d claims, %d sent: %+v", event, asked, store.claims, adapter.sent, held)
		}
		held, err = d.Attempt(t.Context(), held, ledger.Claim, worker)
		if err != nil {
			t.Fatal(err)
		}
		if asked != 3 || store.claims != 1 || adapter.sent != 0 || held.State != ledger.Failed || len(store.moves) != 2 {
			t.Errorf("%s, again: asked %d times, %d claims, %d sent: %+v", event, asked, store.claims, adapter.sent, held)
		}
	}
}
