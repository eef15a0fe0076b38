package postgres_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// The schema distributes by tenant: what is unique is unique in a tenant, and
// no table refers to another tenant's rows.
func TestEveryKeyBeginsWithTheTenant(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	rows, err := db.Owner(t).Query(t.Context(), `
		SELECT c.relname, i.relname, x.indisprimary, a.attname
		FROM pg_index x
		JOIN pg_class c ON c.oid = x.indrelid
		JOIN pg_class i ON i.oid = x.indexrelid
		LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = x.indkey[0]
		WHERE c.relnamespace = 'public'::regnamespace AND x.indisunique AND c.relname <> 'onceward_migrations'`)
	if err != nil {
		t.Fatal(err)
	}
	primary := map[string]bool{}
	var table, index, column string
	var isPrimary bool
	if _, err := pgx.ForEachRow(rows, []any{&table, &index, &isPrimary, &column}, func() error {
		primary[table] = primary[table] || isPrimary
		if column != "tenant_id" {
			t.Errorf("%s on %s begins with %s, want tenant_id", index, table, column)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	rows, err = db.Owner(t).Query(t.Context(), `SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND relname <> 'onceward_migrations'`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) < 8 {
		t.Fatalf("tables %v, %v; want the whole schema", tables, err)
	}
	for _, table := range tables {
		if !primary[table] {
			t.Errorf("%s has no primary key", table)
		}
	}
	if n := db.Count(t, `SELECT count(*) FROM pg_constraint WHERE contype IN ('f', 'x') AND connamespace = 'public'::regnamespace
		AND NOT (contype = 'f' AND conkey[1] = (SELECT attnum FROM pg_attribute WHERE attrelid = conrelid AND attname = 'tenant_id'))`); n != 0 {
		t.Errorf("%d foreign keys or exclusions do not begin with tenant_id", n)
	}
}

// What each group may do, table by table. A new table or grant belongs here.
func TestGrants(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	rows, err := db.Owner(t).Query(t.Context(), `
		SELECT grantee || ' ' || table_name || ': ' || string_agg(privilege_type, ' ' ORDER BY privilege_type)
		FROM information_schema.role_table_grants
		WHERE table_schema = 'public' AND grantee IN ('onceward_serve', 'onceward_read', 'PUBLIC')
		GROUP BY grantee, table_name`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"onceward_read approvals: SELECT",
		"onceward_read attempts: SELECT",
		"onceward_read audit_events: SELECT",
		"onceward_read budget_counters: SELECT",
		"onceward_read holds: SELECT",
		"onceward_read intents: SELECT",
		"onceward_read kill_switches: SELECT",
		"onceward_read leases: SELECT",
		"onceward_read observations: SELECT",
		"onceward_read restore_clearances: SELECT",
		"onceward_read restores: SELECT",
		"onceward_read reviews: SELECT",
		"onceward_read tallies: SELECT",
		"onceward_read tenants: SELECT",
		"onceward_read tombstones: SELECT",
		"onceward_read webhook_inbox: SELECT",
		"onceward_serve api_keys: SELECT",
		"onceward_serve approvals: DELETE INSERT SELECT",
		"onceward_serve attempts: SELECT",
		"onceward_serve audit_events: INSERT SELECT",
		"onceward_serve budget_counters: DELETE INSERT SELECT UPDATE",
		"onceward_serve holds: DELETE INSERT SELECT UPDATE",
		"onceward_serve installation: INSERT SELECT",
		"onceward_serve intents: DELETE INSERT SELECT UPDATE",
		"onceward_serve kill_switches: DELETE INSERT SELECT UPDATE",
		"onceward_serve leases: DELETE INSERT SELECT UPDATE",
		"onceward_serve observations: DELETE INSERT SELECT",
		"onceward_serve observed_keys: DELETE INSERT SELECT",
		"onceward_serve operations: DELETE INSERT SELECT",
		"onceward_serve restore_clearances: SELECT",
		"onceward_serve restores: SELECT",
		"onceward_serve reviews: DELETE INSERT SELECT UPDATE",
		"onceward_serve tallies: DELETE INSERT SELECT",
		"onceward_serve tally_batches: DELETE INSERT SELECT",
		"onceward_serve tenants: SELECT",
		"onceward_serve tombstones: INSERT SELECT",
		"onceward_serve used_tokens: DELETE INSERT SELECT",
		"onceward_serve webhook_inbox: DELETE INSERT SELECT",
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("grants are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestReadingRoleSeesNoArgumentsAndWritesNothing(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	inState(t, store, ledger.Pending)
	conn := db.Owner(t)
	if _, err := conn.Exec(t.Context(), `SET ROLE onceward_read`); err != nil {
		t.Fatal(err)
	}
	for sql, allowed := range map[string]bool{
		`SELECT id, status, result_json FROM operations`:  true,
		`SELECT * FROM audit_events`:                      true,
		`SELECT arguments_sealed FROM operations`:         false,
		`SELECT * FROM operations`:                        false,
		`SELECT * FROM api_keys`:                          false,
		`UPDATE operations SET reason = 'x'`:              false,
		`DELETE FROM leases`:                              false,
		`INSERT INTO tombstones SELECT * FROM tombstones`: false,
	} {
		_, err := conn.Exec(t.Context(), sql)
		var pg *pgconn.PgError
		refused := errors.As(err, &pg) && pg.Code == "42501"
		if refused == allowed || (allowed && err != nil) {
			t.Errorf("%s: %v, want allowed %v", sql, err, allowed)
		}
	}
}

// What a batch sends is what the schema takes, column by column.
func TestRowTypesAreTheSchemas(t *testing.T) {
	t.Parallel()
	conn := ledgertest.NewDatabase(t).Owner(t)
	for name, want := range postgres.RowTypes() {
		rows, err := conn.Query(t.Context(), `SELECT a.attname || ' ' || t.typname FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
			WHERE a.attrelid = $1::text::regclass ORDER BY attnum`, name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s is\n%v, %v\nwant\n%v", name, got, err, want)
		}
	}
}
