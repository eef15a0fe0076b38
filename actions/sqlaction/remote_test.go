package sqlaction_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/sqlaction"
)

// An attempt writes the row and its receipt; another attempt of the same
// operation gets that receipt, byte for byte, and so does a look-up.
func TestAnOperationIsAppliedOnce(t *testing.T) {
	t.Parallel()
	g := newTarget(t)
	r, c := g.orders(), call(t, `{"sku": "lamp", "qty": 2}`)
	wantFinding(t, lookup(t, r, c), actions.Absent)

	first := execute(t, r, c)
	wantKind(t, first, actions.Applied, "")
	if want := `{"order" : 1, "sku" : "lamp"}`; string(first.Receipt.JSON) != want || first.Receipt.Reference != "1" {
		t.Errorf("receipt is %s %s, want 1 %s", first.Receipt.Reference, first.Receipt.JSON, want)
	}
	again := execute(t, r, c)
	wantKind(t, again, actions.Applied, "")
	found := lookup(t, r, c)
	wantFinding(t, found, actions.Found)
	for what, receipt := range map[string]actions.Receipt{"second attempt": again.Receipt, "look-up": found.Receipt} {
		if receipt.Reference != first.Receipt.Reference || string(receipt.JSON) != string(first.Receipt.JSON) {
			t.Errorf("%s: receipt %s %s, want the first one's", what, receipt.Reference, receipt.JSON)
		}
	}
	g.wantHeld(1)

	// The same id of another tenant is another operation.
	other := c
	other.Tenant = "globex"
	wantFinding(t, lookup(t, r, other), actions.Absent)
	changed := call(t, `{"sku": "lamp", "qty": 3}`)
	changed.OperationID = c.OperationID
	wantKind(t, execute(t, r, changed), actions.KeyMismatch, "operation_mismatch")
	g.wantHeld(1)
}

// Attempts of one operation at one moment: one writes, the others wait for it
// and get its receipt.
func TestConcurrentAttemptsWriteOnce(t *testing.T) {
	t.Parallel()
	g := newTarget(t)
	r, c := g.orders(), call(t, `{"sku": "lamp", "qty": 2}`)
	outcomes := make([]actions.Outcome, 8)
	var work sync.WaitGroup
	for i := range outcomes {
		work.Go(func() { outcomes[i] = r.Execute(t.Context(), c) })
	}
	work.Wait()
	for _, o := range outcomes {
		wantKind(t, o, actions.Applied, "")
		if string(o.Receipt.JSON) != string(outcomes[0].Receipt.JSON) {
			t.Errorf("receipts %s and %s", o.Receipt.JSON, outcomes[0].Receipt.JSON)
		}
	}
	g.wantHeld(1)
}

