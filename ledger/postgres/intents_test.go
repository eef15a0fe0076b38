package postgres_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// quiet returns an opening under one intent that stays closed for an hour.
func quiet(intent, distinctFrom string) ledger.Opening {
	o := ledgertest.Opening(acme)
	o.Operation.DistinctFrom = distinctFrom
	o.Holds.Fences = []ledger.Fence{{Intent: intent, Quiet: time.Hour}}
	return o
}

// While an operation is open under an intent nobody else is, whatever action type
// he asks for and whatever he says it is distinct from.
func TestIntentIsClosedWhileItsHolderIsOpen(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	holder := ledgertest.Open(t, store, ledgertest.Fenced(ledgertest.Opening(acme), "order 42", "customer 7"))
	for _, event := range []ledger.Event{ledger.Doubt, ledger.Escalate} {
		rephrased := ledgertest.Fenced(ledgertest.Recorded(acme), "customer 8", "order 42")
		rephrased.Operation.ActionType = "demo.coupon.create"
		if held := wantHeld(t, refusedOpen(t, store, db, rephrased), "order 42", holder); !held.QuietUntil.IsZero() {
			t.Errorf("quiet until %v, while it is open", held.QuietUntil)
		}
		rephrased.Operation.DistinctFrom = holder.ID
		wantHeld(t, refusedOpen(t, store, db, rephrased), "order 42", holder)
		held, err := store.IntentHolder(t.Context(), acme, rephrased.Holds.Fences, holder.ID)
		if err != nil || held == nil || held.Intent != "order 42" || held.Holder.ID != holder.ID {
			t.Errorf("held by %+v, %v", held, err)
		}
		holder = ledgertest.Moved(t, store, holder, event)
	}
	// Another tenant's order 42 is another one.
	ledgertest.Open(t, store, ledgertest.Fenced(ledgertest.Opening("globex"), "order 42"))
	// What was refused holds nothing.
	free := ledgertest.Open(t, store, ledgertest.Fenced(ledgertest.Opening(acme), "customer 8"))
	ledgertest.Moved(t, store, holder, ledger.Refuse)
	if held, err := store.IntentHolder(t.Context(), acme, []ledger.Fence{{Intent: "order 42"}}, ""); err != nil || held != nil {
		t.Errorf("after its holder failed: held by %+v, %v", held, err)
	}
	second := ledgertest.Open(t, store, ledgertest.Fenced(ledgertest.Opening(acme), "order 42"))
	// Without a quiet time a success gives it back as well.
	ledgertest.Moved(t, store, second, ledger.Confirm)
	ledgertest.Open(t, store, ledgertest.Fenced(ledgertest.Opening(acme), "order 42"))
	ledgertest.Moved(t, store, free, ledger.Confirm)
	if n := db.Count(t, `SELECT count(*) FROM intents`); n != 2 {
		t.Errorf("%d intents, want those of two tenants that are held", n)
	}
}

func TestOneOfManyAtOnceGetsTheIntent(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	stores := []*postgres.Store{db.Open(t), db.Open(t), db.Open(t)}
	var opened, refused atomic.Int64
	var all sync.WaitGroup
	for i := range 300 {
		all.Go(func() {
			o := ledgertest.Fenced(ledgertest.Opening(acme), "order 42", fmt.Sprint("step ", i%7))
			_, created, err := stores[i%3].Open(t.Context(), o)
			var held *ledger.IntentHeldError
			switch {
			case created:
				opened.Add(1)
			case errors.As(err, &held) && held.Holder.State == ledger.Running:
				refused.Add(1)
			default:
				t.Errorf("created %v, %v", created, err)
			}
		})
	}
	all.Wait()
	if opened.Load() != 1 || refused.Load() != 299 {
		t.Errorf("%d opened, %d refused", opened.Load(), refused.Load())
	}
	if n := db.Count(t, `SELECT count(*) FROM intents`); n != 2 {
		t.Errorf("%d intents are held, want the two of the one", n)
	}
}

// After a success it stays closed for who does not say that he means another one.
func TestQuietTime(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	first := ledgertest.Moved(t, store, ledgertest.Open(t, store, quiet("order", "")), ledger.Confirm)
	held := wantHeld(t, refusedOpen(t, store, db, quiet("order", "")), "order", first)
	if left := time.Until(held.QuietUntil); left < 59*time.Minute || left > time.Hour {
		t.Errorf("quiet for %v", left)
	}
	wantHeld(t, refusedOpen(t, store, db, quiet("order", ledgertest.ID())), "order", first)
	if held, err := store.IntentHolder(t.Context(), acme, []ledger.Fence{{Intent: "order"}}, first.ID); err != nil || held != nil {
		t.Errorf("distinct from the holder: %+v, %v", held, err)
	}
	// A second one on purpose, which fails: the first one's quiet time goes on.
	second := ledgertest.Open(t, store, quiet("order", first.ID))
	wantHeld(t, refusedOpen(t, store, db, quiet("order", first.ID)), "order", second)
	second = ledgertest.Moved(t, store, second, ledger.Refuse)
	wantHeld(t, refusedOpen(t, store, db, quiet("order", "")), "order", first)
	// The second one happened after all; then it is the one to be distinct from.
	second = ledgertest.Moved(t, store, second, ledger.Contradict)
	second = ledgertest.Moved(t, store, second, ledger.Confirm)
	wantHeld(t, refusedOpen(t, store, db, quiet("order", first.ID)), "order", second)
	third := ledgertest.Moved(t, store, ledgertest.Open(t, store, quiet("order", second.ID)), ledger.Confirm)
	wantHeld(t, refusedOpen(t, store, db, quiet("order", second.ID)), "order", third)
	db.AgeHolds(t, acme, time.Hour)
	ledgertest.Open(t, store, quiet("order", ""))
}

