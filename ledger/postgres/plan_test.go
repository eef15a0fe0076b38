package postgres_test

import (
	"encoding/json"
	"fmt"
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

// plan is a node of what EXPLAIN (FORMAT JSON) says.
type plan struct {
	Kind      string `json:"Node Type"`
	Role      string `json:"Parent Relationship"`
	Relation  string `json:"Relation Name"`
	Index     string `json:"Index Name"`
	Condition string `json:"Index Cond"`
	Rows      int    `json:"Plan Rows"`
	Plans     []plan `json:"Plans"`
}

func (p plan) walk(visit func(plan)) {
	visit(p)
	for _, sub := range p.Plans {
		sub.walk(visit)
	}
}

// Whatever a ledger has grown to, a request reads a few rows by an index that
// begins with its tenant.
func TestRequestPathReadsByIndex(t *testing.T) {
	t.Parallel()
	conn, op := grown(t)
	for name, sql := range postgres.RequestPath() {
		args := arguments(op)
		root := explain(t, conn, sql, args)
		indexed := 0
		root.walk(func(p plan) {
			switch p.Kind {
			case "Seq Scan":
				t.Errorf("%s reads all of %s", name, p.Relation)
			case "Index Scan", "Index Only Scan", "Bitmap Index Scan":
				indexed++
				if !tenantFirst(p.Condition) {
					t.Errorf("%s reads %s by %s without its tenant: %s", name, p.Relation, p.Index, p.Condition)
				}
			}
		})
		if indexed == 0 {
			t.Errorf("%s reads by no index: %+v", name, root)
		}
	}
}

// A plan of a batch is made once, whether the tables are empty or large then,
// and reaches its rows by their keys in the order in which they are given: that
// is what keeps two batches from waiting for each other.
func TestBatchesReachTheirRowsInOrder(t *testing.T) {
	t.Parallel()
	empty := ledgertest.NewDatabase(t).Serve(t)
	large, _ := grown(t)
	for size, conn := range map[string]*pgx.Conn{"empty": empty, "large": large} {
		for name, value := range postgres.BatchSettings() {
			if _, err := conn.Exec(t.Context(), `SELECT set_config($1, $2, false)`, name, value); err != nil {
				t.Fatal(err)
			}
		}
		batches := postgres.Batches()
		batches["holders"] = postgres.Holders()
		for name, batch := range batches {
			nulls := strings.TrimSuffix(strings.Repeat("NULL, ", batch.Parameters), ", ")
			if _, err := conn.Exec(t.Context(), `PREPARE batch AS `+batch.SQL); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			root := explain(t, conn, `EXECUTE batch (`+nulls+`)`, nil)
			if _, err := conn.Exec(t.Context(), `DEALLOCATE batch`); err != nil {
				t.Fatal(err)
			}
			operations := 0
			root.walk(func(p plan) {
				switch p.Kind {
				case "Seq Scan", "Bitmap Heap Scan", "Hash Join", "Merge Join", "Sort":
					t.Errorf("%s on %s tables: %s of %s", name, size, p.Kind, p.Relation)
				case "Index Scan", "Index Only Scan":
					// Of an empty table of reviews any way is good; when it has some,
					// and was analysed, the plan is made anew.
					// All kill switches are read, once for a batch.
					if !tenantFirst(p.Condition) && (p.Relation != "reviews" || size == "large") && p.Relation != "kill_switches" {
						t.Errorf("%s on %s tables reads %s by %s without its tenant: %s", name, size, p.Relation, p.Index, p.Condition)
					}
				case "Nested Loop":
					if slices.ContainsFunc(p.Plans, func(in plan) bool { return in.Role == "Inner" && in.Relation == "operations" }) {
						operations++
						// The statement about holds only reads what its transaction has locked.
						if outer := first(p); outer != "Function Scan" && outer != "Result" && name != "hold" {
							t.Errorf("%s on %s tables takes its rows in the order of a %s", name, size, outer)
						}
					}
				}
			})
			if strings.HasPrefix(name, "change") && operations != 1 {
				t.Errorf("%s on %s tables reaches operations %d times, want once: %+v", name, size, operations, root)
			}
		}
	}
}

// first is the node whose order a plan keeps.
func first(p plan) string {
	for _, input := range p.Plans {
		if input.Role == "Outer" || input.Role == "Subquery" {
			return first(input)
		}
	}
	return p.Kind
}

// fewDue is many times what is due in a ledger of [grown].
const fewDue = 50

// The reconciler looks across tenants, by partial indexes that hold only what
// waits for it.
func TestBackgroundReadsByIndex(t *testing.T) {
	t.Parallel()
	conn, op := grown(t)
	args := arguments(op)
	for name, want := range map[string]string{
		"expire leases": "leases_due: (expires_at <= ", "due pending": "operations_next_due: (next_attempt_at <= ",
		"lease unknown": "operations_next_due: (next_attempt_at <= ", "expired reviews": "reviews_expiring: (expires_at <= ",
		"lease watched":    "operations_watch_due: (watch_next_at <= ",
		"approved reviews": "reviews_approved: (approved_at <= ",
		"bury":             "operations_sweep_due: (sweep_at <= ", "sweep": "operations_sweep_due: (sweep_at <= ",
	} {
		var reads []string
		explain(t, conn, postgres.Background()[name], args).walk(func(p plan) {
			if p.Index == "" {
				return
			}
			reads = append(reads, p.Index+": "+p.Condition)
			// A planner that takes a third of the table for due, as it does where it
			// cannot know the time, reads all of it when it is large, in each round.
			if p.Rows > fewDue && strings.HasPrefix(want, p.Index) {
				t.Errorf("%s: %d rows of %s are thought to be due, and none is", name, p.Rows, p.Index)
			}
		})
		// The time belongs into the condition of the index: as a filter it would
		// read what is not due as well.
		if !slices.ContainsFunc(reads, func(read string) bool { return strings.HasPrefix(read, want) }) {
			t.Errorf("%s reads by %v, want %s", name, reads, want)
		}
	}
}

// What decides about a move asks the clock as it is then, not as it was when the
// statement came: it may have waited for a row.
func TestGuardsAskTheClock(t *testing.T) {
	t.Parallel()
	guards := map[string]string{}
	for name, batch := range postgres.Batches() {
		guards[name] = batch.SQL
	}
	for name, sql := range postgres.RequestPath() {
		guards[name] = sql
	}
	for name, sql := range guards {
		if strings.Contains(sql, "statement_timestamp") || strings.Contains(sql, "now()") {
			t.Errorf("%s decides by the time at which it came", name)
		}
	}
	for name, sql := range postgres.Background() {
		if strings.Contains(sql, "(SELECT clock_timestamp())") {
			t.Errorf("%s asks for what is due in a way that no planner can estimate", name)
		}
	}
}

func tenantFirst(condition string) bool {
	return strings.HasPrefix(strings.TrimLeft(condition, "("), "tenant_id = ")
}

func explain(t *testing.T, conn *pgx.Conn, sql string, args pgx.NamedArgs) plan {
	t.Helper()
	var text string
	var named []any
	if args != nil {
		named = append(named, args)
	}
	if err := conn.QueryRow(t.Context(), "EXPLAIN (FORMAT JSON) "+sql, named...).Scan(&text); err != nil {
		t.Fatalf("EXPLAIN %s: %v", sql, err)
	}
	var explained []struct {
		Plan plan `json:"Plan"`
	}
	if err := json.Unmarshal([]byte(text), &explained); err != nil || len(explained) != 1 {
		t.Fatalf("unreadable plan: %v: %s", err, text)
	}
	return explained[0].Plan
}

// grown is a ledger with some thousand operations of one tenant and of some
// others, most of them finished and some in review, and one that is running.
func grown(t *testing.T) (*pgx.Conn, ledger.Operation) {
	t.Helper()
	store, db := ledgertest.NewStore(t)
	succeeded := inState(t, store, ledger.Succeeded)
	running := inState(t, store, ledger.Running)
	db.Exec(t, fmt.Sprintf(`
		SET session_replication_role = replica;
		INSERT INTO operations SELECT (r).* FROM (
			SELECT jsonb_populate_record(o, jsonb_build_object('id', left(o.id::text, 24) || lpad(to_hex(n), 12, '0'), 'idempotency_key', 'k' || n,
				'tenant_id', CASE WHEN n %% 4 > 0 THEN o.tenant_id ELSE 't' || n %% 50 END)
				|| CASE WHEN n %% 10 = 0 THEN '{"status": "needs_review", "result_json": null, "window_ends_at": null}' ELSE '{}'::jsonb END) AS r
			FROM operations o, generate_series(1, 5000) n WHERE id = '%s') copies;
		INSERT INTO audit_events (tenant_id, operation_id, sequence, idempotency_key, event, from_status, to_status, attempt, epoch, args_hash, actor, chain)
			SELECT tenant_id, id, 1, idempotency_key, 'claim', '', 'running', 1, 0, args_hash, 'x', '' FROM operations WHERE idempotency_key ~ '^k\d';
		INSERT INTO leases SELECT tenant_id, id, now() + n * interval '1 minute', ARRAY['k'] FROM operations, generate_series(1, 2) n WHERE n = 1;
		INSERT INTO reviews (tenant_id, id, operation_id, idempotency_key, reason, detail, args_hash, expires_at, decision, decided_by, decided_at)
			SELECT tenant_id, o.id, id, idempotency_key, 'inconclusive', '', args_hash, now() + interval '1 day', 'approved', 'x', now() FROM operations o;
		UPDATE reviews r SET decision = NULL, decided_by = NULL, decided_at = NULL
			FROM operations o WHERE o.id = r.id AND o.status = 'needs_review';
		INSERT INTO tombstones SELECT tenant_id, sha256(id::text::bytea), args_hash, id, status FROM operations;
		ANALYZE operations, audit_events, leases, reviews, tombstones`, succeeded.ID))
	return db.Serve(t), running
}

// arguments are some for every statement.
func arguments(op ledger.Operation) pgx.NamedArgs {
	hash := op.ArgsHash[:]
	return pgx.NamedArgs{
		"tenant": op.Tenant, "id": op.ID, "key": op.Key, "number": op.Attempt, "claim_id": ledgertest.ID(),
		"args_hash": hash, "old_hash": hash, "request_hash": hash, "sealed": hash, "run": "{}",
		"from": op.State, "to": ledger.Succeeded, "status": ledger.Running, "event": ledger.Confirm,
		"attempt": op.Attempt, "epoch": op.Epoch, "lease": op.Lease, "leased": false, "knew_doubt": false, "knew_reference": "", "current": op.Attempt, "untried": 0,
		"decided": ledgertest.ID(), "decision": ledger.Approved, "decided_by": "x", "reference": "re_1", "bump": 0,
		"in_doubt": false, "reset_resolves": false, "review_id": ledgertest.ID(), "outcome": "applied",
		"lease_us": 1, "horizon_us": 1, "delay_us": 1, "watch_us": 0, "window_us": 1, "review_expires_us": 0,
		"gap_us": 1, "rest_us": 1, "limit": 10, "negative_reads": 0,
		"tenants": []string{op.Tenant}, "keys": []string{op.Key}, "states": []string{}, "before": nil, "created_before": nil, "ids": []string{op.ID}, "revisions": []int64{op.Revision},
		"key_source": "caller", "provider": "fakepay", "expired_key": "reuse", "created_after": time.Time{},
		"action_type": "", "adapter_version": "", "contract_version": "", "actor": "x", "run_id": "", "intent_id": "", "distinct_from": "",
		"effect": ledger.EffectApplied, "reason": "", "detail": "", "evidence": "", "incident": "", "provider_key": "k",
		"review_reason": "", "review_detail": "", "note": "", "receipt": "{}", "failure": nil,
	}
}

// A settlement touches no index: its new version is on the page of the old one,
// also where all of a page were claimed before the first is settled, which leaves no
// room to take from. Arguments and receipts are of an ordinary size.
func TestSettlementStaysOnItsPage(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	store, err := postgres.Open(t.Context(), db.ServeURL)
	if err != nil {
		t.Fatal(err)
	}
	const actions = 40
	claimed := make([]ledger.Operation, actions)
	for i := range claimed {
		opening := ledgertest.Opening(acme)
		opening.Sealed = make([]byte, 160)
		if claimed[i], _, err = store.Open(t.Context(), opening); err != nil {
			t.Fatal(err)
		}
	}
	var settling sync.WaitGroup
	for _, op := range claimed {
		change := ledgertest.Change(op, ledger.Confirm)
		change.ProviderReference = "re_0123456789abcdefghijklmnop"
		change.Receipt = fmt.Appendf(nil, `{"id":%q,"object":"refund","status":"succeeded","amount":4900,"currency":"usd","order":%q}`, change.ProviderReference, op.ID)
		settling.Go(func() {
			if _, err := store.Apply(t.Context(), change); err != nil {
				t.Error(err)
			}
		})
	}
	settling.Wait()
	store.Close() // connections that end report what they did
	watch := db.Owner(t)
	awaitCount(t, watch, actions, `SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'operations'`)
	awaitCount(t, watch, actions, `SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'operations'`)
}