// Each answer of the server, and what it proves. Nothing is left in any case.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const order = `{"sku": "lamp", "qty": 2}`
	for name, test := range map[string]struct {
		sql, arguments string
		kind           actions.Kind
		code           string
		correctable    bool
	}{
		"unique":            {insertOrder, `{"sku": "taken", "qty": 1}`, actions.Rejected, "unique_violation", true},
		"check":             {insertOrder, `{"sku": "lamp", "qty": 0}`, actions.Rejected, "check_violation", true},
		"too long":          {insertOrder, `{"sku": "a lamp whose name goes on and on", "qty": 1}`, actions.Rejected, "text_too_long", true},
		"NUL":               {insertOrder, `{"sku": "a\u0000b", "qty": 1}`, actions.Rejected, "sqlstate_22021", true},
		"trigger":           {insertOrder, `{"sku": "sunday", "qty": 1}`, actions.Rejected, "refused_by_database", true},
		"out of range":      {insertOrder, `{"sku": "lamp", "qty": 3000000000}`, actions.Rejected, "not_encodable", true},
		"at COMMIT":         {insertOrder, `{"sku": "lamp", "qty": 1, "warehouse": 7}`, actions.Rejected, "foreign_key_violation", true},
		"no such table":     {`INSERT INTO nowhere VALUES ($1, $2, $3, $4) RETURNING '', json_build_object()`, order, actions.Rejected, "sqlstate_42p01", false},
		"several statement": {insertOrder + `; COMMIT`, order, actions.Rejected, "sqlstate_42601", false},
		"no row":            {`UPDATE orders SET operation_id = $1, qty = $3, warehouse = $4 WHERE sku = $2 RETURNING id::text, json_build_object()`, order, actions.Rejected, "no_row", true},
		"two rows": {`INSERT INTO orders (operation_id, sku, qty, warehouse) SELECT $1, $2 || n, $3, $4 FROM generate_series(1, 2) n RETURNING id::text, json_build_object()`,
			order, actions.Rejected, "several_rows", false},
		"one column":      {`INSERT INTO orders (operation_id, sku, qty, warehouse) VALUES ($1, $2, $3, $4) RETURNING id::text`, order, actions.Rejected, "not_encodable", true},
		"null reference":  {`INSERT INTO orders (operation_id, sku, qty, warehouse) VALUES ($1, $2, $3, $4) RETURNING NULL::text, json_build_object()`, order, actions.Rejected, "not_encodable", true},
		"empty reference": {`INSERT INTO orders (operation_id, sku, qty, warehouse) VALUES ($1, $2, $3, $4) RETURNING '', json_build_object()`, order, actions.Rejected, "no_receipt", false},
		"no object":       {`INSERT INTO orders (operation_id, sku, qty, warehouse) VALUES ($1, $2, $3, $4) RETURNING id::text, json_build_array(id)`, order, actions.Rejected, "no_receipt", false},
		"huge receipt": {`INSERT INTO orders (operation_id, sku, qty, warehouse) VALUES ($1, $2, $3, $4) RETURNING id::text, json_build_object('a', repeat('x', 70000))`,
			order, actions.Rejected, "no_receipt", false},
		"deadlock": {`WITH o AS (INSERT INTO orders (operation_id, sku, qty, warehouse) VALUES ($1, $2, $3, $4) RETURNING id)
			SELECT id::text, json_build_object('fault', fault('40P01')) FROM o`, order, actions.NotApplied, "not_committed", false},
		"serialization": {`WITH o AS (INSERT INTO orders (operation_id, sku, qty, warehouse) VALUES ($1, $2, $3, $4) RETURNING id)
			SELECT id::text, json_build_object('fault', fault('40001')) FROM o`, order, actions.NotApplied, "not_committed", false},
		"out of disk": {`WITH o AS (INSERT INTO orders (operation_id, sku, qty, warehouse) VALUES ($1, $2, $3, $4) RETURNING id)
			SELECT id::text, json_build_object('fault', fault('53100')) FROM o`, order, actions.NotApplied, "not_committed", false},
		"out of time": {`WITH o AS (INSERT INTO orders (operation_id, sku, qty, warehouse) VALUES ($1, $2, $3, $4) RETURNING id)
			SELECT id::text, json_build_object('slept', pg_sleep(60)::text) FROM o`, order, actions.NotApplied, "not_committed", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newTarget(t)
			g.exec(`CREATE FUNCTION fault(code text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION USING ERRCODE = code; END $$`)
			if err := g.db.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			g.exec(`INSERT INTO orders (operation_id, sku, qty, warehouse) VALUES (gen_random_uuid(), 'taken', 1, 1)`)
			g.exec(`INSERT INTO onceward_operations VALUES ('other', gen_random_uuid(), '', 'r', '{}')`)
			timeout := 10 * time.Second
			if name == "out of time" {
				timeout = 2 * time.Second
			}
			r, c := declared(t, g.db, test.sql, timeout), call(t, test.arguments)
			o := execute(t, r, c)
			wantKind(t, o, test.kind, test.code)
			if o.Failure.Correctable != test.correctable || o.Failure.Message == "" || o.Failure.Evidence == "" {
				t.Errorf("failure is %+v, want correctable %v", o.Failure, test.correctable)
			}
			if text := fmt.Sprint(o.Failure); strings.Contains(text, "lamp") || strings.Contains(text, "3000000000") || strings.Contains(text, "Sunday") {
				t.Errorf("the failure repeats values: %s", text)
			}
			g.wantHeld(1)
			eventually(t, "absent after "+name, func() bool { return lookup(t, r, c).Kind == actions.Absent })
		})
	}
}

