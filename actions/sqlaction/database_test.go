package sqlaction_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/sqlaction"
	"github.com/onceward/onceward/internal/pgtest"
	"github.com/onceward/onceward/ledger/ledgertest"
)

// The table is made on request only; otherwise the error holds the statement
// that makes it, and that statement works.
func TestCheckOfTheTable(t *testing.T) {
	t.Parallel()
	g := targetAt(t, pgtest.NewDatabase(t, shopTemplate()), sqlaction.DatabaseOptions{Table: "audit.done"})
	g.exec(`CREATE SCHEMA audit`)
	err := g.db.Check(t.Context())
	if !errors.Is(err, sqlaction.ErrTable) || !strings.Contains(err.Error(), "audit.done is missing") {
		t.Fatalf("check: %v", err)
	}
	wantKind(t, execute(t, g.orders(), call(t, `{"sku": "lamp", "qty": 1}`)), actions.NotApplied, "not_connected")
	_, create, _ := strings.Cut(err.Error(), "\n\n")
	create, _, _ = strings.Cut(create, "GRANT")
	g.exec(create)
	if err := g.orders().Check(t.Context()); err != nil {
		t.Fatalf("check after %s: %v", create, err)
	}
	wantKind(t, execute(t, g.orders(), call(t, `{"sku": "lamp", "qty": 1}`)), actions.Applied, "")
	if n := g.count(`SELECT count(*) FROM audit.done`); n != 1 {
		t.Errorf("%d operation ids, want 1", n)
	}
}

// A table that could not keep its promise is refused.
func TestCheckRefusesTables(t *testing.T) {
	t.Parallel()
	const columns = `(tenant_id text NOT NULL, operation_id uuid NOT NULL, request_hash bytea, reference text, receipt json`
	for name, test := range map[string]struct{ sql, says string }{
		"no constraint":     {`CREATE TABLE onceward_operations ` + columns + `)`, "no unique constraint"},
		"other constraint":  {`CREATE TABLE onceward_operations ` + columns + `, PRIMARY KEY (operation_id))`, "no unique constraint"},
		"partial index":     {`CREATE TABLE onceward_operations ` + columns + `); CREATE UNIQUE INDEX ON onceward_operations (tenant_id, operation_id) WHERE tenant_id <> ''`, "no unique constraint"},
		"checked at COMMIT": {`CREATE TABLE onceward_operations ` + columns + `, UNIQUE (tenant_id, operation_id) DEFERRABLE)`, "no unique constraint"},
		"lost in a crash":   {`CREATE UNLOGGED TABLE onceward_operations ` + columns + `, PRIMARY KEY (tenant_id, operation_id))`, "survives a crash"},
		"a view":            {`CREATE VIEW onceward_operations AS SELECT 1 AS tenant_id`, "survives a crash"},
		"other columns":     {`CREATE TABLE onceward_operations (tenant_id text, operation_id uuid, PRIMARY KEY (tenant_id, operation_id))`, "other columns"},
		"hidden rows": {`CREATE TABLE onceward_operations ` + columns + `, PRIMARY KEY (tenant_id, operation_id));
			ALTER TABLE onceward_operations ENABLE ROW LEVEL SECURITY; GRANT SELECT, INSERT ON onceward_operations TO pg_monitor`, "hides rows"},
		"not granted": {`CREATE TABLE onceward_operations ` + columns + `, PRIMARY KEY (tenant_id, operation_id)); GRANT SELECT ON onceward_operations TO pg_monitor`, "GRANT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.NewDatabase(t, shopTemplate())
			if strings.Contains(test.sql, "pg_monitor") {
				url = withOption(t, url, "role", "pg_monitor") // any role that is not the owner
			}
			g := targetAt(t, url, sqlaction.DatabaseOptions{CreateTable: true})
			g.exec(`RESET ROLE; SET ROLE NONE; ` + test.sql)
			err := g.db.Check(t.Context())
			if !errors.Is(err, sqlaction.ErrTable) || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "PRIMARY KEY (tenant_id, operation_id)") {
				t.Errorf("check: %v, want %q and the statement", err, test.says)
			}
		})
	}
}

