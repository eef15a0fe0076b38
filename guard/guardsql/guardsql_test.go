package guardsql_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/onceward/onceward/guard"
	"github.com/onceward/onceward/guard/guardsql"
	"github.com/onceward/onceward/internal/pgtest"
)

func claims() guard.Claims {
	return guard.Claims{
		Tenant: "acme", OperationID: "op-1", ActionType: "payments.refund.create", ArgumentsHash: strings.Repeat("a", 64), Attempt: 1,
	}
}

// database is a service's own, with one table of refunds.
func database(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", pgtest.NewDatabase(t, pgtest.Template{Name: "guardsql", Prepare: prepare}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func prepare(ctx context.Context, url string) error {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	for range 2 { // it can be run again
		if _, err = db.ExecContext(ctx, guardsql.Schema()); err != nil {
			return errors.Join(err, db.Close())
		}
	}
	_, err = db.ExecContext(ctx, "CREATE TABLE refunds (operation_id text NOT NULL, amount int NOT NULL CHECK (amount > 0))")
	return errors.Join(err, db.Close())
}

func count(t *testing.T, db *sql.DB, query string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// refund writes one and answers.
func refund(amount int) func(context.Context, *sql.Tx) (guard.Response, error) {
	return func(ctx context.Context, tx *sql.Tx) (guard.Response, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO refunds VALUES ('op-1', $1)", amount)
		return guard.Response{Status: 201, Header: map[string][]string{"Location": {"/refunds/1"}}, Body: []byte("\x00{}\xff")}, err
	}
}

// once is one request of a service.
func once(ctx context.Context, db *sql.DB, c guard.Claims, perform func(context.Context, *sql.Tx) (guard.Response, error)) (guard.Response, bool, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return guard.Response{}, false, err
	}
	defer func() { _ = tx.Rollback() }()
	r, replayed, err := guardsql.Once(ctx, tx, c, perform)
	if err != nil {
		return guard.Response{}, false, err
	}
	return r, replayed, tx.Commit()
}

func TestOnce(t *testing.T) {
	db := database(t)
	first, replayed, err := once(t.Context(), db, claims(), refund(10))
	if err != nil || replayed || first.Status != 201 {
		t.Fatalf("first: %+v, %v, %v", first, replayed, err)
	}
	second, replayed, err := once(t.Context(), db, claims(), refund(10))
	if err != nil || !replayed || string(second.Body) != string(first.Body) || second.Status != 201 || second.Header["Location"][0] != "/refunds/1" {
		t.Errorf("second: %+v, %v, %v", second, replayed, err)
	}
	other := claims()
	other.ArgumentsHash = strings.Repeat("b", 64)
	if _, _, err := once(t.Context(), db, other, refund(10)); guard.ReasonOf(err) != guard.ReasonMismatch {
		t.Errorf("other arguments: %v", err)
	}
	if n := count(t, db, "SELECT count(*) FROM refunds"); n != 1 {
		t.Errorf("%d refunds", n)
	}
	foreign := claims()
	foreign.Tenant = "globex"
	if _, replayed, err := once(t.Context(), db, foreign, refund(10)); err != nil || replayed {
		t.Errorf("another tenant: %v, %v", replayed, err)
	}
}