// Parameters that fail are a refusal before anything is sent.
func TestParametersThatCannotBeMade(t *testing.T) {
	t.Parallel()
	g := newTarget(t)
	r, c := g.orders(), call(t, `{"sku": 7, "qty": 2}`)
	wantKind(t, execute(t, r, c), actions.Rejected, "not_renderable")
	if _, err := r.Render(c); err == nil {
		t.Error("rendered")
	}
}

// A connection that is lost around COMMIT: before the server saw it, after it
// was carried out, and with COMMIT still on its way.
func TestConnectionLostAtCommit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		at    passage
		found actions.FindingKind
		held  int
	}{
		"before": {drop, actions.Absent, 0},
		"after":  {swallow, actions.Found, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newTarget(t)
			gate, through := newGate(t, g.url)
			r, c := declared(t, database(t, through, sqlaction.DatabaseOptions{CreateTable: true}), insertOrder, 10*time.Second), call(t, `{"sku": "lamp", "qty": 2}`)
			gate.set(test.at)
			// The driver offered COMMIT to the connection, and cannot know more.
			wantKind(t, execute(t, r, c), actions.Ambiguous, "commit_unknown")
			eventually(t, "the look-up to say "+test.found.String(), func() bool { return lookup(t, r, c).Kind == test.found })
			g.wantHeld(test.held)
			wantKind(t, execute(t, r, c), actions.Applied, "")
			g.wantHeld(1)
		})
	}
}

// While a lost worker's COMMIT is on its way, nobody says that the effect is
// absent; and it does arrive.
func TestLookupDuringALostCommit(t *testing.T) {
	t.Parallel()
	g := newTarget(t)
	gate, through := newGate(t, g.url)
	slow, c := declared(t, database(t, through, sqlaction.DatabaseOptions{CreateTable: true}), insertOrder, 30*time.Second), call(t, `{"sku": "lamp", "qty": 2}`)
	r := g.orders()
	gate.set(hold)
	ctx, lose := context.WithTimeout(t.Context(), 30*time.Second)
	lost := make(chan actions.Outcome, 1)
	go func() { lost <- slow.Execute(ctx, c) }()
	<-gate.held
	wantFinding(t, lookup(t, r, c), actions.Inconclusive)
	lose()
	wantKind(t, <-lost, actions.Ambiguous, "commit_unknown")
	wantFinding(t, lookup(t, r, c), actions.Inconclusive)

	// Another attempt does not get past it either, and is not kept for ever.
	eager := declared(t, g.db, insertOrder, 3*time.Second)
	o := execute(t, eager, c)
	wantKind(t, o, actions.NotApplied, "not_committed")
	if want := "lock: ERROR SQLSTATE 55P03; COMMIT was not sent"; o.Failure.Evidence != want {
		t.Errorf("evidence is %q, want %q", o.Failure.Evidence, want)
	}

	gate.release()
	eventually(t, "the late COMMIT", func() bool { return lookup(t, r, c).Kind == actions.Found })
	g.wantHeld(1)
}

// A standby lags, and its locks are its own: what it says proves nothing. Here a
// database only believes that it is one.
func TestLookupOnAStandby(t *testing.T) {
	t.Parallel()
	g := newTarget(t)
	r, c := g.orders(), call(t, `{"sku": "lamp", "qty": 2}`)
	wantKind(t, execute(t, r, c), actions.Applied, "")
	g.exec(`CREATE SCHEMA later; CREATE FUNCTION later.pg_is_in_recovery() RETURNS boolean LANGUAGE sql AS 'SELECT true'`)
	standby := declared(t, database(t, withOption(t, g.url, "search_path", "later,pg_catalog,public"), sqlaction.DatabaseOptions{}), insertOrder, 10*time.Second)
	for _, c := range []actions.Call{c, call(t, `{}`)} {
		f := lookup(t, standby, c)
		wantFinding(t, f, actions.Inconclusive)
		if !strings.Contains(f.Detail, "standby") {
			t.Errorf("detail is %q", f.Detail)
		}
	}
}

