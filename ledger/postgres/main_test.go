package postgres_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/pgtest"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const acme = "acme"

// wantError checks which of the ledger's errors came.
func wantError(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: error %v, want %v", what, got, want)
	}
}

// unchanged runs something that must not change an operation's row, attempts,
// reviews or audit record.
func unchanged(t *testing.T, db ledgertest.Database, op ledger.Operation, what string, do func()) {
	t.Helper()
	before := everything(t, db, op)
	do()
	if after := everything(t, db, op); after != before {
		t.Errorf("%s changed the operation from\n%s\nto\n%s", what, before, after)
	}
}

// everything is what the database holds of an operation.
func everything(t *testing.T, db ledgertest.Database, op ledger.Operation) string {
	t.Helper()
	conn := db.Owner(t)
	var text string
	err := conn.QueryRow(t.Context(), `SELECT coalesce(string_agg(line, E'\n'), 'nothing') FROM (
		SELECT row_to_json(o)::text AS line FROM operations o WHERE tenant_id = $1 AND id = $2::uuid
		UNION ALL (SELECT row_to_json(a)::text FROM attempts a WHERE tenant_id = $1 AND operation_id = $2::uuid ORDER BY number)
		UNION ALL (SELECT row_to_json(r)::text FROM reviews r WHERE tenant_id = $1 AND operation_id = $2::uuid ORDER BY id)
		UNION ALL (SELECT row_to_json(e)::text FROM audit_events e WHERE tenant_id = $1 AND operation_id = $2::uuid ORDER BY sequence)) everything`,
		op.Tenant, op.ID).Scan(&text)
	if err := errors.Join(err, conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	return text
}

// ids lists operations in the order given.
func ids(ops []ledger.Operation) []string {
	var all []string
	for _, op := range ops {
		all = append(all, op.ID)
	}
	return all
}

// awaitCount waits until a query that counts says n.
func awaitCount(t *testing.T, conn *pgx.Conn, n int, query string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for got := -1; got != n; {
		if err := conn.QueryRow(ctx, query, args...).Scan(&got); err != nil {
			t.Fatalf("waiting for %d of %s (have %d): %v", n, query, got, err)
		}
		if _, err := conn.Exec(ctx, `SELECT pg_sleep(0.002), pg_stat_clear_snapshot()`); err != nil {
			t.Fatal(err)
		}
	}
}