// Several processes that make the table at one moment all have it.
func TestTableIsMadeTogether(t *testing.T) {
	t.Parallel()
	url := pgtest.NewDatabase(t, shopTemplate())
	var work sync.WaitGroup
	for range 6 {
		db := database(t, url, sqlaction.DatabaseOptions{CreateTable: true})
		work.Go(func() {
			if err := db.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
}

// The ledger is no target: its own rows belong in the settle transaction.
func TestTheLedgerIsRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.NewDatabase(t, ledgertest.Template())
	g := targetAt(t, url, sqlaction.DatabaseOptions{CreateTable: true})
	err := g.db.Check(t.Context())
	if !errors.Is(err, sqlaction.ErrLedgerDatabase) || !strings.Contains(err.Error(), "database: ledger") {
		t.Fatalf("check: %v", err)
	}
	wantKind(t, execute(t, g.orders(), call(t, `{"sku": "lamp", "qty": 1}`)), actions.NotApplied, "not_connected")
	wantFinding(t, lookup(t, g.orders(), call(t, `{}`)), actions.Inconclusive)
	if n := g.count(`SELECT count(*) FROM pg_class WHERE relname = 'onceward_operations'`); n != 0 {
		t.Error("the table was made in the ledger")
	}
	// Tables that only sound alike are somebody's own business.
	h := targetAt(t, pgtest.NewDatabase(t, shopTemplate()), sqlaction.DatabaseOptions{CreateTable: true})
	h.exec(`CREATE TABLE operations (id int); CREATE TABLE audit_events (id int)`)
	if err := h.db.Check(t.Context()); err != nil {
		t.Errorf("a hospital's database: %v", err)
	}
}

// A statement that cannot do its work is seen before the first operation.
func TestCheckOfTheStatement(t *testing.T) {
	t.Parallel()
	g := newTarget(t)
	for name, test := range map[string]struct{ sql, says string }{
		"fine":         {insertOrder, ""},
		"jsonb":        {`SELECT 'a'::text, jsonb_build_object()`, ""},
		"syntax":       {`INSERT INTO orders VALUES ($1,) RETURNING id`, "at character 31"},
		"no table":     {`INSERT INTO nowhere VALUES (1)`, "42P01"},
		"nothing back": {`INSERT INTO warehouses VALUES (1)`, "returns 0 columns"},
		"no text":      {`INSERT INTO warehouses VALUES (1) RETURNING id, json_build_object()`, "::text"},
		"no json":      {`INSERT INTO warehouses VALUES (1) RETURNING id::text, id::text`, "json_build_object"},
		"two":          {`SELECT 1; SELECT 2`, "42601"},
	} {
		err := declared(t, g.db, test.sql, time.Second).Check(t.Context())
		if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "shop.order.place")) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
	g.wantHeld(0)
}

func TestDatabaseOptions(t *testing.T) {
	t.Parallel()
	conn := func(context.Context) (string, error) { return "postgres://localhost/x", nil }
	for name, o := range map[string]sqlaction.DatabaseOptions{
		"no connection string": {},
		"quoted table":         {ConnString: conn, Table: `"Odd"`},
		"injected table":       {ConnString: conn, Table: "a; DROP TABLE b"},
		"three parts":          {ConnString: conn, Table: "a.b.c"},
		"connections":          {ConnString: conn, MaxConns: -1},
	} {
		if _, err := sqlaction.NewDatabase(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Nothing was applied where no connection came about, and neither the evidence
// nor the error holds a password.
func TestNoConnection(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := listener.Addr().String()
	listener.Close()
	good := pgtest.NewDatabase(t, shopTemplate())
	gate, reset := newGate(t, good)
	gate.set(notReady, notReady, notReady, notReady, notReady, notReady, notReady, notReady)
	for name, test := range map[string]struct {
		conn string
		err  error
		says string
	}{
		"refused":       {"postgres://u:hunter2hunter2@" + refused + "/d?sslmode=disable", nil, "connection refused"},
		"broken off":    {reset, nil, "connect"},
		"no database":   {withDatabase(t, good, "nowhere"), nil, "3D000"},
		"unreadable":    {"postgres://u:hunter2hunter2@[::bad/d", nil, "connect"},
		"no secret":     {"", errors.New("no such file"), "connect"},
		"plain text":    {"postgres://u:hunter2hunter2@db.example.test/d?sslmode=disable", nil, "sslmode=verify-full"},
		"may be plain":  {"postgres://u:hunter2hunter2@db.example.test/d", nil, "sslmode=verify-full"},
		"second host":   {"postgres://u:hunter2hunter2@127.0.0.1,db.example.test/d?sslmode=disable", nil, "sslmode=verify-full"},
		"out of time":   {"postgres://u:hunter2hunter2@192.0.2.1/d?sslmode=require", nil, "connect"},
		"wrong command": {withOption(t, good, "nosuchparameter", "1"), nil, "42704"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := database(t, "", sqlaction.DatabaseOptions{ConnString: func(context.Context) (string, error) { return test.conn, test.err }, CreateTable: true})
			r, c := declared(t, db, insertOrder, 500*time.Millisecond), call(t, `{"sku": "lamp", "qty": 1}`)
			o := execute(t, r, c)
			wantKind(t, o, actions.NotApplied, "not_connected")
			if !strings.Contains(o.Failure.Evidence, test.says) || !strings.Contains(o.Failure.Evidence, "no transaction") {
				t.Errorf("evidence is %q, want %q", o.Failure.Evidence, test.says)
			}
			f := lookup(t, r, c)
			wantFinding(t, f, actions.Inconclusive)
			if strings.Contains(o.Failure.Evidence+o.Failure.Message+f.Detail, "hunter2") {
				t.Errorf("the password is in %q or %q", o.Failure.Evidence, f.Detail)
			}
		})
	}
}

// A server that refuses the credentials is asked again with those that the
// secret holds then; while they are good the secret is not read again.
func TestCredentialsAreReadAgain(t *testing.T) {
	t.Parallel()
	g := newTarget(t)
	reads := 0
	var mu sync.Mutex
	db := database(t, "", sqlaction.DatabaseOptions{CreateTable: true, ConnString: func(context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if reads++; reads == 1 {
			return withUser(t, g.url, "nobody_of_this_name"), nil
		}
		return g.url, nil
	}})
	r, c := declared(t, db, insertOrder, 10*time.Second), call(t, `{"sku": "lamp", "qty": 1}`)
	o := execute(t, r, c)
	wantKind(t, o, actions.NotApplied, "not_connected")
	if !strings.Contains(o.Failure.Evidence, "SQLSTATE 28") {
		t.Errorf("evidence is %q, want a refusal of credentials", o.Failure.Evidence)
	}
	wantKind(t, execute(t, r, c), actions.Applied, "")
	wantKind(t, execute(t, r, c), actions.Applied, "")
	if reads != 2 {
		t.Errorf("the secret was read %d times, want 2", reads)
	}
	db.Close()
	db.Close()
	wantKind(t, execute(t, r, c), actions.NotApplied, "not_connected")
	if err := db.Check(t.Context()); !errors.Is(err, sqlaction.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A role that acknowledges commits before they are on disk is overruled.
func TestCommitsAreDurable(t *testing.T) {
	t.Parallel()
	g := newTarget(t)
	for setting, want := range map[string]string{"off": "on", "local": "local"} {
		db := database(t, withOption(t, g.url, "synchronous_commit", setting), sqlaction.DatabaseOptions{CreateTable: true})
		r, err := sqlaction.NewRemote(db, orderSpec(10*time.Second), nil, sqlaction.Declared{
			SQL: `SELECT current_setting('synchronous_commit'), json_build_object('isolation', current_setting('transaction_isolation'))`})
		if err != nil {
			t.Fatal(err)
		}
		if o := execute(t, r, call(t, `{}`)); o.Receipt.Reference != want || !strings.Contains(string(o.Receipt.JSON), "read committed") {
			t.Errorf("%s: %+v", setting, o)
		}
	}
}

// A wait for a synchronous standby that is cancelled, and a backend that is
// killed in it: both have committed, and neither says so to be relied on.
func TestUnreplicatedCommit(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t, map[string]string{"synchronous_standby_names": "missing", "synchronous_commit": "local"})
	g := targetAt(t, server.NewDatabase(t, shopTemplate()), sqlaction.DatabaseOptions{CreateTable: true})
	waiting := database(t, withOption(t, g.url, "synchronous_commit", "on"), sqlaction.DatabaseOptions{})
	if err := g.db.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, end := range []string{"pg_cancel_backend", "pg_terminate_backend"} {
		r, c := declared(t, waiting, insertOrder, 20*time.Second), call(t, `{"sku": "`+end[:12]+`", "qty": 1}`)
		done := make(chan actions.Outcome, 1)
		go func() { done <- r.Execute(t.Context(), c) }()
		eventually(t, "the wait for the standby", func() bool {
			return g.count(`SELECT count(`+pgx.Identifier{end}.Sanitize()+`(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()`) == 1
		})
		wantKind(t, <-done, actions.Ambiguous, "commit_unknown")
		eventually(t, "the row", func() bool { return lookup(t, g.orders(), c).Kind == actions.Found })
		g.wantHeld(i + 1)
	}
}