// A worker that died in its transaction is thrown out by the server, in the
// time that its attempt had.
func TestADeadWorkersTransactionEnds(t *testing.T) {
	t.Parallel()
	g := newTarget(t)
	gate, through := newGate(t, g.url)
	slow, c := declared(t, database(t, through, sqlaction.DatabaseOptions{CreateTable: true}), insertOrder, 3*time.Second), call(t, `{"sku": "lamp", "qty": 2}`)
	gate.set(hold)
	wantKind(t, execute(t, slow, c), actions.Ambiguous, "commit_unknown")
	eventually(t, "absence", func() bool { return lookup(t, g.orders(), c).Kind == actions.Absent })
	gate.release()
	g.wantHeld(0)
}

// A backend that is killed in the statement leaves nothing, and says so.
func TestBackendKilledInTheStatement(t *testing.T) {
	t.Parallel()
	g := newTarget(t)
	r := declared(t, g.db, `WITH o AS (INSERT INTO orders (operation_id, sku, qty, warehouse) VALUES ($1, $2, $3, $4) RETURNING id)
		SELECT id::text, json_build_object('slept', pg_sleep(20)::text) FROM o`, 30*time.Second)
	c := call(t, `{"sku": "lamp", "qty": 2}`)
	done := make(chan actions.Outcome, 1)
	go func() { done <- r.Execute(t.Context(), c) }()
	eventually(t, "the statement to run", func() bool {
		return g.count(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'onceward' AND wait_event = 'PgSleep'`) == 1
	})
	wantKind(t, <-done, actions.NotApplied, "not_committed")
	wantFinding(t, lookup(t, r, c), actions.Absent)
	g.wantHeld(0)
}

// A row that somebody wrote without the lock: the attempt is rolled back, and
// the answer is left to the look-up.
func TestRowWrittenBesideTheLock(t *testing.T) {
	t.Parallel()
	g := newTarget(t)
	if err := g.db.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := declared(t, g.db, `WITH o AS (INSERT INTO orders (operation_id, sku, qty, warehouse) VALUES ($1, $2, $3, $4) RETURNING id, operation_id),
		b AS (INSERT INTO onceward_operations SELECT 'acme', operation_id, '', 'r', '{}' FROM o)
		SELECT id::text, json_build_object() FROM o`, 10*time.Second)
	wantKind(t, execute(t, r, call(t, `{"sku": "lamp", "qty": 2}`)), actions.MaybeOurs, "already_recorded")
	g.wantHeld(0)
}

// A statement without parameters goes the same way: one statement, no more.
func TestStatementWithoutParameters(t *testing.T) {
	t.Parallel()
	g := newTarget(t)
	const insert = `INSERT INTO warehouses SELECT max(id) + 1 FROM warehouses RETURNING id::text, json_build_object('id', id)`
	for sql, kind := range map[string]actions.Kind{insert: actions.Applied, insert + `; COMMIT; ` + insert: actions.Rejected} {
		r, err := sqlaction.NewRemote(g.db, orderSpec(10*time.Second), nil, sqlaction.Declared{SQL: sql})
		if err != nil {
			t.Fatal(err)
		}
		if o := execute(t, r, call(t, `{}`)); o.Kind != kind {
			t.Errorf("%s: %s %+v, want %s", sql, o.Kind, o.Failure, kind)
		}
	}
	if n := g.count(`SELECT count(*) FROM warehouses`); n != 2 {
		t.Errorf("%d warehouses, want 2", n)
	}
}

// An attempt whose time is over sends no statement.
func TestAttemptWithoutTime(t *testing.T) {
	t.Parallel()
	g := newTarget(t)
	r, c := g.orders(), call(t, `{"sku": "lamp", "qty": 2}`)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if o := r.Execute(ctx, c); o.Kind != actions.NotApplied {
		t.Errorf("outcome is %s %+v", o.Kind, o.Failure)
	}
	if f := r.Lookup(ctx, actions.Query{Call: c}); f.Kind != actions.Inconclusive {
		t.Errorf("finding is %s", f.Kind)
	}
}
