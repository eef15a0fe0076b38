package growth

import (
	"context"
	"crypto/md5" //nolint:gosec // to spread numbers, as Postgres can too
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/bench/contest"
	"github.com/onceward/onceward/bench/ledgerdb"
	"github.com/onceward/onceward/bench/storage"
)

// History says what a ledger is filled with.
type History struct {
	Operations int64
	Tenants    int64
}

// Owner is the tenant and the key of the operation with a number.
func (h History) Owner(n int64) (tenant, key string) {
	sum := md5.Sum(fmt.Appendf(nil, "%d", n)) //nolint:gosec // see the import
	text := hex.EncodeToString(sum[:])
	return h.Tenant(n), "order-" + text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// share is the one of how many operations that the tenant with a credential has.
const share = 10

// Tenant is whose the operation with a number is: a tenth are those of the tenant
// that has a credential, the others of all other tenants in turn.
func (h History) Tenant(n int64) string {
	if h.Tenants == 1 || n%share == 0 {
		return ledgerdb.Tenant
	}
	return fmt.Sprintf("tenant-%d", (n-n/share)%h.Tenants)
}

// shared is the number of an operation of the tenant that has a credential, after a
// number.
func (h History) shared(after int64) int64 {
	n := after + rand.Int64N(h.Operations-after) //nolint:gosec // which key is no secret
	if h.Tenants == 1 {
		return n
	}
	return n - n%share
}

// days is how far back the history goes; the window of an operation is longer.
const days = 29

// chunk is how many operations are made in one transaction.
const chunk = 250_000

// Fill makes the history. The result is as after a long time: index pages two
// thirds full, statistics and visibility known, nothing dirty.
func Fill(ctx context.Context, env contest.Env, database ledgerdb.Database, h History) error {
	template := "template-" + uuid.NewString()
	if err := act(ctx, database, template); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, database.OwnerURL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	// The guard checks moves; here are none. What is lost in a crash is made again.
	for _, sql := range []string{
		`SET session_replication_role = replica`,
		`SET synchronous_commit = off`,
		fmt.Sprintf(`SELECT audit_events_prepare(current_date - %d, current_date)`, days+1),
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	if err := dropOperationsKey(ctx, conn); err != nil {
		return err
	}
	operations, err := copying(ctx, conn, "operations", operationColumns(h), `idempotency_key = '`+template+`'`)
	if err != nil {
		return err
	}
	events, err := copying(ctx, conn, "audit_events", eventColumns(h), `operation_id = (SELECT id FROM operations WHERE idempotency_key = '`+template+`')`)
	if err != nil {
		return err
	}
	for from := int64(0); from < h.Operations; from += chunk {
		until := min(from+chunk, h.Operations) - 1
		for _, sql := range []string{operations, events} {
			if _, err := conn.Exec(ctx, sql, from, until, h.Operations); err != nil {
				return fmt.Errorf("operations %d to %d: %w", from, until, err)
			}
		}
		env.Logf("%s: %d of %d operations", database.Name, until+1, h.Operations)
	}
	return settleDown(ctx, conn, h, template)
}

// act makes the action that is copied.
func act(ctx context.Context, database ledgerdb.Database, key string) error {
	c := storage.New("template", storage.Grouped, 0)
	if err := c.Use(ctx, database); err != nil {
		return err
	}
	return errors.Join(c.Do(ctx, key), c.Close())
}

// dropOperationsKey takes away the index that is in random order: it is made
// again as a whole.
func dropOperationsKey(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `ALTER TABLE operations DROP CONSTRAINT operations_pkey`)
	return err
}

// settleDown ends the filling.
func settleDown(ctx context.Context, conn *pgx.Conn, h History, template string) error {
	for _, sql := range []string{
		`DELETE FROM audit_events WHERE operation_id = (SELECT id FROM operations WHERE idempotency_key = '` + template + `')`,
		`DELETE FROM operations WHERE idempotency_key = '` + template + `'`,
		// A new index is full and every insert would split a page; after random
		// inserts pages are two thirds full. What comes later is not affected.
		`SET maintenance_work_mem = '1GB'`,
		`ALTER TABLE operations ADD CONSTRAINT operations_pkey PRIMARY KEY (tenant_id, idempotency_key) WITH (fillfactor = 68)`,
		`ALTER INDEX operations_pkey RESET (fillfactor)`,
		`VACUUM (ANALYZE) operations`,
		`VACUUM (ANALYZE) audit_events`,
		`VACUUM (ANALYZE) leases`,
		`CHECKPOINT`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	var operations, events int64
	if err := conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM operations), (SELECT count(*) FROM audit_events)`).Scan(&operations, &events); err != nil {
		return err
	}
	return errors.Join(contest.Same("operations", operations, h.Operations), contest.Same("audit events", events, 2*h.Operations))
}

// Expressions over n, the number of an operation, and made, when it was made.
func (h History) tenantSQL() string {
	if h.Tenants == 1 {
		return "'" + ledgerdb.Tenant + "'"
	}
	return fmt.Sprintf("CASE WHEN n %% %d = 0 THEN '%s' ELSE 'tenant-' || ((n - n / %d) %% %d) END", share, ledgerdb.Tenant, share, h.Tenants)
}

const (
	keySQL = `'order-' || md5(n::text)::uuid`
	idSQL  = `(lpad(to_hex((extract(epoch FROM made) * 1000)::bigint), 12, '0') || '7' || left(md5('id' || n), 3) || '8' || right(md5('id' || n), 15))::uuid`
)

func operationColumns(h History) map[string]string {
	moment := func(column string) string { return "made + (t." + column + " - t.created_at)" }
	return map[string]string{
		"tenant_id":          h.tenantSQL(),
		"id":                 idSQL,
		"idempotency_key":    keySQL,
		"provider_key":       `left(md5('provider' || n), 26)`,
		"provider_reference": `'re_' || left(md5('provider' || n), 26)`,
		"request_hash":       `sha256(convert_to(n::text, 'UTF8'))`,
		"created_at":         "made",
		"updated_at":         moment("updated_at"),
		"first_sent_at":      moment("first_sent_at"),
		"last_sent_at":       moment("last_sent_at"),
		"window_ends_at":     moment("window_ends_at"),
		"sweep_at":           `date_bin('15 minutes', made + t.retention, timestamptz '2000-01-01 00:00Z') + interval '15 minutes'`,
	}
}

func eventColumns(h History) map[string]string {
	return map[string]string{
		"tenant_id":       h.tenantSQL(),
		"operation_id":    idSQL,
		"idempotency_key": `CASE WHEN t.idempotency_key IS NOT NULL THEN ` + keySQL + ` END`,
		"at":              "made + (t.sequence - 1) * interval '1 ms'",
	}
}

// copying is a statement that copies the rows of one action for the numbers $1
// to $2 of $3, with some columns made anew. A column that is made anew and not
// there is a mistake; any other is copied.
func copying(ctx context.Context, conn *pgx.Conn, table string, anew map[string]string, template string) (string, error) {
	rows, err := conn.Query(ctx, `SELECT column_name::text FROM information_schema.columns
		WHERE table_schema = 'public' AND table_name = $1 AND is_generated = 'NEVER' ORDER BY ordinal_position`, table)
	if err != nil {
		return "", err
	}
	columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return "", err
	}
	values := make([]string, len(columns))
	for i, column := range columns {
		values[i] = "t." + pgx.Identifier{column}.Sanitize()
		if expression, ok := anew[column]; ok {
			values[i] = expression
			delete(anew, column)
		}
	}
	if len(anew) > 0 {
		return "", fmt.Errorf("%s has no columns %v", table, slices.Sorted(maps.Keys(anew)))
	}
	return fmt.Sprintf(`INSERT INTO %[1]s (%[2]s)
		SELECT %[3]s FROM generate_series($1::bigint, $2::bigint) n,
			LATERAL (SELECT clock_timestamp() - interval '%[4]d days' * (1 - n::float8 / $3::float8) AS made) m,
			(SELECT * FROM %[1]s WHERE %[5]s) t`,
		table, strings.Join(columns, ", "), strings.Join(values, ", "), days, template), nil
}
