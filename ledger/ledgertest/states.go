package ledgertest

import (
	"context"
	"testing"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/postgres"
)

// InState brings a new operation into a state through legal moves only, and
// returns it as Get does. Unless it is to stay pending it is claimed at once.
func InState(t testing.TB, store *postgres.Store, tenant string, state ledger.State) ledger.Operation {
	t.Helper()
	if state == ledger.Pending {
		return Open(t, store, Recorded(tenant))
	}
	return Brought(t, store, Open(t, store, Opening(tenant)), state)
}

// Brought brings a pending or running operation into another state through
// legal moves only, and returns it as Get does.
func Brought(t testing.TB, store *postgres.Store, op ledger.Operation, to ledger.State) ledger.Operation {
	t.Helper()
	if op.State == ledger.Pending && to != ledger.Pending {
		op = Moved(t, store, op, ledger.Claim)
	}
	for _, event := range way(to) {
		op = Moved(t, store, op, event)
	}
	return op
}

// way is how a running operation gets into a state.
func way(to ledger.State) []ledger.Event {
	switch to {
	case ledger.Succeeded:
		return []ledger.Event{ledger.Confirm}
	case ledger.Unknown:
		return []ledger.Event{ledger.Doubt}
	case ledger.Failed:
		return []ledger.Event{ledger.Refuse}
	case ledger.NeedsReview:
		return []ledger.Event{ledger.Doubt, ledger.Escalate}
	default:
		return nil
	}
}

// Open opens an operation that must be new, and returns it as Get does.
func Open(t testing.TB, store *postgres.Store, o ledger.Opening) ledger.Operation {
	t.Helper()
	op, created, err := store.Open(t.Context(), o)
	if err != nil || !created {
		t.Fatalf("ledgertest: opening a new operation: created %v, %v", created, err)
	}
	return Get(t, store, op)
}

// Get reads an operation again, with its attempts and review.
func Get(t testing.TB, store *postgres.Store, op ledger.Operation) ledger.Operation {
	t.Helper()
	got, err := store.Get(t.Context(), op.Tenant, op.ID)
	if err != nil {
		t.Fatalf("ledgertest: reading operation %s: %v", op.ID, err)
	}
	return got
}

// Moved makes a legal move and returns the operation as Get does.
func Moved(t testing.TB, store *postgres.Store, op ledger.Operation, event ledger.Event) ledger.Operation {
	t.Helper()
	moved, err := Move(t.Context(), store, op, event)
	if err != nil {
		t.Fatalf("ledgertest: %s of a %s operation: %v", event, op.State, err)
	}
	return Get(t, store, moved)
}

// Leased takes the reconciler's lease of an unknown operation that is due, and
// returns it so. Other operations that are due are leased with it.
func Leased(t testing.TB, store *postgres.Store, op ledger.Operation) ledger.Operation {
	t.Helper()
	leased, err := store.LeaseUnknown(t.Context(), 1000, Lease)
	if err != nil {
		t.Fatalf("ledgertest: leasing: %v", err)
	}
	for _, l := range leased {
		if l.ID == op.ID {
			return l
		}
	}
	t.Fatalf("ledgertest: operation %s is not to be leased", op.ID)
	return ledger.Operation{}
}

// Move makes a move of an existing operation by the method of the store that
// is for it. Replay needs an operation that is Leased.
func Move(ctx context.Context, store *postgres.Store, op ledger.Operation, event ledger.Event) (ledger.Operation, error) {
	switch event {
	case ledger.Claim, ledger.Replay:
		return store.Start(ctx, Claiming(op))
	case ledger.Correct:
		o := Opening(op.Tenant)
		o.Operation.ArgsHash = Hash("corrected arguments")
		return store.Correct(ctx, op, o)
	default:
		return store.Apply(ctx, Change(op, event))
	}
}
