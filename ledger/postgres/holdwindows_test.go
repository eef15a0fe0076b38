package postgres_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
)

// What is used counts from the success on, until its window is over.
func TestWindows(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		window ledger.Window
		open   time.Duration // after so long it still counts
		over   time.Duration // and after so long it does not
	}{
		"month in Tokyo": {ledger.Window{Unit: "month", Zone: "Asia/Tokyo"}, 0, 31 * day},
		"week":           {ledger.Window{Unit: "week"}, 0, 7 * day},
		"day":            {ledger.Window{Unit: "day", Zone: "America/New_York"}, 0, 25 * time.Hour},
		"sliding":        {ledger.Window{Sliding: 100 * day}, 100 * day, 102 * day},
		"for ever":       {ledger.Window{}, 10000 * day, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, db := ledgertest.NewStore(t)
			charge := ledgertest.Charge("c", "1", "1")
			charge.Window = test.window
			o := ledgertest.Holding(ledgertest.Opening(acme), charge)
			ledgertest.Moved(t, store, ledgertest.Open(t, store, o), ledger.Confirm)
			db.AgeHolds(t, acme, test.open)
			use := wantExhausted(t, refusedOpen(t, store, db, ledgertest.Holding(ledgertest.Opening(acme), charge)), "1")
			now := time.Now()
			if test.over == 0 != use.FreeAt.IsZero() || !use.FreeAt.IsZero() && (use.FreeAt.Before(now.Add(-time.Minute)) || use.FreeAt.After(now.Add(test.over-test.open+time.Minute))) {
				t.Errorf("free at %v, now %v", use.FreeAt, now)
			}
			if test.over > 0 {
				db.AgeHolds(t, acme, test.over-test.open)
				ledgertest.Open(t, store, ledgertest.Holding(ledgertest.Opening(acme), charge))
			}
		})
	}
}

// What succeeded leaves a sliding window step by step; what is given back is free
// at once.
func TestSlidingWindowGoesInSteps(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	charge := ledgertest.Charge("c", "2", "5")
	charge.Window.Sliding = 60 * time.Hour
	opened := func() ledger.Operation {
		return ledgertest.Open(t, store, ledgertest.Holding(ledgertest.Opening(acme), charge))
	}
	ledgertest.Moved(t, store, opened(), ledger.Confirm)
	db.AgeHolds(t, acme, 30*time.Hour)
	newer := opened()
	use := wantExhausted(t, refusedOpen(t, store, db, ledgertest.Holding(ledgertest.Opening(acme), charge)), "4")
	if left := time.Until(use.FreeAt); left < 29*time.Hour || left > 31*time.Hour {
		t.Errorf("free in %v, want when the older step has left the window", left)
	}
	ledgertest.Moved(t, store, newer, ledger.Refuse)
	wantCounted(t, db, "c", "2", "the newer one failed")
	ledgertest.Moved(t, store, opened(), ledger.Confirm)
	wantCounted(t, db, "c", "4", "another one succeeded")
	db.AgeHolds(t, acme, 31*time.Hour)
	wantCounted(t, db, "c", "2", "the older step is past")
	db.AgeHolds(t, acme, 31*time.Hour)
	wantCounted(t, db, "c", "0", "the newer step is past")
}

// However it is used, a sliding counter keeps as many buckets as it has steps,
// and the one that is under way.
func TestSlidingWindowStaysSmall(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	charge := ledgertest.Charge("c", "1", "1000")
	charge.Kind, charge.Window.Sliding = ledger.ChargeRate, 60*time.Minute
	for range 150 {
		ledgertest.Open(t, store, ledgertest.Holding(ledgertest.Opening(acme), charge))
		db.AgeHolds(t, acme, time.Minute)
	}
	if n := db.Count(t, `SELECT cardinality(ends) FROM budget_counters WHERE counter = 'c'`); n != 61 && n != 60 {
		t.Errorf("%d buckets, want 61 at most", n)
	}
}

func TestHoldsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	edit := func(change func(*ledger.Charge)) ledger.Holds {
		c := ledgertest.Charge("c", "1", "10")
		change(&c)
		return ledger.Holds{Charges: []ledger.Charge{c}}
	}
	for name, holds := range map[string]ledger.Holds{
		"not a number":      edit(func(c *ledger.Charge) { c.Amount = "NaN" }),
		"infinite limit":    edit(func(c *ledger.Charge) { c.Limit = "Infinity" }),
		"negative":          edit(func(c *ledger.Charge) { c.Amount = "-1" }),
		"exponent":          edit(func(c *ledger.Charge) { c.Amount = "1e3" }),
		"huge":              edit(func(c *ledger.Charge) { c.Amount = strings.Repeat("9", 21) }),
		"too fine":          edit(func(c *ledger.Charge) { c.Amount = "0.0000000000001" }),
		"new line":          edit(func(c *ledger.Charge) { c.Amount = "1\n" }),
		"no amount":         edit(func(c *ledger.Charge) { c.Amount = "" }),
		"no limit":          edit(func(c *ledger.Charge) { c.Limit = "" }),
		"no counter":        edit(func(c *ledger.Charge) { c.Counter = "" }),
		"long counter":      edit(func(c *ledger.Charge) { c.Counter = strings.Repeat("c", 401) }),
		"no kind":           edit(func(c *ledger.Charge) { c.Kind = "" }),
		"two windows":       edit(func(c *ledger.Charge) { c.Window = ledger.Window{Unit: "day", Sliding: time.Hour} }),
		"unknown unit":      edit(func(c *ledger.Charge) { c.Window.Unit = "year" }),
		"unknown zone":      edit(func(c *ledger.Charge) { c.Window = ledger.Window{Unit: "day", Zone: "Mars/Olympus"} }),
		"negative window":   edit(func(c *ledger.Charge) { c.Window.Sliding = -time.Hour }),
		"long window":       edit(func(c *ledger.Charge) { c.Window.Sliding = 401 * 24 * time.Hour }),
		"no intent":         {Fences: []ledger.Fence{{}}},
		"long intent":       {Fences: []ledger.Fence{{Intent: strings.Repeat("i", 401)}}},
		"intent twice":      {Fences: []ledger.Fence{{Intent: "a"}, {Intent: "a"}}},
		"negative quiet":    {Fences: []ledger.Fence{{Intent: "a", Quiet: -1}}},
		"quiet for decades": {Fences: []ledger.Fence{{Intent: "a", Quiet: 99999 * time.Hour}}},
	} {
		o := ledgertest.Opening(acme)
		o.Holds = holds
		if err := refusedOpen(t, store, db, o); errors.As(err, new(*ledger.BudgetExhaustedError)) || errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("%s: %v, want what is wrong with it", name, err)
		}
	}
	if n := db.Count(t, `SELECT count(*) FROM budget_counters`); n != 0 {
		t.Errorf("%d counters", n)
	}
}

// The same counter in two charges of one operation counts both.
func TestCounterTwiceInOneOperation(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	c := ledgertest.Charge("c", "3", "5")
	wantExhausted(t, refusedOpen(t, store, db, ledgertest.Holding(ledgertest.Opening(acme), c, c)), "3")
	c.Limit = "6"
	op := ledgertest.Open(t, store, ledgertest.Holding(ledgertest.Opening(acme), c, c))
	wantCounted(t, db, "c", "6", "both")
	ledgertest.Moved(t, store, op, ledger.Refuse)
	wantCounted(t, db, "c", "0", "given back")
}

// Exact to the last digit, where floats are not.
func TestAmountsAreExact(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	for range 10 {
		ledgertest.Open(t, store, ledgertest.Holding(ledgertest.Opening(acme), ledgertest.Charge("c", "0.100000000001", "1.00000000001")))
	}
	wantCounted(t, db, "c", "1.000000000010", "ten times")
	wantExhausted(t, refusedOpen(t, store, db, ledgertest.Holding(ledgertest.Opening(acme), ledgertest.Charge("c", "0.000000000001", "1.00000000001"))), "1.000000000010")
	ledgertest.Open(t, store, ledgertest.Holding(ledgertest.Opening(acme), ledgertest.Charge("big", "99999999999999999999.999999999999", "99999999999999999999.999999999999")))
	wantExhausted(t, refusedOpen(t, store, db, ledgertest.Holding(ledgertest.Opening(acme), ledgertest.Charge("big", "0.000000000001", "99999999999999999999.999999999999"))), "99999999999999999999.999999999999")
}

func TestBudgetUse(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	day, none := ledgertest.Charge("day", "4", "5"), ledgertest.Charge("none", "1", "1")
	day.Window.Unit = "day"
	op := ledgertest.Open(t, store, ledgertest.Holding(ledgertest.Opening(acme), day))
	ever := ledgertest.Charge("ever", "6", "5") // never
	for _, known := range []bool{false, true} {
		uses, err := store.BudgetUse(t.Context(), acme, []ledger.Charge{none, day, ever}, "")
		if err != nil || len(uses) != 3 {
			t.Fatalf("%+v, %v", uses, err)
		}
		if uses[0].Used != "0" || uses[1].Used != "4" || uses[2].Used != "0" || uses[1].Charge != day {
			t.Errorf("%+v", uses)
		}
		// What is held becomes free by no time, what is used with its day.
		if !uses[0].FreeAt.IsZero() || uses[1].FreeAt.IsZero() == known || uses[1].FreeAt.UTC().Hour() != 0 || !uses[2].FreeAt.IsZero() {
			t.Errorf("succeeded %v: free at %v, %v, %v", known, uses[0].FreeAt, uses[1].FreeAt, uses[2].FreeAt)
		}
		if !known {
			ledgertest.Moved(t, store, op, ledger.Confirm)
		}
	}
	if uses, err := store.BudgetUse(t.Context(), "globex", []ledger.Charge{day}, ""); err != nil || uses[0].Used != "0" {
		t.Errorf("another tenant sees %+v, %v", uses, err)
	}
	// What an operation holds is left out for itself, and only while it is held.
	own := ledgertest.Open(t, store, ledgertest.Holding(ledgertest.Opening(acme), none))
	for _, state := range []string{"held", "given back"} {
		uses, err := store.BudgetUse(t.Context(), acme, []ledger.Charge{day, none}, own.ID)
		if err != nil || uses[0].Used != "4" || uses[1].Used != "0" {
			t.Errorf("%s: %+v, %v", state, uses, err)
		}
		if state == "held" {
			if uses, err := store.BudgetUse(t.Context(), acme, []ledger.Charge{none}, ""); err != nil || uses[0].Used != "1" {
				t.Errorf("for others: %+v, %v", uses, err)
			}
			ledgertest.Moved(t, store, own, ledger.Refuse)
		}
	}
}
