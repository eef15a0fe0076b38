package postgres_test

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// hour is a full hour that tests count in.
func hour() time.Time { return time.Now().UTC().Truncate(time.Hour).Add(-2 * time.Hour) }

// duplicates is a tally of duplicates.
func duplicates(tenant string, count int64, amount string) ledger.Tally {
	return ledger.Tally{
		Tenant: tenant, Hour: hour(), ActionType: "demo.refund.create", What: "duplicate", Cause: "model_retry", Stated: true,
		Currency: "EUR", Count: count, Amount: amount,
	}
}

func mustAdd(t *testing.T, store *postgres.Store, batch string, tallies ...ledger.Tally) {
	t.Helper()
	if err := store.AddTallies(t.Context(), batch, tallies); err != nil {
		t.Fatal(err)
	}
}

// counted sums up everything of a tenant.
func counted(t *testing.T, store *postgres.Store, tenant string) []ledger.Tally {
	t.Helper()
	sums, err := store.Tallies(t.Context(), tenant, hour().Add(-1000*time.Hour), hour().Add(1000*time.Hour), "")
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

func TestTalliesAddUp(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	other := duplicates(acme, 1, "")
	other.Cause, other.Stated, other.Currency = "", false, ""
	refused := ledger.Tally{Tenant: acme, Hour: hour().Add(59 * time.Minute), ActionType: "demo.mail", What: "refused", Cause: "POLICY_DENIED", Count: 7}
	later := duplicates(acme, 1, "0.000000000001")
	later.Hour = hour().Add(time.Hour)
	mustAdd(t, store, ledgertest.ID(), duplicates(acme, 2, "0.1"), other, refused, duplicates("globex", 5, "1"))
	mustAdd(t, store, ledgertest.ID(), duplicates(acme, 3, "12345678901234567890.2"), later)
	mustAdd(t, store, ledgertest.ID())

	sum := duplicates(acme, 6, "12345678901234567890.300000000001")
	want := []ledger.Tally{sum, other, refused}
	slices.SortFunc(want, func(a, b ledger.Tally) int {
		return strings.Compare(a.ActionType+a.What+a.Cause, b.ActionType+b.What+b.Cause)
	})
	for i := range want {
		want[i].Hour = time.Time{}
		if want[i].Amount == "" {
			want[i].Amount = "0"
		}
	}
	if got := counted(t, store, acme); !reflect.DeepEqual(got, want) {
		t.Errorf("sums are\n%+v\nwant\n%+v", got, want)
	}
	if got := counted(t, store, "globex"); len(got) != 1 || got[0].Count != 5 {
		t.Errorf("the other tenant has %+v", got)
	}
	for name, tt := range map[string]struct {
		from, to   time.Time
		actionType string
		want       int64
	}{
		"the first hour":      {hour(), hour().Add(time.Hour), "", 2 + 3 + 1 + 7},
		"the second hour":     {hour().Add(time.Hour), hour().Add(2 * time.Hour), "", 1},
		"before":              {hour().Add(-time.Hour), hour(), "", 0},
		"one action type":     {hour(), hour().Add(2 * time.Hour), "demo.mail", 7},
		"no such action type": {hour(), hour().Add(2 * time.Hour), "demo", 0},
	} {
		sums, err := store.Tallies(t.Context(), acme, tt.from, tt.to, tt.actionType)
		if err != nil {
			t.Fatal(err)
		}
		var count int64
		for _, sum := range sums {
			count += sum.Count
		}
		if count != tt.want {
			t.Errorf("%s: %d requests, want %d: %+v", name, count, tt.want, sums)
		}
	}
}

// An answer that was lost counts nothing twice, at once or afterwards, and not
// for some of the tenants either.
func TestBatchOfTalliesIsAddedOnce(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	batch := ledgertest.ID()
	var tries sync.WaitGroup
	for range 8 {
		tries.Go(func() {
			if err := store.AddTallies(t.Context(), batch, []ledger.Tally{duplicates(acme, 2, "3"), duplicates("globex", 2, "3")}); err != nil {
				t.Error(err)
			}
		})
	}
	tries.Wait()
	mustAdd(t, store, batch, duplicates(acme, 2, "3"), duplicates("globex", 2, "3"))
	for _, tenant := range []string{acme, "globex"} {
		if got := counted(t, store, tenant); len(got) != 1 || got[0].Count != 2 || got[0].Amount != "3" {
			t.Errorf("%s has %+v, want one batch", tenant, got)
		}
	}
}

// Replicas that write the same kinds in other orders neither deadlock nor lose
// a count.
func TestReplicasAddAtOnce(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	var kinds []ledger.Tally
	for _, action := range []string{"a", "b", "C", "é", "z", "-"} {
		for _, tenant := range []string{acme, "globex"} {
			tally := duplicates(tenant, 1, "0.1")
			tally.ActionType = action
			kinds = append(kinds, tally)
		}
	}
	backwards := slices.Clone(kinds)
	slices.Reverse(backwards)
	const rounds = 25
	var replicas sync.WaitGroup
	for _, order := range [][]ledger.Tally{kinds, backwards, kinds, backwards} {
		replica := db.Open(t)
		replicas.Go(func() {
			for range rounds {
				if err := replica.AddTallies(t.Context(), ledgertest.ID(), order); err != nil {
					t.Error(err)
				}
			}
		})
	}
	replicas.Wait()
	got := counted(t, store, acme)
	if len(got) != len(kinds)/2 {
		t.Fatalf("%d kinds, want %d", len(got), len(kinds)/2)
	}
	for _, sum := range got {
		if sum.Count != 4*rounds || sum.Amount != "10" {
			t.Errorf("%s: %d worth %s, want %d worth 10", sum.ActionType, sum.Count, sum.Amount, 4*rounds)
		}
	}
}

func TestBadTalliesAreRefusedWhole(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	for name, spoil := range map[string]func(*ledger.Tally){
		"negative amount": func(b *ledger.Tally) { b.Amount = "-1" },
		"no number":       func(b *ledger.Tally) { b.Amount = "ten" },
		"no count":        func(b *ledger.Tally) { b.Count = 0 },
		"unknown kind":    func(b *ledger.Tally) { b.What = "lost" },
	} {
		bad, batch := duplicates(acme, 1, "1"), ledgertest.ID()
		bad.ActionType = "other"
		spoil(&bad)
		if err := store.AddTallies(t.Context(), batch, []ledger.Tally{duplicates(acme, 1, "1"), bad}); err == nil {
			t.Errorf("%s: taken", name)
		}
		if got := counted(t, store, acme); len(got) != 0 {
			t.Errorf("%s left %+v", name, got)
		}
	}
}

func TestSweepTallies(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	const keep = 400 * 24 * time.Hour
	db.Exec(t, `INSERT INTO tallies SELECT 'acme', date_trunc('hour', now()) - n * interval '100 days', 'a', 'executed', '', false, '', 1, 0 FROM generate_series(0, 9) n`)
	db.Exec(t, `INSERT INTO tally_batches SELECT 'acme', gen_random_uuid(), now() - n * interval '1 day' FROM generate_series(0, 9) n`)
	for i, want := range []int64{4, 2, 0} { // of tallies 4, 2 and 0; of batches 3, 0 and 0
		if swept, err := store.SweepTallies(t.Context(), 4, keep); err != nil || swept != want {
			t.Fatalf("sweep %d: %d rows, %v; want %d", i, swept, err, want)
		}
	}
	if tallies, batches := db.Count(t, `SELECT count(*) FROM tallies`), db.Count(t, `SELECT count(*) FROM tally_batches`); tallies != 4 || batches != 7 {
		t.Errorf("%d tallies and %d batches are left, want those of 400 days and of a week: 4 and 7", tallies, batches)
	}
}

// Whatever was counted and observed, a read stays in its tenant and its span,
// and a sweep looks at what is old.
func TestStatisticsReadByIndex(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	db.Exec(t, `
		INSERT INTO tenants SELECT 't' || n FROM generate_series(0, 49) n;
		INSERT INTO tallies SELECT 't' || n % 50, date_trunc('hour', now()) - n / 50 * interval '1 hour', 'a', 'executed', '', false, '', 1, 0 FROM generate_series(1, 5000) n;
		INSERT INTO tally_batches SELECT 't' || n % 50, gen_random_uuid(), now() - n * interval '1 minute' FROM generate_series(1, 5000) n;
		INSERT INTO observations SELECT 't' || n % 50, gen_random_uuid(), now() - n * interval '1 minute', 'x', 'a', 'k' || n, sha256('a'), '{}', 'execute', '{}', 1, 'EUR'
			FROM generate_series(1, 5000) n;
		INSERT INTO observed_keys SELECT tenant_id, idempotency_key, action_type, args_hash, id, observed_at FROM observations;
		ANALYZE tenants, tallies, tally_batches, observations, observed_keys`)
	conn := db.Serve(t)
	args := pgx.NamedArgs{
		"tenant": "t7", "from": time.Now().Add(-2 * time.Hour), "to": time.Now(), "action_type": "", "limit": 10, "keep_us": (80 * time.Hour).Microseconds(),
	}
	for name, want := range map[string]string{
		"tallies": "tallies_pkey: ((tenant_id = ", "observations": "observations_in_time: ((tenant_id = ", "observed tenants": "",
		"sweep tallies": "tallies_hour: (hour <= ", "sweep batches": "tally_batches_added: (added_at <= ",
		"sweep observations": "observations_age: (observed_at <= ", "sweep keys": "observed_keys_age: (seen_at <= ",
	} {
		var reads []string
		explain(t, conn, postgres.Statistics()[name], args).walk(func(p plan) {
			if p.Kind == "Seq Scan" && p.Relation != "tenants" {
				t.Errorf("%s reads all of %s", name, p.Relation)
			}
			if p.Index != "" {
				reads = append(reads, p.Index+": "+p.Condition)
			}
		})
		if !slices.ContainsFunc(reads, func(read string) bool { return strings.HasPrefix(read, want) }) {
			t.Errorf("%s reads by %v, want %s", name, reads, want)
		}
	}
}
