package migrations_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/pgtest"
	"github.com/onceward/onceward/migrations"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func text(t *testing.T, conn *pgx.Conn, query string, args ...any) string {
	t.Helper()
	var s string
	if err := conn.QueryRow(t.Context(), query, args...).Scan(&s); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return s
}

// catalog describes every relation, column, constraint, function and grant.
const catalog = `SELECT string_agg(line, E'\n' ORDER BY line) FROM (
	SELECT 'column ' || table_name || '.' || column_name || ' ' || data_type AS line FROM information_schema.columns WHERE table_schema = 'public'
	UNION ALL SELECT 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'public'::regnamespace
	UNION ALL SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = 'public'
	UNION ALL SELECT 'function ' || p.oid::regprocedure FROM pg_proc p WHERE pronamespace = 'public'::regnamespace
	UNION ALL SELECT 'grant ' || grantee || ' ' || privilege_type || ' ' || table_name FROM information_schema.role_table_grants WHERE table_schema = 'public'
	UNION ALL SELECT 'migration ' || version || ' ' || dirty || ' written ' || xmin FROM onceward_migrations
) lines`

func TestUpTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	url := pgtest.NewDatabase(t, pgtest.Template{})
	first, err := migrations.Up(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, url)
	before := text(t, conn, catalog)
	second, err := migrations.Up(t.Context(), url)
	if err != nil {
		t.Fatalf("second time: %v", err)
	}
	if first != second || first == 0 {
		t.Errorf("versions %d and then %d, want the same", first, second)
	}
	if newest, err := migrations.Newest(); err != nil || newest != first {
		t.Errorf("the newest version is said to be %d (%v), and is %d", newest, err, first)
	}
	if after := text(t, conn, catalog); after != before {
		t.Errorf("the second time changed the database from\n%s\nto\n%s", before, after)
	}
}

func TestUpLeavesNoConnection(t *testing.T) {
	t.Parallel()
	url := pgtest.NewDatabase(t, pgtest.Template{})
	if _, err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, url)
	// The server needs a moment to see that its client is gone.
	const others = `SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`
	for range 1000 {
		if text(t, conn, others) == "0" {
			return
		}
		exec(t, conn, `SELECT pg_sleep(0.005)`)
	}
	t.Error("a connection of Up is still open")
}

// Roles belong to the server: two databases that are migrated at once, each by
// two migrators, all want to make them.
func TestConcurrentUpsWaitForEachOther(t *testing.T) {
	t.Parallel()
	urls := []string{pgtest.NewDatabase(t, pgtest.Template{}), pgtest.NewDatabase(t, pgtest.Template{})}
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			if version, err := migrations.Up(t.Context(), urls[i%2]); err != nil || version == 0 {
				t.Errorf("migrator %d: version %d, %v", i, version, err)
			}
		})
	}
	all.Wait()
	for _, url := range urls {
		if got := text(t, connect(t, url), `SELECT count(*) || ' ' || bool_or(dirty) FROM onceward_migrations`); got != "1 false" {
			t.Errorf("onceward_migrations holds %q, want one clean version", got)
		}
	}
}

// A migrator takes the lock first: nothing is read or written before.
func TestUpWaitsForTheLock(t *testing.T) {
	t.Parallel()
	url := pgtest.NewDatabase(t, pgtest.Template{})
	holder := connect(t, url)
	// The lock that golang-migrate takes is not ours to name: find it by
	// looking at a migrator that waits for this transaction.
	exec(t, holder, `CREATE TABLE onceward_migrations (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL)`)
	exec(t, holder, `BEGIN; LOCK TABLE onceward_migrations`)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if _, err := migrations.Up(t.Context(), url); err != nil {
				t.Error(err)
			}
		})
	}
	// One migrator holds the lock and waits for the table, the other one waits
	// for the lock.
	waiting := connect(t, url)
	const query = `SELECT coalesce(string_agg(wait_event, ' ' ORDER BY wait_event), '') FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock'`
	var seen string
	for range 2000 {
		if seen = text(t, waiting, query); seen == "advisory relation" {
			break
		}
		exec(t, waiting, `SELECT pg_sleep(0.005)`)
	}
	if seen != "advisory relation" {
		t.Errorf("migrators wait for %q, want one for the table and one for the lock", seen)
	}
	exec(t, holder, `COMMIT`)
	all.Wait()
}

// The roles are the server's, so this needs one on which nothing was migrated.
func TestRoleThatMayNotCreateRolesIsToldWhatToDo(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t, nil)
	admin := connect(t, server.URL("postgres"))
	exec(t, admin, `CREATE ROLE migrator LOGIN PASSWORD 'migrator' NOCREATEROLE`)
	exec(t, admin, `CREATE DATABASE ledger OWNER migrator`)
	u, err := url.Parse(server.URL("ledger"))
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("migrator", "migrator")

	version, err := migrations.Up(t.Context(), u.String())
	const wanted = "CREATE ROLE onceward_serve NOLOGIN; CREATE ROLE onceward_read NOLOGIN;"
	if err == nil || !strings.Contains(err.Error(), "role onceward_serve is missing") || !strings.Contains(err.Error(), wanted) {
		t.Fatalf("version %d, error %v; want the missing role and %q", version, err, wanted)
	}
	if len(err.Error()) > 500 {
		t.Errorf("the error has %d bytes, so it shows more than the cause: %v", len(err.Error()), err)
	}

	// It left nothing behind, and goes through when an administrator did that.
	owner := connect(t, u.String())
	if left := text(t, owner, `SELECT coalesce(string_agg(relname, ' '), '') FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname !~ '^onceward_migrations'`); left != "" {
		t.Errorf("a refused migration left %s", left)
	}
	exec(t, admin, wanted)
	if version, err = migrations.Up(t.Context(), u.String()); err != nil || version == 0 {
		t.Errorf("with the roles made: version %d, %v", version, err)
	}
}

func TestHalfMadeVersionStopsUp(t *testing.T) {
	t.Parallel()
	url := pgtest.NewDatabase(t, pgtest.Template{})
	if _, err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	exec(t, connect(t, url), `UPDATE onceward_migrations SET dirty = true`)
	if _, err := migrations.Up(t.Context(), url); err == nil || !strings.Contains(err.Error(), "stopped half way") {
		t.Errorf("error %v, want that a version stopped half way", err)
	}
}

func TestUpOfNoDatabaseFails(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"no url":    "postgres://%zz",
		"no server": "postgres://nobody@127.0.0.1:1/none?connect_timeout=2",
	} {
		if _, err := migrations.Up(t.Context(), url); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := migrations.Up(ended, pgtest.NewDatabase(t, pgtest.Template{})); err == nil {
		t.Error("context ended before: no error")
	}
}

func TestFilesGoForwardOnlyAndInOneTransaction(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no migrations: %v", err)
	}
	for i, file := range files {
		if want := fmt.Sprintf("%06d_", i+1); !strings.HasPrefix(file, want) || !strings.HasSuffix(file, ".up.sql") {
			t.Errorf("%s: want a name like %sNAME.up.sql; there is no way down, and no gap", file, want)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sql := strings.TrimSpace(string(content))
		if strings.Count(sql, "\nBEGIN;\n") != 1 || !strings.HasSuffix(sql, "\nCOMMIT;") || strings.Count(sql, "COMMIT;") != 1 {
			t.Errorf("%s is not one transaction", file)
		}
	}
}
