package postgres_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// Never more than the limit, whoever asks at the same time, and exactly that much
// where there is demand for it.
func TestThousandOpeningsOfThreeReplicasTakeExactlyTheBudget(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		amount, limit, full string
		fit                 int
	}{
		"calls": {"1", "500", "500", 500},
		// 500 of 3.33, and nothing of the four cents that are left.
		"cents": {"3.33", "1665.04", "1665.00", 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := ledgertest.NewDatabase(t)
			stores := []*postgres.Store{db.Open(t), db.Open(t), db.Open(t)}
			var opened, refused atomic.Int64
			var all sync.WaitGroup
			for i := range 1000 {
				all.Go(func() {
					charge := ledgertest.Charge("spend", test.amount, test.limit)
					charge.Window.Unit = "month"
					if i%2 == 0 { // many are decided by a transaction when it is full
						stores[i%3].ForgetRefusals()
					}
					op, created, err := stores[i%3].Open(t.Context(), ledgertest.Holding(ledgertest.Opening(acme), charge))
					var exhausted *ledger.BudgetExhaustedError
					switch {
					case err == nil && created && op.Held:
						opened.Add(1)
					case errors.As(err, &exhausted) && exhausted.Use.Used == test.full && exhausted.Use.FreeAt.IsZero():
						refused.Add(1)
					default:
						t.Errorf("created %v, held %v, %v", created, op.Held, err)
					}
				})
			}
			all.Wait()
			if int(opened.Load()) != test.fit || int(refused.Load()) != 1000-test.fit {
				t.Errorf("%d opened and %d refused, want %d and %d", opened.Load(), refused.Load(), test.fit, 1000-test.fit)
			}
			wantCounted(t, db, "spend", test.full, "at the end")
			for _, table := range []string{"operations", "holds", "audit_events"} {
				if n := db.Count(t, `SELECT count(*) FROM `+table); n != test.fit {
					t.Errorf("%d rows of %s, want %d", n, table, test.fit)
				}
			}
		})
	}
}

// Many at once who want one key of a budget that is exhausted are all told so;
// with room for one, one is made and the others get it.
func TestSameKeyAtOnce(t *testing.T) {
	t.Parallel()
	for limit, want := range map[string]int{"0": 0, "1": 1} {
		store, db := patient(t)
		release := held(t, store, db)
		o := ledgertest.Holding(ledgertest.Opening(acme), ledgertest.Charge("calls", "1", limit))
		var created, joined, refused atomic.Int64
		all := together(t, store, 40, func(i int) {
			mine := o
			mine.Operation.ID = ledgertest.ID()
			if i%2 == 0 { // what one cannot have says nothing about the other
				mine.Holds = ledger.Holds{Charges: []ledger.Charge{ledgertest.Charge("other calls", "1", limit)}}
			}
			_, made, err := store.Open(t.Context(), mine)
			var exhausted *ledger.BudgetExhaustedError
			switch {
			case made:
				created.Add(1)
			case err == nil:
				joined.Add(1)
			case errors.As(err, &exhausted):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
		release()
		all.Wait()
		if int(created.Load()) != want || int(joined.Load()) != 39*want || int(refused.Load()) != 40*(1-want) {
			t.Errorf("limit %s: %d created, %d joined, %d refused", limit, created.Load(), joined.Load(), refused.Load())
		}
	}
}

// One that does not fit leaves its neighbours in the batch alone, and the first
// in order get what there is.
func TestRefusedOpeningFailsAlone(t *testing.T) {
	t.Parallel()
	store, db := patient(t)
	release := held(t, store, db)
	results := make([]error, 30)
	all := together(t, store, len(results), func(i int) {
		o := ledgertest.Asked(acme)
		o.Operation.Key = fmt.Sprintf("batch-%02d", i)
		switch i % 3 {
		case 0: // no holds
		case 1:
			o = ledgertest.Holding(o, ledgertest.Charge("a", "1", "100"), ledgertest.Charge("b", "1", "4"))
		case 2:
			o = ledgertest.Fenced(ledgertest.Holding(o, ledgertest.Charge("a", "1", "100")), "order 42")
		}
		_, _, results[i] = store.Open(t.Context(), o)
	})
	release()
	all.Wait()
	for i, err := range results {
		var exhausted *ledger.BudgetExhaustedError
		var held *ledger.IntentHeldError
		switch {
		case i%3 == 1 && i > 10:
			if !errors.As(err, &exhausted) || exhausted.Use.Counter != "b" || exhausted.Use.Used != "4" {
				t.Errorf("opening %d: %v", i, err)
			}
		case i%3 == 2 && i > 2:
			if !errors.As(err, &held) || held.Holder.Key != "batch-02" {
				t.Errorf("opening %d: %v", i, err)
			}
		case err != nil:
			t.Errorf("opening %d: %v", i, err)
		}
	}
	wantCounted(t, db, "a", "5", "what was refused is not charged")
	wantCounted(t, db, "b", "4", "full")
	for _, table := range []string{"operations", "audit_events"} {
		if n := db.Count(t, `SELECT count(*) FROM `+table+` WHERE idempotency_key ~ '^batch'`); n != 15 {
			t.Errorf("%d rows of %s, want 15", n, table)
		}
	}
	if n := db.Count(t, `SELECT count(*) FROM reviews`); n != 15 {
		t.Errorf("%d reviews, want 15", n)
	}
}

// Two replicas that charge the same counters in opposite orders, and settle at
// the same time, do not get in each other's way.
func TestNobodyWaitsForEachOther(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	stores := []*postgres.Store{db.Open(t), db.Open(t), db.Open(t)}
	counters := []string{"a", "b", "c", "d", "e"}
	var all sync.WaitGroup
	for i := range 240 {
		all.Go(func() {
			store := stores[i%3]
			o := ledgertest.Opening(acme)
			for n := range counters {
				c := ledgertest.Charge(counters[(i*(1+i%2*3)+n)%len(counters)], "1", "100000")
				c.Kind = ledger.ChargeOpen
				o.Holds.Charges = append(o.Holds.Charges, c)
			}
			if i%2 == 0 {
				o = ledgertest.Fenced(o, fmt.Sprint("x", i), fmt.Sprint("a", -i))
			}
			op, _, err := store.Open(t.Context(), o)
			if err == nil {
				_, err = store.Apply(t.Context(), ledgertest.Change(op, []ledger.Event{ledger.Confirm, ledger.Refuse}[i/2%2]))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, counter := range counters {
		wantCounted(t, db, counter, "0", "all ended")
	}
	if n := db.Count(t, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
	if n := db.Count(t, `SELECT count(*) FROM intents`); n != 0 {
		t.Errorf("%d intents are left", n)
	}
}
