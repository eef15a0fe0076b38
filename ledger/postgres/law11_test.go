package postgres_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// The serving role may ask for the days to come, through a function that runs as
// the owner. Functions of its own that have the names of what that calls are not
// what is called.
func TestLaw11_PreparingDaysLendsNoRights(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	db.Exec(t, `GRANT CREATE ON SCHEMA public TO onceward_serve`) // as databases of Postgres 14 have it
	conn := db.Serve(t)
	for _, sql := range []string{
		`CREATE TABLE calls (who text)`,
		`GRANT INSERT ON calls TO PUBLIC`,
		`CREATE FUNCTION public.note(who text) RETURNS void LANGUAGE sql AS 'INSERT INTO public.calls VALUES (who)'`,
		`CREATE FUNCTION public.to_char(date, text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM public.note(current_user::text); RETURN pg_catalog.to_char($1::timestamp, $2); END $$`,
		`CREATE FUNCTION public.generate_series(date, date, interval) RETURNS SETOF timestamp LANGUAGE plpgsql AS $$ BEGIN PERFORM public.note(current_user::text); RETURN QUERY SELECT pg_catalog.generate_series($1::timestamp, $2::timestamp, $3); END $$`,
		`CREATE FUNCTION public.pg_advisory_xact_lock(integer) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM public.note(current_user::text); END $$`,
		`CREATE FUNCTION public.format(text, text, uuid, uuid) RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM public.note(current_user::text); RETURN pg_catalog.format($1, $2, $3, $4); END $$`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	var made int
	if err := conn.QueryRow(t.Context(), `SELECT audit_events_prepare(current_date + 20, current_date + 21)`).Scan(&made); err != nil || made != 2 {
		t.Errorf("made %d days, %v; want 2", made, err)
	}
	if n := db.Count(t, `SELECT count(*) FROM calls`); n != 0 {
		t.Errorf("%d calls of the serving role's functions were made as the owner", n)
	}
}

func TestLaw11_ServingRoleCannotEditTheAuditRecord(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	op := inState(t, store, ledger.Succeeded)
	conn := db.Serve(t)
	owner := pgx.Identifier{db.Owner(t).Config().User}.Sanitize()
	unchanged(t, db, op, "the serving role", func() {
		for _, sql := range []string{
			`UPDATE audit_events SET actor = 'somebody else'`,
			`DELETE FROM audit_events`,
			`TRUNCATE audit_events`,
			`MERGE INTO audit_events e USING operations o ON e.operation_id = o.id WHEN MATCHED THEN DELETE`,
			`INSERT INTO audit_events SELECT * FROM audit_events ON CONFLICT (tenant_id, operation_id, sequence) DO UPDATE SET actor = 'x'`,
			`ALTER TABLE audit_events DISABLE TRIGGER ALL`,
			`ALTER TABLE audit_events ADD COLUMN x int`,
			`ALTER TABLE audit_events OWNER TO CURRENT_USER`,
			`DROP TABLE audit_events`,
			`CREATE RULE quiet AS ON INSERT TO audit_events DO INSTEAD NOTHING`,
			`CREATE TRIGGER quiet BEFORE INSERT ON audit_events FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()`,
			`ALTER TABLE operations DISABLE TRIGGER operations_guard`,
			`DROP TRIGGER operations_guard ON operations`,
			`CREATE OR REPLACE FUNCTION operation_move_allowed(from_status text, event text, to_status text) RETURNS boolean LANGUAGE sql AS 'SELECT true'`,
			`DROP FUNCTION operations_guard() CASCADE`,
			`TRUNCATE operations`,
			`SET session_replication_role = replica`,
			`SET ROLE ` + owner,
		} {
			_, err := conn.Exec(t.Context(), sql)
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || pg.Code != "42501" { // insufficient_privilege
				t.Errorf("%s: error %v, want SQLSTATE 42501", sql, err)
			}
		}
	})
}

// Each legal move is made through the store twice: with an audit record that
// refuses to be written, and then without.
func TestLaw11_NoMoveWithoutItsAuditEvent(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	db.Exec(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = 'OWTST'; END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON audit_events FOR EACH ROW EXECUTE FUNCTION refuse();
		ALTER TABLE audit_events DISABLE TRIGGER refuse`)
	refusing := func(do func() error) error {
		db.Exec(t, `ALTER TABLE audit_events ENABLE TRIGGER refuse`)
		defer db.Exec(t, `ALTER TABLE audit_events DISABLE TRIGGER refuse`)
		return do()
	}
	for _, m := range ledger.Moves() {
		what := fmt.Sprintf("%q by %s", m.From, m.Event)
		move, op := mover(t, store, m)
		restored := m.From == ledger.New && m.Event == ledger.Doubt
		if restored {
			db.Exec(t, `INSERT INTO restores (id, lost_from, lost_until, begun_by) VALUES (gen_random_uuid(), now() - interval '1 hour', now(), 'test')`)
		}
		known := len(db.Audit(t, op))
		unchanged(t, db, op, what+" without audit", func() {
			var pg *pgconn.PgError
			if err := refusing(func() error { _, err := move(); return err }); !errors.As(err, &pg) || pg.Code != "OWTST" {
				t.Errorf("%s without its audit event: %v, want the trigger's error", what, err)
			}
		})
		moved, err := move()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		events := db.Audit(t, op)
		if len(events) != known+1 {
			t.Fatalf("%s left %d audit events, want 1: %+v", what, len(events)-known, events)
		}
		got := events[known]
		want := ledgertest.AuditEvent{Sequence: moved.Revision, Event: string(m.Event), From: m.From, To: m.To,
			Attempt: moved.Attempt, Epoch: moved.Epoch, ArgsHash: moved.ArgsHash, Actor: got.Actor, Detail: got.Detail}
		if got != want || got.Actor == "" || moved.State != m.To || moved.LastEvent != m.Event {
			t.Errorf("%s left audit event %+v of an operation that is %s by %s, want %+v", what, got, moved.State, moved.LastEvent, want)
		}
		if restored {
			db.Exec(t, `UPDATE restores SET ended_at = now(), ended_by = 'test'`)
		}
	}

	o := ledgertest.Opening(acme)
	o.Start.Lease = 0
	op := ledgertest.Open(t, store, o)
	unchanged(t, db, op, "a lease expiry without audit", func() {
		if err := refusing(func() error { _, _, err := store.ExpireLeases(t.Context(), 10); return err }); err == nil {
			t.Error("a lease ran out without an audit event")
		}
	})
	if _, _, err := store.ExpireLeases(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	events := db.Audit(t, op)
	if last := events[len(events)-1]; len(events) != 2 || last.Event != "doubt" || last.From != ledger.Running || last.To != ledger.Unknown || last.Actor != "reconciler" {
		t.Errorf("after a lease expiry the audit record is %+v, want claim and doubt", events)
	}

	op = inState(t, store, ledger.Succeeded)
	e := ledger.Evidence{Operation: op, Attempt: 1, Actor: "worker", Detail: "late answer"}
	unchanged(t, db, op, "evidence without audit", func() {
		if err := refusing(func() error { _, err := store.AddEvidence(t.Context(), e); return err }); err == nil {
			t.Error("evidence was added without an audit event")
		}
	})
	if _, err := store.AddEvidence(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	events = db.Audit(t, op)
	if last := events[len(events)-1]; last.Event != "evidence" || last.From != ledger.Succeeded || last.To != ledger.Succeeded || last.Detail != "late answer" {
		t.Errorf("after evidence the audit record is %+v", events)
	}
}

// mover returns a function that makes the move on an operation, and that
// operation, which is not there yet when the move is its first.
func mover(t *testing.T, store *postgres.Store, m ledger.Move) (func() (ledger.Operation, error), ledger.Operation) {
	t.Helper()
	if m.From != ledger.New {
		op := inState(t, store, m.From)
		if m.Event == ledger.Replay {
			op = ledgertest.Leased(t, store, op)
		}
		return func() (ledger.Operation, error) { return ledgertest.Move(t.Context(), store, op, m.Event) }, op
	}
	o := ledgertest.Opening(acme)
	switch m.Event {
	case ledger.Record:
		o = ledgertest.Recorded(acme)
	case ledger.Escalate:
		o = ledgertest.Asked(acme)
	default: // a claim
	}
	return func() (ledger.Operation, error) {
		op, _, err := store.Open(t.Context(), o)
		return op, err
	}, o.Operation
}

// A person decides by name, and the record says who.
func TestLaw11_DecisionsNameThePerson(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	op := ledgertest.Open(t, store, ledgertest.Asked(acme))
	change := ledgertest.Change(op, ledger.Approve)
	change.Actor, change.Decision.By = "person:ann", "person:ann"
	if _, err := store.Apply(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	events := db.Audit(t, op)
	if last := events[len(events)-1]; last.Actor != "person:ann" || last.Event != "approve" {
		t.Errorf("audit record ends with %+v, want ann's approval", last)
	}
	var by string
	if err := db.Owner(t).QueryRow(t.Context(), `SELECT decided_by FROM reviews WHERE tenant_id = @t AND id = @id::uuid`,
		pgx.NamedArgs{"t": acme, "id": op.Review.ID}).Scan(&by); err != nil || by != "person:ann" {
		t.Errorf("the review was decided by %q, %v; want ann", by, err)
	}
}
