package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
)

// withCredits makes a table that actions write to in the ledger's database.
func withCredits(t *testing.T, db ledgertest.Database) {
	t.Helper()
	db.Exec(t, `CREATE TABLE credits (
			id text PRIMARY KEY,
			amount int CONSTRAINT positive CHECK (amount > 0),
			late int CONSTRAINT late_unique UNIQUE DEFERRABLE INITIALLY DEFERRED);
		GRANT SELECT, INSERT ON credits TO onceward_serve`)
}

// crediting is the confirmation of an operation by a statement.
func crediting(op ledger.Operation, sql string, args ...any) ledger.Change {
	change := ledgertest.Change(op, ledger.Confirm)
	change.ProviderReference, change.Receipt = "", nil
	change.Write = &ledger.Write{SQL: sql, Args: args}
	return change
}

const credit = `INSERT INTO credits (id, amount, late) VALUES ($1, $2, $3) RETURNING id, json_build_object('credit', id, 'amount', amount)::text`

func TestWriteHappensWithItsMove(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	withCredits(t, db)
	done := apply(t, store, crediting(inState(t, store, ledger.Running), credit, "cr_1", 5, nil))
	if done.State != ledger.Succeeded || done.ProviderReference != "cr_1" || string(done.Receipt) != `{"credit" : "cr_1", "amount" : 5}` {
		t.Errorf("credited %s %q %s", done.State, done.ProviderReference, done.Receipt)
	}
	if n := db.Count(t, `SELECT count(*) FROM credits`); n != 1 {
		t.Errorf("%d credits, want 1", n)
	}
}

// What the statement returns is redacted before anything of it is stored.
func TestReceiptOfAWriteIsRedacted(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	withCredits(t, db)
	change := crediting(inState(t, store, ledger.Running), credit, "cr_1", 5, nil)
	change.Write.Redact = func([]byte) []byte { return []byte(`{"credit":"[redacted]"}`) }
	done := apply(t, store, change)
	if stored, err := store.Get(t.Context(), done.Tenant, done.ID); err != nil || string(done.Receipt) != `{"credit":"[redacted]"}` || string(stored.Receipt) != string(done.Receipt) {
		t.Errorf("receipt is %s, stored %s, %v", done.Receipt, stored.Receipt, err)
	}
}

func TestWriteThatIsFencedDoesNotHappen(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	withCredits(t, db)
	op := inState(t, store, ledger.Running)
	stale := op
	stale.Attempt++
	unchanged(t, db, op, "a fenced write", func() {
		_, err := store.Apply(t.Context(), crediting(stale, credit, "cr_1", 5, nil))
		wantError(t, "a fenced write", err, ledger.ErrFenced)
	})
	apply(t, store, crediting(op, credit, "cr_1", 5, nil))
	_, err := store.Apply(t.Context(), crediting(op, credit, "cr_2", 5, nil))
	wantError(t, "the same write again", err, ledger.ErrFenced)
	if n := db.Count(t, `SELECT count(*) FROM credits`); n != 1 {
		t.Errorf("%d credits, want 1", n)
	}
}

