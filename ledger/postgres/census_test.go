package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// censusLine is a census in one line, with ages in minutes.
func censusLine(c ledger.Census) string {
	var lines []string
	for _, state := range ledger.OpenStates() {
		for _, o := range c.Open {
			if o.State == state {
				lines = append(lines, fmt.Sprintf("%s %q: %d, %d overdue, %d min", o.State, o.ActionType, o.Count, o.Overdue, int(o.Oldest.Minutes())))
			}
		}
	}
	for _, reason := range ledger.ReviewReasons() {
		if n := c.Reviews[reason]; n > 0 {
			lines = append(lines, fmt.Sprintf("%d %s", n, reason))
		}
	}
	for _, scope := range ledger.SwitchScopes() {
		if n := c.Switches[scope]; n > 0 {
			lines = append(lines, fmt.Sprintf("%d %s", n, scope))
		}
	}
	return strings.Join(lines, "; ")
}

func TestCensus(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	want := func(when, line string) {
		t.Helper()
		census, err := store.Census(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := censusLine(census); got != line {
			t.Errorf("%s: %s\nwant %s", when, got, line)
		}
	}
	want("empty", "")

	states := map[ledger.State]ledger.Operation{}
	for _, state := range ledger.States() {
		states[state] = inState(t, store, state)
	}
	want("one of each", `pending "demo.refund.create": 1, 0 overdue, 0 min; running "demo.refund.create": 1, 0 overdue, 0 min; `+
		`unknown "demo.refund.create": 1, 0 overdue, 0 min; needs_review "demo.refund.create": 1, 0 overdue, 0 min; 1 inconclusive`)

	for _, op := range states {
		db.Age(t, op, 20*time.Minute)
	}
	db.Exec(t, `UPDATE reviews SET expires_at = now() - interval '2 minutes' WHERE decision IS NULL`)
	want("twenty minutes later", `pending "demo.refund.create": 1, 1 overdue, 20 min; running "demo.refund.create": 1, 1 overdue, 20 min; `+
		`unknown "demo.refund.create": 1, 1 overdue, 20 min; needs_review "demo.refund.create": 1, 1 overdue, 20 min; 1 inconclusive`)

	// Nobody may work on what is of a tenant that is switched off, or has what is in
	// doubt to himself.
	db.Tenant(t, acme)
	db.Exec(t, fmt.Sprintf(`UPDATE tenants SET active = false;
		SET session_replication_role = replica;
		UPDATE operations SET lease_expires_at = now() + interval '1 minute' WHERE status IN ('unknown', 'running');
		UPDATE reviews SET expires_at = NULL;
		UPDATE operations SET action_type = 'crm.contact.create' WHERE id = '%s'`, states[ledger.Pending].ID))
	for _, k := range []ledger.KillSwitch{
		{Tenant: "*", Reason: "x"}, {Tenant: acme, Reason: "x"}, {Tenant: acme, ActionType: "a", Reason: "x"}, {Tenant: acme, ActionType: "b", Reason: "x"},
		{Tenant: "*", Provider: "p", Reason: "x"},
	} {
		if err := store.SetKillSwitch(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	want("stopped", `pending "crm.contact.create": 1, 0 overdue, 20 min; running "demo.refund.create": 1, 0 overdue, 20 min; `+
		`unknown "demo.refund.create": 1, 0 overdue, 20 min; needs_review "demo.refund.create": 1, 0 overdue, 20 min; `+
		`1 inconclusive; 1 installation; 1 tenant; 2 action_type; 1 provider`)
}

// A census of a crowd stops counting, but for reviews.
func TestCensusOfACrowd(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	pending, asked := inState(t, store, ledger.Pending), inState(t, store, ledger.NeedsReview)
	const limit, crowd = 10, 15
	db.Exec(t, fmt.Sprintf(`
		SET session_replication_role = replica;
		INSERT INTO operations SELECT (r).* FROM (
			SELECT jsonb_populate_record(o, jsonb_build_object('id', left(o.id::text, 24) || lpad(to_hex(n), 12, '0'), 'idempotency_key', 'k' || o.status || n)) AS r
			FROM operations o, generate_series(1, %d) n) copies;
		INSERT INTO reviews (tenant_id, id, operation_id, idempotency_key, reason, detail, args_hash, opened_at)
			SELECT tenant_id, id, id AS operation_id, idempotency_key, 'inconclusive', '', args_hash, now() - interval '3 minutes' FROM operations WHERE idempotency_key LIKE 'kneeds_review%%';
		ANALYZE operations, reviews`, crowd-1))
	census, err := store.CensusOf(t.Context(), limit, 100)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := censusLine(census), fmt.Sprintf(`pending %q: %d, 0 overdue, 0 min; needs_review %q: %d, 0 overdue, 3 min; needs_review "": 5, 0 overdue, 3 min; 15 inconclusive`,
		pending.ActionType, limit, asked.ActionType, limit); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// Nobody waits for a census: not for a table that is locked.
func TestCensusGivesUp(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	holder := db.Owner(t)
	if _, err := holder.Exec(t.Context(), `BEGIN; LOCK TABLE operations IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	_, err := store.Census(t.Context())
	wantError(t, "Census of a table that is locked", err, ledger.ErrUnavailable)
	if _, err := holder.Exec(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Census(t.Context()); err != nil {
		t.Error(err)
	}
	// Nor longer than it may take, whatever it does.
	db.Exec(t, `ALTER TABLE kill_switches RENAME TO gone; CREATE VIEW kill_switches AS SELECT g.* FROM gone g RIGHT JOIN pg_sleep(60) ON true; GRANT SELECT ON kill_switches TO onceward_serve`)
	began := time.Now()
	_, err = store.Census(t.Context())
	wantError(t, "Census that takes too long", err, ledger.ErrUnavailable)
	if took := time.Since(began); took > 30*time.Second || !strings.Contains(fmt.Sprint(err), "57014") {
		t.Errorf("ended after %s with %v, want it ended by the server (57014)", took, err)
	}
}

// A census reads by the indexes of what is open, and operations by their keys,
// whatever the ledger has grown to.
func TestCensusReadsByIndex(t *testing.T) {
	t.Parallel()
	empty := ledgertest.NewDatabase(t).Serve(t)
	large, _ := grown(t)
	for size, conn := range map[string]*pgx.Conn{"empty": empty, "large": large} {
		for name, value := range postgres.BatchSettings() {
			if _, err := conn.Exec(t.Context(), `SELECT set_config($1, $2, false)`, name, value); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := conn.Exec(t.Context(), `PREPARE census AS `+postgres.Census().SQL); err != nil {
			t.Fatal(err)
		}
		var reads []string
		explain(t, conn, `EXECUTE census (NULL, NULL)`, nil).walk(func(p plan) {
			switch {
			case p.Relation == "" || p.Relation == "kill_switches" || p.Relation == "restores": // all of these, of which there are few
			case p.Index == "operations_pkey" && tenantFirst(p.Condition):
				reads = append(reads, "operations by key")
			case p.Index == "tenants_pkey" && tenantFirst(p.Condition):
			case p.Index == "":
				t.Errorf("%s: %s of %s", size, p.Kind, p.Relation)
			default:
				reads = append(reads, strings.TrimSpace(p.Index+" "+p.Condition))
			}
		})
		slices.Sort(reads)
		want := []string{"leases_due", "leases_due", "operations by key", "operations by key", "operations_next_due", "reviews_open"}
		if !slices.Equal(reads, want) {
			t.Errorf("%s: reads by %v, want %v", size, reads, want)
		}
	}
}
