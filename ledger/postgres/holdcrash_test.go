package postgres_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// Connections that break around the commit leave the counter exact: what is in
// it is what the operations of the ledger hold, and who is told that his was made
// finds it there.
func TestLostAnswersLeaveTheCounterExact(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	first, firstCutter := throughCutter(t, db)
	second, secondCutter := throughCutter(t, db)
	stores := []*postgres.Store{first, second, db.Open(t)}
	const limit = 60
	var mu sync.Mutex
	told := map[string]bool{} // of operations that were made
	for wave := range 20 {
		firstCutter.arm([]cut{before, after}[wave%2], false)
		secondCutter.arm([]cut{after, before, after}[wave%3], false)
		var all sync.WaitGroup
		for i := range 12 {
			all.Go(func() {
				o := ledgertest.Fenced(ledgertest.Holding(ledgertest.Opening(acme), ledgertest.Charge("calls", "1", "60")), ledgertest.ID())
				op, created, err := stores[i%3].Open(t.Context(), o)
				var exhausted *ledger.BudgetExhaustedError
				switch {
				case created:
					mu.Lock()
					told[op.ID] = true
					mu.Unlock()
					if i%4 == 0 {
						// What is given back, and whose answer may be lost as well.
						if _, err := stores[i%3].Apply(t.Context(), ledgertest.Change(op, ledger.Refuse)); err != nil && !errors.Is(err, ledger.ErrUnavailable) {
							t.Error(err)
						}
					}
				case errors.As(err, &exhausted), errors.Is(err, ledger.ErrUnavailable):
				default:
					t.Errorf("created %v, %v", created, err)
				}
			})
		}
		all.Wait()
	}
	if cuts := firstCutter.repair() + secondCutter.repair(); cuts < 20 {
		t.Errorf("%d connections were cut", cuts)
	}
	conn := db.Owner(t)
	rows, err := conn.Query(t.Context(), `SELECT id::text, status FROM operations`)
	if err != nil {
		t.Fatal(err)
	}
	open := 0
	var id, status string
	if _, err := pgx.ForEachRow(rows, []any{&id, &status}, func() error {
		delete(told, id)
		if status != "failed" {
			open++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(told) > 0 {
		t.Errorf("%d operations were said to be made and are not there", len(told))
	}
	if counted := db.Count(t, `SELECT coalesce(sum(held), 0)::int FROM budget_counters`); counted != open || counted > limit {
		t.Errorf("the counter holds %d, for %d operations that hold something; the limit is %d", counted, open, limit)
	}
	for query, want := range map[string]int{
		`SELECT count(*) FROM holds WHERE state = 'held'`: open,
		`SELECT count(*) FROM intents`:                    open,
	} {
		if n := db.Count(t, query); n != want {
			t.Errorf("%s: %d, want %d", query, n, want)
		}
	}
}

// An operation goes inside its window only where the transaction that recorded it
// takes it back, unchanged.
func TestOnlyItsOwnTransactionTakesAnOperationBack(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	op := ledgertest.Open(t, store, ledgertest.Holding(ledgertest.Asked(acme), ledgertest.Charge("c", "1", "9")))
	conn := db.Serve(t)
	remove := func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `DELETE FROM operations WHERE tenant_id = $1 AND id = $2::uuid`, op.Tenant, op.ID)
		return err
	}
	unchanged(t, db, op, "a deletion", func() {
		if err := pgx.BeginFunc(t.Context(), conn, remove); err == nil {
			t.Error("another transaction removed it")
		}
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), `UPDATE operations SET revision = revision + 1 WHERE tenant_id = $1 AND id = $2::uuid`, op.Tenant, op.ID); err != nil {
				return err
			}
			return remove(tx)
		})
		if err == nil {
			t.Error("a transaction that has changed it removed it")
		}
		if _, err := conn.Exec(t.Context(), `UPDATE operations SET held = false, revision = revision + 1 WHERE tenant_id = $1 AND id = $2::uuid`, op.Tenant, op.ID); err == nil {
			t.Error("that it has holds was forgotten")
		}
	})
}

// However often a counter is charged, its row stays on its page.
func TestChargingTouchesNoIndex(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	store, err := postgres.Open(t.Context(), db.ServeURL)
	if err != nil {
		t.Fatal(err)
	}
	c := ledgertest.Charge("c", "1", "100")
	c.Kind = ledger.ChargeOpen
	const actions = 40
	for range actions {
		op, _, err := store.Open(t.Context(), ledgertest.Holding(ledgertest.Opening(acme), c))
		if err != nil {
			t.Fatal(err)
		}
		apply(t, store, ledgertest.Change(op, ledger.Confirm))
	}
	store.Close() // connections that end report what they did
	watch := db.Owner(t)
	for table, want := range map[string]int{"budget_counters": 2 * actions, "holds": actions, "operations": actions} {
		awaitCount(t, watch, want, `SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = $1`, table)
		awaitCount(t, watch, want, `SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = $1`, table)
	}
}

// What the function about holds reads is not seen by EXPLAIN. Whatever the tables
// have grown to, it is a few rows for each operation.
func TestHoldsReadAFewRows(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	store, err := postgres.Open(t.Context(), db.ServeURL)
	if err != nil {
		t.Fatal(err)
	}
	// Each has its own: old versions of rows that all change would be read, too, and
	// how many there are depends on what else the server does.
	made := 0
	run := func(n int) {
		for range n {
			made++
			name := fmt.Sprintf("%d", made)
			o := ledgertest.Fenced(ledgertest.Holding(ledgertest.Opening(acme), ledgertest.Charge("c"+name, "1", "100"), ledgertest.Charge("d"+name, "1", "100")), "order"+name)
			op, _, err := store.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			apply(t, store, ledgertest.Change(op, ledger.Refuse))
		}
	}
	run(1) // the plans are made on empty tables
	db.Exec(t, `SET session_replication_role = replica;
		INSERT INTO budget_counters (tenant_id, counter) SELECT 'acme', 'counter ' || n FROM generate_series(1, 20000) n;
		INSERT INTO intents (tenant_id, intent, operation_id, idempotency_key) SELECT 'acme', 'intent ' || n, gen_random_uuid(), 'k' FROM generate_series(1, 20000) n;
		INSERT INTO holds SELECT 'acme', gen_random_uuid(), 'k', 'held', now(), '{a}', '{use}', '{1}', '{""}', '{UTC}', '{0}', '{}', '{}' FROM generate_series(1, 20000) n`)
	const actions = 50
	run(actions)
	store.Close() // connections that end report what they did
	watch := db.Owner(t)
	awaitCount(t, watch, 2*(actions+1)*2, `SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'budget_counters'`)
	if n := db.Count(t, `SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname IN ('budget_counters', 'intents', 'holds')`); n > 30*actions {
		t.Errorf("%d rows were read for %d operations", n, actions)
	}
	if n := db.Count(t, `SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname IN ('budget_counters', 'intents', 'holds')`); n != 0 {
		t.Errorf("%d rows were read one after the other", n)
	}
}