func TestRefusedWriteMovesNothing(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	withCredits(t, db)
	apply(t, store, crediting(inState(t, store, ledger.Running), credit, "cr_taken", 5, 7))
	op := inState(t, store, ledger.Running)
	for _, c := range []struct {
		what          string
		change        ledger.Change
		code, message string
	}{
		{"unique", crediting(op, credit, "cr_taken", 5, nil), "23505", "constraint credits_pkey"},
		{"check", crediting(op, credit, "cr_secret", -5, nil), "23514", "constraint positive"},
		{"deferred to the commit", crediting(op, credit, "cr_2", 5, 7), "23505", "constraint late_unique"},
		{"bad data", crediting(op, `SELECT 'x', (1 / $1::int)::text`, 0), "22012", "condition 22012"},
		{"no such table", crediting(op, `SELECT a, b FROM missing`), "42P01", "condition 42P01"},
		{"no right", crediting(op, `DELETE FROM credits RETURNING id, '{}'`), "42501", "condition 42501"},
		{"no row", crediting(op, `SELECT 'x', '{}' WHERE false`), "02000", "the statement returned no row"},
		{"no reference", crediting(op, `SELECT NULL::text, '{}'`), "42804", ""},
		{"no receipt", crediting(op, `SELECT 'x'`), "42804", ""},
		{"two rows", crediting(op, `SELECT v, '{}' FROM unnest(ARRAY['x', 'y']) v`), "42804", ""},
		{"argument that cannot be sent", crediting(op, `SELECT $1::int::text, '{}'`, struct{}{}), "42804", ""},
	} {
		unchanged(t, db, op, c.what, func() {
			_, err := store.Apply(t.Context(), c.change)
			var refused *ledger.WriteRefusedError
			if !errors.As(err, &refused) || refused.Code != c.code {
				t.Fatalf("%s: error %v, want WriteRefusedError %s", c.what, err, c.code)
			}
			if c.message != "" && refused.Message != c.message {
				t.Errorf("%s: message %q, want %q", c.what, refused.Message, c.message)
			}
		})
	}
	if n := db.Count(t, `SELECT count(*) FROM credits`); n != 1 {
		t.Errorf("%d credits, want the first one only", n)
	}
	// The store is as good as before.
	if done := apply(t, store, crediting(op, credit, "cr_3", 5, nil)); done.State != ledger.Succeeded {
		t.Errorf("after refusals: %s", done.State)
	}
}

// A transaction began before its write: the times of the move are later.
func TestMoveIsTimedWhenItIsMade(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	done := apply(t, store, crediting(inState(t, store, ledger.Running), `SELECT clock_timestamp()::text, '{}'`))
	written, err := time.Parse("2006-01-02 15:04:05.999999-07", done.ProviderReference)
	if err != nil {
		t.Fatal(err)
	}
	if done.UpdatedAt.Before(written) || done.WindowEndsAt.Before(written.Add(ledgertest.Window)) {
		t.Errorf("written at %v, moved at %v with a window until %v", written, done.UpdatedAt, done.WindowEndsAt)
	}
}

// A move that the database refuses takes the write with it.
func TestWriteGoesBackWithItsMove(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	withCredits(t, db)
	op := inState(t, store, ledger.Running)
	db.Exec(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no room'; END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON audit_events FOR EACH ROW EXECUTE FUNCTION refuse()`)
	unchanged(t, db, op, "a write whose move is refused", func() {
		_, err := store.Apply(t.Context(), crediting(op, credit, "cr_1", 5, nil))
		var refused *ledger.WriteRefusedError
		if err == nil || errors.As(err, &refused) {
			t.Errorf("error %v, want one that does not blame the write", err)
		}
	})
	if n := db.Count(t, `SELECT count(*) FROM credits`); n != 0 {
		t.Errorf("%d credits, want none", n)
	}
}

// A statement that gets no answer is not refused: nobody knows.
func TestWriteWithoutAnswerIsUnavailable(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	withCredits(t, db)
	op := inState(t, store, ledger.Running)
	blocker, watcher := db.Owner(t), db.Owner(t)
	if _, err := blocker.Exec(t.Context(), `BEGIN; LOCK TABLE credits`); err != nil {
		t.Fatal(err)
	}
	waits := `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
	for name, end := range map[string]func(context.CancelFunc){
		"the caller gives up": func(cancel context.CancelFunc) { cancel() },
		"the backend is ended": func(context.CancelFunc) {
			if _, err := watcher.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`); err != nil {
				t.Error(err)
			}
		},
		"the statement is cancelled": func(context.CancelFunc) {
			if _, err := watcher.Exec(t.Context(), `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`); err != nil {
				t.Error(err)
			}
		},
	} {
		awaitCount(t, watcher, 0, waits)
		ctx, cancel := context.WithCancel(t.Context())
		answer := make(chan error, 1)
		go func() {
			_, err := store.Apply(ctx, crediting(op, credit, "cr_1", 5, nil))
			answer <- err
		}()
		awaitCount(t, watcher, 1, waits)
		end(cancel)
		wantError(t, name, <-answer, ledger.ErrUnavailable)
		cancel()
	}
	if _, err := blocker.Exec(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	if got := ledgertest.Get(t, store, op); got.State != ledger.Running {
		t.Errorf("the operation is %s, want running", got.State)
	}
}
