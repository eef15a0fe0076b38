package postgres_test

import (
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// wantUse checks what a reading says of a charge, and that a transaction would
// say the same where it is refused.
func wantUse(t *testing.T, store *postgres.Store, db ledgertest.Database, charge ledger.Charge, used string, freeByTime bool, when string) {
	t.Helper()
	uses, err := store.BudgetUse(t.Context(), acme, []ledger.Charge{charge}, "")
	if err != nil {
		t.Fatal(err)
	}
	if uses[0].Used != used || uses[0].FreeAt.IsZero() == freeByTime {
		t.Errorf("%s: %s used, free at %v; want %s, and a time %v", when, uses[0].Used, uses[0].FreeAt, used, freeByTime)
	}
	if used == "0" {
		return
	}
	refused := wantExhausted(t, refusedOpen(t, store, db, ledgertest.Holding(ledgertest.Opening(acme), charge)), used)
	if refused.FreeAt.IsZero() == freeByTime {
		t.Errorf("%s: refused until %v, want a time %v", when, refused.FreeAt, freeByTime)
	}
}

// An operation that waits past the end of its window does not spend the money of
// the past window in the present one: while it is open it counts in every one.
func TestLaw08_OpenOperationsCountInEveryWindow(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		window ledger.Window
		past   time.Duration // longer than the window
		within time.Duration // certainly in the window that begins now
	}{
		"calendar": {ledger.Window{Unit: "day", Zone: "Europe/Berlin"}, 2 * day, 0},
		"sliding":  {ledger.Window{Sliding: time.Hour}, 3 * time.Hour, time.Hour - time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, db := ledgertest.NewStore(t)
			charge := ledgertest.Charge("c", "7.50", "10")
			charge.Window = test.window
			for _, start := range []ledger.Opening{ledgertest.Opening(acme), ledgertest.Recorded(acme), ledgertest.Asked(acme)} {
				op := ledgertest.Open(t, store, ledgertest.Holding(start, charge))
				db.AgeHolds(t, acme, test.past)
				wantUse(t, store, db, charge, "7.50", false, string(op.State)+" past its window")
				if op.State == ledger.Running {
					op = ledgertest.Moved(t, store, op, ledger.Doubt)
					db.AgeHolds(t, acme, test.past)
					wantUse(t, store, db, charge, "7.50", false, "unknown past its window")
					op = ledgertest.Moved(t, store, op, ledger.Escalate)
				}
				db.AgeHolds(t, acme, 500*day)
				wantUse(t, store, db, charge, "7.50", false, "waiting for years")
				if start.Review != nil {
					op = ledgertest.Moved(t, store, op, ledger.Approve)
				}
				// It is sent at last: then it is today's money.
				ledgertest.Brought(t, store, op, ledger.Succeeded)
				wantUse(t, store, db, charge, "7.50", true, "succeeded")
				db.AgeHolds(t, acme, test.within)
				wantUse(t, store, db, charge, "7.50", true, "in the window of its success")
				db.AgeHolds(t, acme, test.past-test.within)
				wantUse(t, store, db, charge, "0", false, "after the window of its success")
			}
			op := ledgertest.Moved(t, store, ledgertest.Open(t, store, ledgertest.Holding(ledgertest.Opening(acme), charge)), ledger.Doubt)
			db.AgeHolds(t, acme, test.past)
			op = ledgertest.Moved(t, store, op, ledger.Refuse)
			wantUse(t, store, db, charge, "0", false, "failed")
			// There was an effect after all, of which nobody knows when.
			op = ledgertest.Moved(t, store, op, ledger.Contradict)
			db.AgeHolds(t, acme, test.past)
			wantUse(t, store, db, charge, "7.50", false, "contradicted")
			ledgertest.Moved(t, store, op, ledger.Confirm)
			wantUse(t, store, db, charge, "7.50", true, "contradicted and confirmed")
			db.AgeHolds(t, acme, test.past)
			wantUse(t, store, db, charge, "0", false, "at the end")
		})
	}
}

// Of what counts now, some leaves by itself and some does not: a time is told
// only where what leaves is enough.
func TestFreeAtIsOfWhatIsUsed(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	charge := func(amount string) ledger.Charge {
		c := ledgertest.Charge("c", amount, "10")
		c.Window.Unit = "week"
		return c
	}
	ledgertest.Moved(t, store, ledgertest.Open(t, store, ledgertest.Holding(ledgertest.Opening(acme), charge("4"))), ledger.Confirm)
	ledgertest.Open(t, store, ledgertest.Holding(ledgertest.Opening(acme), charge("5")))
	// The first one fits now, the last one not even when what is used has left.
	for amount, byTime := range map[string]bool{"1": false, "1.01": true, "5": true, "5.01": false} {
		uses, err := store.BudgetUse(t.Context(), acme, []ledger.Charge{charge(amount)}, "")
		if err != nil || uses[0].Used != "9" {
			t.Fatalf("%+v, %v", uses, err)
		}
		if uses[0].FreeAt.IsZero() == byTime {
			t.Errorf("%s: free at %v, want a time %v", amount, uses[0].FreeAt, byTime)
		}
	}
}

// A request counts where it was made, however long its operation takes.
func TestRateCountsFromTheRequest(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	rate := ledgertest.Charge("rate", "1", "9")
	rate.Kind, rate.Window.Sliding = ledger.ChargeRate, time.Hour
	op := ledgertest.Moved(t, store, ledgertest.Open(t, store, ledgertest.Holding(ledgertest.Opening(acme), rate)), ledger.Doubt)
	wantCounted(t, db, "rate", "1", "unknown")
	db.AgeHolds(t, acme, 2*time.Hour)
	wantCounted(t, db, "rate", "0", "unknown after its window")
	ledgertest.Moved(t, store, op, ledger.Confirm)
	wantCounted(t, db, "rate", "0", "succeeded")
}

// A receipt is not lost for a zone that the database does not know any more; the
// charges of its neighbours end where they should.
func TestSuccessWithAZoneThatIsGone(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	gone, known := ledgertest.Charge("gone", "1", "1"), ledgertest.Charge("known", "1", "1")
	gone.Window.Unit, known.Window = "day", ledger.Window{Unit: "day", Zone: "Asia/Kolkata"}
	op := ledgertest.Open(t, store, ledgertest.Holding(ledgertest.Opening(acme), gone, known))
	db.Exec(t, `UPDATE holds SET zones = '{Mars/Olympus,Asia/Kolkata}'`)
	ledgertest.Moved(t, store, op, ledger.Confirm)
	uses, err := store.BudgetUse(t.Context(), acme, []ledger.Charge{gone, known}, "")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"00:00", "18:30"} {
		if got := uses[i].FreeAt.UTC().Format("15:04"); uses[i].Used != "1" || got != want {
			t.Errorf("%s: %s used until %s, want until %s", uses[i].Counter, uses[i].Used, got, want)
		}
	}
}