// TestCrashBeforeCommit: claim and write are undone together, wherever the
// process dies.
func TestCrashBeforeCommit(t *testing.T) {
	db := database(t)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	tx, err := conn.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := guardsql.Once(t.Context(), tx, claims(), refund(10)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := once(t.Context(), db, claims(), refund(10)); guard.ReasonOf(err) != guard.ReasonInProgress {
		t.Errorf("while it runs: %v", err)
	}
	var pid int
	if err := tx.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	var ended bool
	if err := db.QueryRowContext(t.Context(), "SELECT pg_terminate_backend($1, 10000)", pid).Scan(&ended); err != nil || !ended {
		t.Fatalf("the connection lives: %v", err)
	}
	if err := tx.Commit(); err == nil {
		t.Fatal("committed by the dead")
	}
	if _, replayed, err := once(t.Context(), db, claims(), refund(10)); err != nil || replayed {
		t.Errorf("the next attempt: %v, %v", replayed, err)
	}
	if n := count(t, db, "SELECT count(*) FROM refunds"); n != 1 {
		t.Errorf("%d refunds", n)
	}
}

// TestPerformFails: nothing of it stays, and the transaction can go on.
func TestPerformFails(t *testing.T) {
	for name, perform := range map[string]func(context.Context, *sql.Tx) (guard.Response, error){
		"by its own": func(ctx context.Context, tx *sql.Tx) (guard.Response, error) {
			_, err := refund(10)(ctx, tx)
			return guard.Response{}, errors.Join(err, errors.New("no such order"))
		},
		"by the database": refund(-1),
	} {
		t.Run(name, func(t *testing.T) {
			db := database(t)
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = guardsql.Once(t.Context(), tx, claims(), perform)
			var refused *guard.RefusedError
			if err == nil || errors.As(err, &refused) {
				t.Errorf("got %v", err)
			}
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO refunds VALUES ('log', 1)"); err != nil {
				t.Errorf("going on: %v", err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if n := count(t, db, "SELECT count(*) FROM refunds WHERE operation_id = 'op-1'") + count(t, db, "SELECT count(*) FROM onceward_guard"); n != 0 {
				t.Errorf("%d rows stay", n)
			}
			if _, replayed, err := once(t.Context(), db, claims(), refund(10)); err != nil || replayed {
				t.Errorf("the next attempt: %v, %v", replayed, err)
			}
		})
	}
}

// TestManyAtOnce: however many equal requests, one effect; nobody waits for
// another's end, and all that came after it get its response.
func TestManyAtOnce(t *testing.T) {
	db := database(t)
	db.SetMaxOpenConns(8)
	var all sync.WaitGroup
	var performed, replays, told atomic.Int32
	for range 40 {
		all.Go(func() {
			_, replayed, err := once(t.Context(), db, claims(), refund(10))
			switch {
			case guard.ReasonOf(err) == guard.ReasonInProgress && err != nil:
				told.Add(1)
			case err != nil:
				t.Error(err)
			case replayed:
				replays.Add(1)
			default:
				performed.Add(1)
			}
		})
	}
	all.Wait()
	if n := count(t, db, "SELECT count(*) FROM refunds"); n != 1 || performed.Load() != 1 {
		t.Errorf("%d refunds; %d performed, %d replayed, %d told to wait", n, performed.Load(), replays.Load(), told.Load())
	}
}

func TestStore(t *testing.T) {
	db := database(t)
	s := guardsql.New(db)
	op := claims().Operation()
	begin := func(want guard.State) guard.Entry {
		t.Helper()
		e, err := s.Begin(t.Context(), claims(), time.Hour)
		if err != nil || e.State != want || e.ArgumentsHash != claims().ArgumentsHash {
			t.Errorf("got %+v, %v, want %s", e, err, want)
		}
		return e
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	begin(guard.Begun)
	begin(guard.Running)
	check(s.Release(t.Context(), claims()))
	begin(guard.Begun)
	check(s.Doubt(t.Context(), op))
	begin(guard.Unresolved)
	check(s.Finish(t.Context(), op, guard.Response{Status: 201, Body: []byte("a")}))
	begin(guard.Finished)
	// What is finished stays as it is.
	check(s.Finish(t.Context(), op, guard.Response{Status: 500}))
	check(s.Release(t.Context(), claims()))
	check(s.Doubt(t.Context(), op))
	if e := begin(guard.Finished); e.Response.Status != 201 || string(e.Response.Body) != "a" {
		t.Errorf("got %+v", e)
	}
	if _, replayed, err := once(t.Context(), db, claims(), refund(1)); err != nil || !replayed {
		t.Errorf("Once on a store's operation: %v, %v", replayed, err)
	}
	if n, err := s.Forget(t.Context(), time.Hour); n != 0 || err != nil {
		t.Errorf("forgot %d young ones, %v", n, err)
	}
	if _, err := s.Forget(t.Context(), 0); err == nil {
		t.Error("forgets all")
	}
	if _, err := db.ExecContext(t.Context(), "UPDATE onceward_guard SET created_at = created_at - interval '2 hours'"); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Forget(t.Context(), time.Hour); n != 1 || err != nil {
		t.Errorf("forgot %d old ones, %v", n, err)
	}
}

// TestHeldTooLong: a process that died leaves a doubt, which Once respects, and
// which is never forgotten.
func TestHeldTooLong(t *testing.T) {
	db := database(t)
	s := guardsql.New(db)
	if e, err := s.Begin(t.Context(), claims(), time.Hour); err != nil || e.State != guard.Begun {
		t.Fatalf("got %+v, %v", e, err)
	}
	if _, err := db.ExecContext(t.Context(), "UPDATE onceward_guard SET held_until = clock_timestamp(), created_at = created_at - interval '9 years'"); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Begin(t.Context(), claims(), time.Hour); err != nil || e.State != guard.Unresolved {
		t.Errorf("got %+v, %v", e, err)
	}
	if _, _, err := once(t.Context(), db, claims(), refund(1)); guard.ReasonOf(err) != guard.ReasonUnresolved {
		t.Errorf("Once: %v", err)
	}
	if n, err := s.Forget(t.Context(), time.Second); n != 0 || err != nil {
		t.Errorf("forgot %d, %v", n, err)
	}
}

func TestDatabaseIsAway(t *testing.T) {
	db := database(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if e, err := guardsql.New(db).Begin(t.Context(), claims(), time.Hour); err == nil {
		t.Errorf("got %+v", e)
	}
	other := database(t)
	if _, err := other.ExecContext(t.Context(), "DROP TABLE onceward_guard"); err != nil {
		t.Fatal(err)
	}
	called := false
	_, _, err := once(t.Context(), other, claims(), func(context.Context, *sql.Tx) (guard.Response, error) {
		called = true
		return guard.Response{}, nil
	})
	var refused *guard.RefusedError
	if called || !errors.As(err, &refused) || refused.Reason != guard.ReasonUnavailable {
		t.Errorf("called %v, %v", called, err)
	}
}
