package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
)

const day = 24 * time.Hour

// Counters go when they count nothing any more, and not before; what is unknown
// keeps its budget however old it is (L8).
func TestSweepForgetsCountersThatAreOver(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	charge := func(counter string, kind ledger.ChargeKind, w ledger.Window) ledger.Charge {
		c := ledgertest.Charge(counter, "1", "9")
		c.Kind, c.Window = kind, w
		return c
	}
	ended := ledgertest.Open(t, store, ledgertest.Holding(ledgertest.Opening(acme),
		charge("day", ledger.ChargeUse, ledger.Window{Unit: "day"}), charge("sliding", ledger.ChargeUse, ledger.Window{Sliding: 20 * day}),
		charge("run", ledger.ChargeUse, ledger.Window{}), charge("open", ledger.ChargeOpen, ledger.Window{})))
	ledgertest.Moved(t, store, ended, ledger.Confirm)
	unknown := ledgertest.Holding(ledgertest.Opening(acme), charge("unknown", ledger.ChargeUse, ledger.Window{}),
		charge("unknown today", ledger.ChargeUse, ledger.Window{Unit: "day"}), charge("busy", ledger.ChargeOpen, ledger.Window{}))
	old := ledgertest.Moved(t, store, ledgertest.Open(t, store, unknown), ledger.Doubt)
	left := func(when string, want int, counters ...string) {
		t.Helper()
		for range 4 { // in small steps
			if _, _, _, err := store.Sweep(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
		}
		if n := db.Count(t, `SELECT count(*) FROM budget_counters`); n != want {
			t.Errorf("%s: %d counters are left, want %d", when, n, want)
		}
		for _, counter := range counters {
			if db.Counted(t, acme, counter) == "" {
				t.Errorf("%s: %s is gone", when, counter)
			}
		}
	}
	left("at once", 7)
	db.AgeHolds(t, acme, 2*day)
	left("two days later", 6, "day", "sliding", "run", "unknown", "unknown today", "busy") // nothing is open under "open"
	db.AgeHolds(t, acme, 10*day)
	left("twelve days later", 5, "sliding", "run", "unknown", "unknown today", "busy")
	db.AgeHolds(t, acme, 30*day)
	left("after six weeks", 4, "run", "unknown", "unknown today", "busy")
	db.AgeHolds(t, acme, 400*day)
	left("after years", 3, "unknown", "unknown today", "busy")
	wantCounted(t, db, "busy", "1", "after years")
	old = ledgertest.Moved(t, store, old, ledger.Escalate)
	db.AgeHolds(t, acme, 400*day)
	left("before a person", 3, "unknown", "unknown today", "busy")
	ledgertest.Moved(t, store, old, ledger.Confirm)
	db.AgeHolds(t, acme, 5*day)
	left("after its success", 1, "unknown") // which is used for ever, as far as anybody knows
}

func TestSweepForgetsIntentsThatAreFree(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	ledgertest.Moved(t, store, ledgertest.Open(t, store, quiet("ended", "")), ledger.Confirm)
	ledgertest.Moved(t, store, ledgertest.Open(t, store, quiet("unknown", "")), ledger.Doubt)
	for after, want := range map[time.Duration]int{0: 2} {
		db.AgeHolds(t, acme, after)
		if _, _, _, err := store.Sweep(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		if n := db.Count(t, `SELECT count(*) FROM intents`); n != want {
			t.Errorf("%d intents, want %d", n, want)
		}
	}
	db.AgeHolds(t, acme, 1000*day)
	if _, _, more, err := store.Sweep(t.Context(), 10); err != nil || more {
		t.Fatalf("more %v, %v", more, err)
	}
	if n := db.Count(t, `SELECT count(*) FROM intents WHERE intent = 'unknown'`); n != 1 || db.Count(t, `SELECT count(*) FROM intents`) != 1 {
		t.Error("want the intent of the unknown operation, and no other")
	}
}

// Intents and counters may be due in numbers when no operation is.
func TestSweepGoesOnWhileIntentsOrCountersAreDue(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	for n := range 5 {
		o := quiet(fmt.Sprint("order ", n), "")
		o.Holds.Charges = []ledger.Charge{ledgertest.Charge(fmt.Sprint("order ", n), "1", "9")}
		ledgertest.Moved(t, store, ledgertest.Open(t, store, o), ledger.Confirm)
	}
	db.AgeHolds(t, acme, 2*day)
	left := func() int {
		return db.Count(t, `SELECT (SELECT count(*) FROM intents) + (SELECT count(*) FROM budget_counters WHERE sweep_at <= clock_timestamp())`)
	}
	for looks, more := 0, true; more; looks++ {
		var err error
		if _, _, more, err = store.Sweep(t.Context(), 2); err != nil || looks > 5 {
			t.Fatalf("look %d: %v", looks, err)
		}
	}
	if n := left(); n != 0 {
		t.Errorf("%d intents and counters are due still", n)
	}
	// What is locked is not waited for, nor asked for without end.
	db.AgeHolds(t, acme, 5*day)
	tx, err := db.Owner(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM budget_counters FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if _, _, more, err := store.Sweep(t.Context(), 2); err != nil || more {
		t.Errorf("more %v, %v, while all that is due is locked", more, err)
	}
}

// Where a bucket ends, by the wall clock of its zone.
func TestBucketsEndWithTheirUnit(t *testing.T) {
	t.Parallel()
	conn := ledgertest.NewDatabase(t).Serve(t)
	for _, test := range []struct {
		unit, zone   string
		sliding      time.Duration
		moment, ends string
	}{
		{"minute", "UTC", 0, "2026-05-01T10:59:59.999999Z", "2026-05-01T11:00:00Z"},
		{"minute", "UTC", 0, "2026-05-01T11:00:00Z", "2026-05-01T11:01:00Z"},
		{"hour", "Asia/Kolkata", 0, "2026-05-01T10:29:00Z", "2026-05-01T10:30:00Z"},
		{"day", "UTC", 0, "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z"},
		{"day", "Asia/Tokyo", 0, "2026-05-01T14:59:59Z", "2026-05-01T15:00:00Z"},
		// 23 and 25 hours.
		{"day", "Europe/Berlin", 0, "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},
		{"day", "Europe/Berlin", 0, "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},
		// The hour that comes twice is two hours.
		{"hour", "Europe/Berlin", 0, "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z"},
		{"hour", "Europe/Berlin", 0, "2026-10-25T01:30:00Z", "2026-10-25T02:00:00Z"},
		{"week", "UTC", 0, "2026-05-03T23:59:59Z", "2026-05-04T00:00:00Z"}, // a Sunday
		{"week", "UTC", 0, "2026-05-04T00:00:00Z", "2026-05-11T00:00:00Z"},
		{"month", "America/New_York", 0, "2028-02-29T23:00:00Z", "2028-03-01T05:00:00Z"},
		// The end of the step, and then the window.
		{"", "UTC", time.Minute, "2026-05-01T10:00:00Z", "2026-05-01T10:01:01Z"},
		{"", "UTC", time.Minute, "2026-05-01T10:00:00.999999Z", "2026-05-01T10:01:01Z"},
		{"", "UTC", time.Minute, "2026-05-01T10:00:01Z", "2026-05-01T10:01:02Z"},
	} {
		var ends time.Time
		if err := conn.QueryRow(t.Context(), `SELECT hold_ends($1, $2, $3, $4::text::timestamptz)`, test.unit, test.zone, test.sliding.Microseconds(), test.moment).Scan(&ends); err != nil {
			t.Fatal(err)
		}
		if want, err := time.Parse(time.RFC3339, test.ends); err != nil || !ends.Equal(want) {
			t.Errorf("%s %s %s at %s ends at %s, want %s", test.unit, test.zone, test.sliding, test.moment, ends.UTC(), test.ends)
		}
	}
}