// A holder without a quiet time of its own leaves the one before it as quiet as
// it was.
func TestQuietTimeOutlivesADistinctOne(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	first := ledgertest.Moved(t, store, ledgertest.Open(t, store, quiet("order", "")), ledger.Confirm)
	second := ledgertest.Fenced(ledgertest.Opening(acme), "order")
	second.Operation.DistinctFrom = first.ID
	done := ledgertest.Moved(t, store, ledgertest.Open(t, store, second), ledger.Confirm)
	held := wantHeld(t, refusedOpen(t, store, db, quiet("order", "")), "order", done)
	if left := time.Until(held.QuietUntil); left < 59*time.Minute {
		t.Errorf("quiet for %v", left)
	}
}

// What turns out to have an effect closes its intent again, if nobody else has it.
func TestContradictionTakesAFreeIntentBack(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	failed := ledgertest.Moved(t, store, ledgertest.Open(t, store, quiet("free", "")), ledger.Refuse)
	failed = ledgertest.Moved(t, store, failed, ledger.Contradict)
	wantHeld(t, refusedOpen(t, store, db, quiet("free", "")), "free", failed)

	other := ledgertest.Moved(t, store, ledgertest.Open(t, store, quiet("taken", "")), ledger.Refuse)
	holder := ledgertest.Open(t, store, quiet("taken", ""))
	other = ledgertest.Moved(t, store, other, ledger.Contradict)
	wantHeld(t, refusedOpen(t, store, db, quiet("taken", "")), "taken", holder)
	ledgertest.Moved(t, store, other, ledger.Confirm) // gives back nothing that is not its own
	wantHeld(t, refusedOpen(t, store, db, quiet("taken", "")), "taken", holder)

	// A quiet time that is over is no holder.
	old := ledgertest.Moved(t, store, ledgertest.Open(t, store, quiet("old", "")), ledger.Refuse)
	ledgertest.Moved(t, store, ledgertest.Open(t, store, quiet("old", "")), ledger.Confirm)
	db.AgeHolds(t, acme, time.Hour)
	old = ledgertest.Moved(t, store, old, ledger.Contradict)
	wantHeld(t, refusedOpen(t, store, db, quiet("old", "")), "old", old)
}

// What is open again has its intent when whoever else was open under it has ended,
// however that was, and keeps it to its own end.
func TestContradictionComesAfterWhoeverHasTheIntent(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	for name, ends := range map[string]ledger.Event{"he succeeds": ledger.Confirm, "he fails": ledger.Refuse} {
		for how, effect := range map[string]ledger.Event{"an effect": ledger.Confirm, "none": ledger.Refuse} {
			intent := name + ", " + how
			open := func(distinctFrom string) ledger.Opening {
				o := ledgertest.Fenced(ledgertest.Opening(acme), intent)
				o.Operation.DistinctFrom = distinctFrom
				return o
			}
			failed := ledgertest.Moved(t, store, ledgertest.Open(t, store, open("")), ledger.Refuse)
			holder := ledgertest.Open(t, store, open(""))
			again := ledgertest.Moved(t, store, failed, ledger.Contradict)
			wantHeld(t, refusedOpen(t, store, db, open("")), intent, holder)
			ended := ledgertest.Moved(t, store, holder, ends)
			wantHeld(t, refusedOpen(t, store, db, open(ended.ID)), intent, again)
			ledgertest.Moved(t, store, again, effect)
			ledgertest.Open(t, store, open(""))
		}
	}
	// The one who has it is the last to end.
	failed := ledgertest.Moved(t, store, ledgertest.Open(t, store, quiet("late", "")), ledger.Refuse)
	holder := ledgertest.Open(t, store, quiet("late", ""))
	again := ledgertest.Moved(t, store, ledgertest.Moved(t, store, failed, ledger.Contradict), ledger.Confirm)
	ledgertest.Moved(t, store, holder, ledger.Refuse)
	wantHeld(t, refusedOpen(t, store, db, quiet("late", "")), "late", again)
	// In another one's quiet time.
	failed = ledgertest.Moved(t, store, ledgertest.Open(t, store, quiet("quiet", "")), ledger.Refuse)
	first := ledgertest.Moved(t, store, ledgertest.Open(t, store, quiet("quiet", "")), ledger.Confirm)
	again = ledgertest.Moved(t, store, failed, ledger.Contradict)
	wantHeld(t, refusedOpen(t, store, db, quiet("quiet", first.ID)), "quiet", again)
	ledgertest.Moved(t, store, again, ledger.Refuse)
	wantHeld(t, refusedOpen(t, store, db, quiet("quiet", "")), "quiet", first)
}

// The holder may be gone from the ledger before its quiet time is over.
func TestHolderThatIsGone(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	o := quiet("order", "")
	o.Window, o.ExpiredKeyReuse = time.Millisecond, true
	first := ledgertest.Moved(t, store, ledgertest.Open(t, store, o), ledger.Confirm)
	db.Age(t, first, time.Minute)
	if _, swept, _, err := store.Sweep(t.Context(), 10); err != nil || swept != 1 {
		t.Fatalf("swept %d, %v", swept, err)
	}
	held := wantHeld(t, refusedOpen(t, store, db, quiet("order", "")), "order", ledger.Operation{ID: first.ID, State: ledger.Succeeded})
	if held.QuietUntil.IsZero() || held.Holder.Key != first.Key {
		t.Errorf("%+v", held)
	}
	if n := db.Count(t, `SELECT count(*) FROM holds`); n != 0 {
		t.Errorf("%d rows of holds are left of what is gone", n)
	}
}
