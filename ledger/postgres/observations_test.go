package postgres_test

import (
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// observation is a request that would have been sent.
func observation(key string) ledger.Observation {
	return ledger.Observation{
		ID: ledgertest.ID(), Tenant: acme, Actor: "agent:test", ActionType: "demo.refund.create", Key: key, ArgsHash: ledgertest.Hash("arguments"),
		Run:     ledger.Run{RunID: "run-1", StepID: "step-1", Attempt: 2, ToolCallID: "call_1", Instance: "worker-0"},
		Outcome: ledger.ObservedExecute, Verdict: ledger.Verdict{Decision: "allow", Rule: "small", PolicyVersion: "3"},
		Amount: "49.00", Currency: "EUR",
	}
}

func mustObserve(t *testing.T, store *postgres.Store, o ledger.Observation) ledger.ObservedOutcome {
	t.Helper()
	outcome, err := store.Observe(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

func TestObserveFindsWhatWasSeenBefore(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	with := func(key string, change func(*ledger.Observation)) ledger.Observation {
		o := observation(key)
		change(&o)
		return o
	}
	same := func(*ledger.Observation) {}
	refused := func(o *ledger.Observation) { o.Outcome = ledger.ObservedRefused }
	approval := func(o *ledger.Observation) { o.Outcome = ledger.ObservedRequireApproval }
	otherArguments := func(o *ledger.Observation) { o.ArgsHash = ledgertest.Hash("others") }
	for i, step := range []struct {
		request ledger.Observation
		want    ledger.ObservedOutcome
	}{
		{with("a", same), ledger.ObservedExecute},
		{with("a", same), ledger.ObservedDuplicate},
		{with("a", otherArguments), ledger.ObservedMismatch},
		{with("a", otherArguments), ledger.ObservedMismatch}, // a mismatch takes no key
		{with("a", same), ledger.ObservedDuplicate},
		{with("a", approval), ledger.ObservedDuplicate}, // the policy may have changed meanwhile
		{with("a", func(o *ledger.Observation) { o.ActionType = "demo.mail" }), ledger.ObservedMismatch},
		{with("a", func(o *ledger.Observation) { o.Tenant = "globex" }), ledger.ObservedExecute},
		// What would not have been recorded takes no key, and is compared with none.
		{with("b", refused), ledger.ObservedRefused},
		{with("b", approval), ledger.ObservedRequireApproval},
		{with("b", same), ledger.ObservedDuplicate},
		{with("b", refused), ledger.ObservedRefused},
		{with("", func(o *ledger.Observation) { o.Outcome, o.ArgsHash = ledger.ObservedInvalid, ledger.Hash{} }), ledger.ObservedInvalid},
		{with("", func(o *ledger.Observation) { o.Outcome = ledger.ObservedInvalid }), ledger.ObservedInvalid},
	} {
		if got := mustObserve(t, store, step.request); got != step.want {
			t.Errorf("request %d (key %q, %s): %s, want %s", i, step.request.Key, step.request.Outcome, got, step.want)
		}
	}
}

// Of any number at once exactly one is the first, and all others are compared
// with it.
func TestObserveAtOnce(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	second := db.Open(t)
	type seen struct {
		outcome ledger.ObservedOutcome
		hash    ledger.Hash
	}
	const callers = 40
	results := make([]seen, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			o := observation("key")
			o.ArgsHash = ledgertest.Hash([]string{"a", "b"}[i%2])
			replica := store
			if i%3 == 0 {
				replica = second
			}
			outcome, err := replica.Observe(t.Context(), o)
			if err != nil {
				t.Error(err)
			}
			results[i] = seen{outcome, o.ArgsHash}
		})
	}
	all.Wait()
	var first *seen
	for i, r := range results {
		if r.outcome == ledger.ObservedExecute {
			if first != nil {
				t.Fatal("two were the first")
			}
			first = &results[i]
		}
	}
	if first == nil {
		t.Fatal("nobody was the first")
	}
	for i, r := range results {
		want := ledger.ObservedMismatch
		if r.hash == first.hash {
			want = ledger.ObservedDuplicate
		}
		if &results[i] != first && r.outcome != want {
			t.Errorf("caller %d: %s, want %s", i, r.outcome, want)
		}
	}
}

// Observing leaves no trace but its own, though the key is one of an operation,
// and holds nothing of what it would have been charged to.
func TestObserveTouchesNothingElse(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	op := inState(t, store, ledger.Running)
	o := observation(op.Key)
	o.Charges = []ledger.Charge{{Budget: "b", Counter: "c", Kind: ledger.ChargeUse, Amount: "1", Limit: "1"}}
	o.Fences = []ledger.Fence{{Intent: "order:1"}}
	rows := func() int {
		return db.Count(t, `SELECT sum((xpath('/row/n/text()', query_to_xml(format('SELECT count(*) AS n FROM %I', relname), false, true, '')))[1]::text::int)
			FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname NOT IN ('observations', 'observed_keys')`)
	}
	before := rows()
	unchanged(t, db, op, "observing", func() {
		if got := mustObserve(t, store, o); got != ledger.ObservedExecute {
			t.Errorf("%s, want %s: operations are no observations", got, ledger.ObservedExecute)
		}
	})
	if after := rows(); after != before {
		t.Errorf("%d rows beside the observation, want %d", after, before)
	}
}

func TestObservationsInTheOrderOfTime(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	db.Tenant(t, acme)
	full := observation("a")
	full.Run.Agent = "nul\x00 and \"quotes\""
	full.Charges = []ledger.Charge{
		{Budget: "daily", Subject: "actor:x", Counter: "c1", Kind: ledger.ChargeUse, Amount: "49", Limit: "500", Window: ledger.Window{Unit: "day", Zone: "Europe/Rome"}},
		{Budget: "rate", Subject: "tenant", Counter: "c2", Kind: ledger.ChargeRate, Amount: "1", Limit: "10", Window: ledger.Window{Sliding: 90 * time.Second}},
	}
	full.Fences = []ledger.Fence{{Intent: "order:1", Quiet: time.Hour}}
	bare := ledger.Observation{ID: ledgertest.ID(), Tenant: acme, Actor: "agent:test", ActionType: "demo.mail", Outcome: ledger.ObservedInvalid}
	stranger := observation("a")
	stranger.Tenant = db.Tenant(t, "globex")
	again := observation("a")
	for _, o := range []ledger.Observation{full, stranger, bare, again} {
		mustObserve(t, store, o)
	}
	full.Amount, again.Amount = "49", "49" // as a number
	again.Outcome = ledger.ObservedDuplicate
	want := []ledger.Observation{full, bare, again}

	read := func(from, to time.Time) []ledger.Observation {
		t.Helper()
		var got []ledger.Observation
		last := time.Time{}
		err := store.Observations(t.Context(), acme, from, to, func(o ledger.Observed) error {
			if o.At.Before(last) {
				t.Errorf("%s comes after %s", o.At, last)
			}
			last = o.At
			got = append(got, o.Observation)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	now := time.Now()
	if got := read(now.Add(-time.Hour), now.Add(time.Hour)); !reflect.DeepEqual(got, want) {
		t.Errorf("read\n%+v\nwant\n%+v", got, want)
	}
	if got := read(now.Add(time.Hour), now.Add(2*time.Hour)); len(got) != 0 {
		t.Errorf("of the next hour: %+v", got)
	}
	if tenants, err := store.ObservedTenants(t.Context()); err != nil || !reflect.DeepEqual(tenants, []string{acme, "globex"}) {
		t.Errorf("tenants %v, %v", tenants, err)
	}
	wantError(t, "ended by the reader", store.Observations(t.Context(), acme, now.Add(-time.Hour), now.Add(time.Hour), func(ledger.Observed) error {
		return ledger.ErrFenced
	}), ledger.ErrFenced)
}

// A key is free again when its observation is forgotten, and not before.
func TestSweepObservations(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	for _, key := range []string{"old-1", "old-2", "old-3", "new"} {
		mustObserve(t, store, observation(key))
	}
	db.Exec(t, `UPDATE observations SET observed_at = observed_at - interval '31 days' WHERE idempotency_key LIKE 'old%';
		UPDATE observed_keys SET seen_at = seen_at - interval '31 days' WHERE idempotency_key LIKE 'old%'`)
	for i, want := range []int64{2, 1, 0} {
		if swept, err := store.SweepObservations(t.Context(), 2, 30*24*time.Hour); err != nil || swept != want {
			t.Fatalf("sweep %d: %d rows, %v; want %d", i, swept, err, want)
		}
	}
	if n := db.Count(t, `SELECT count(*) FROM observations`); n != 1 {
		t.Errorf("%d observations are left, want 1", n)
	}
	for key, want := range map[string]ledger.ObservedOutcome{"old-1": ledger.ObservedExecute, "new": ledger.ObservedDuplicate} {
		if got := mustObserve(t, store, observation(key)); got != want {
			t.Errorf("%s afterwards: %s, want %s", key, got, want)
		}
	}
}

func TestNoStatisticsOnAnOlderSchema(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	db.Exec(t, `DROP TABLE tallies, tally_batches, observations, observed_keys`)
	_, observe := store.Observe(t.Context(), observation("a"))
	_, tallies := store.Tallies(t.Context(), acme, hour(), hour(), "")
	_, sweepTallies := store.SweepTallies(t.Context(), 1, time.Hour)
	_, sweepObservations := store.SweepObservations(t.Context(), 1, time.Hour)
	_, tenants := store.ObservedTenants(t.Context())
	for what, err := range map[string]error{
		"observe": observe, "tallies": tallies, "sweep tallies": sweepTallies, "sweep observations": sweepObservations, "tenants": tenants,
		"add":  store.AddTallies(t.Context(), ledgertest.ID(), []ledger.Tally{duplicates(acme, 1, "1")}),
		"read": store.Observations(t.Context(), acme, hour(), hour(), func(ledger.Observed) error { return nil }),
	} {
		wantError(t, what, err, ledger.ErrNoStatistics)
	}
}
