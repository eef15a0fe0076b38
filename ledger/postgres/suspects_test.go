package postgres_test

import (
	"errors"
	"testing"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// A flood of requests that a budget or an intent has no room for writes nothing
// after the first one, and ends with the first that has room.
func TestFloodOfRefusalsWritesNothing(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	store, err := postgres.Open(t.Context(), db.ServeURL)
	if err != nil {
		t.Fatal(err)
	}
	holder := ledgertest.Open(t, store, ledgertest.Fenced(ledgertest.Holding(ledgertest.Opening(acme), ledgertest.Charge("c", "1", "1")), "order"))
	for range 40 {
		var exhausted *ledger.BudgetExhaustedError
		if _, _, err := store.Open(t.Context(), ledgertest.Holding(ledgertest.Opening(acme), ledgertest.Charge("d", "1", "9"), ledgertest.Charge("c", "1", "1"))); !errors.As(err, &exhausted) || exhausted.Use.Used != "1" || exhausted.Use.Counter != "c" {
			t.Fatalf("a full budget: %v", err)
		}
		_, _, err := store.Open(t.Context(), ledgertest.Fenced(ledgertest.Opening(acme), "other", "order"))
		wantHeld(t, err, "order", holder)
	}
	// A duplicate of the holder is none of them.
	again := ledgertest.Fenced(ledgertest.Holding(ledgertest.Opening(acme), ledgertest.Charge("c", "1", "1")), "order")
	again.Operation.Key = holder.Key
	if op, created, err := store.Open(t.Context(), again); err != nil || created || op.ID != holder.ID {
		t.Errorf("a duplicate: %s, created %v, %v", op.ID, created, err)
	}
	// More may fit than the one that was refused.
	ledgertest.Open(t, store, ledgertest.Holding(ledgertest.Opening(acme), ledgertest.Charge("c", "1", "2")))
	ledgertest.Moved(t, store, holder, ledger.Refuse)
	ledgertest.Open(t, store, ledgertest.Fenced(ledgertest.Opening(acme), "order"))
	// A correction that is refused is a flood as well, and who has corrected is not
	// told that there is no room.
	failed := ledgertest.Moved(t, store, ledgertest.Open(t, store, ledgertest.Holding(ledgertest.Opening(acme), ledgertest.Charge("e", "1", "1"))), ledger.Refuse)
	correction := ledgertest.Holding(ledgertest.Opening(acme), ledgertest.Charge("e", "2", "1"))
	correction.Operation.ArgsHash = ledgertest.Hash("corrected")
	for range 40 {
		var exhausted *ledger.BudgetExhaustedError
		if _, err := store.Correct(t.Context(), failed, correction); !errors.As(err, &exhausted) {
			t.Fatalf("a correction that does not fit: %v", err)
		}
	}
	correction.Holds.Charges[0].Amount = "1"
	if _, err := store.Correct(t.Context(), failed, correction); err != nil {
		t.Error(err)
	}
	if _, err := store.Correct(t.Context(), failed, correction); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("corrected twice: %v", err)
	}
	store.Close() // connections that end report what they did
	watch := db.Owner(t)
	// Four were made, and two refused by a transaction; one was settled, one settled
	// and corrected, and one correction was refused by a transaction.
	awaitCount(t, watch, 4+2, `SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'operations'`)
	awaitCount(t, watch, 2, `SELECT n_tup_del FROM pg_stat_user_tables WHERE relname = 'operations'`)
	awaitCount(t, watch, 1+2+1, `SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'operations'`)
}
