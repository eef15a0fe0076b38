package postgres_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/pgtest"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// Our own commit is a write whose answer can be lost. Whichever way, there is
// one row, one attempt and one event per step at most, and who is told that
// the claim is his finds it in the ledger (R35).
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what      string
		where     cut
		staysAway bool
		made      bool // in the ledger
		known     bool // to the caller
		// found is what the looks find: after the opening, after the claim, and of the
		// settlement, of which the caller must find out.
		found []ledger.Found
	}{
		{"cut before the statement", before, false, false, false, []ledger.Found{ledger.FoundLost, ledger.FoundLost, ledger.FoundUnknown}},
		{"cut before, and the ledger stays away", before, true, false, false, make([]ledger.Found, 3)},
		{"cut after the commit", after, false, true, true, []ledger.Found{ledger.FoundCommitted, ledger.FoundCommitted, ledger.FoundUnknown}},
		{"cut after the commit, and the ledger stays away", after, true, true, false, make([]ledger.Found, 3)},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			db := ledgertest.NewDatabase(t)
			direct := db.Open(t)
			watch := &watch{}
			store, cutter := throughCutter(t, db, postgres.ObservedBy(watch))
			pending := inState(t, direct, ledger.Pending)
			running := inState(t, direct, ledger.Running)
			made := 0
			if c.made {
				made = 1
			}
			// check looks at an operation after a step whose answer was lost.
			check := func(step string, id string, err error, attempts, events int) {
				t.Helper()
				if c.known && err != nil {
					t.Errorf("%s: %v, want it found again", step, err)
				}
				if !c.known {
					wantError(t, step, err, ledger.ErrUnavailable)
				}
				for query, want := range map[string]int{
					`SELECT count(*) FROM attempts WHERE operation_id = $1::uuid`:     attempts,
					`SELECT count(*) FROM audit_events WHERE operation_id = $1::uuid`: events,
				} {
					if got := db.Count(t, query, id); got != want {
						t.Errorf("%s: %s is %d, want %d", step, query, got, want)
					}
				}
			}

			o := ledgertest.Opening(acme)
			cutter.arm(c.where, c.staysAway)
			op, created, err := store.Open(t.Context(), o)
			check("Open", o.Operation.ID, err, made, made)
			if created != c.known || (c.known && (op.ID != o.Operation.ID || op.State != ledger.Running)) {
				t.Errorf("Open: created %v of %+v", created, op)
			}
			cutter.repair()
			again, created, err := store.Open(t.Context(), o)
			if err != nil || created == c.made || again.ID != o.Operation.ID {
				t.Errorf("Open again: created %v, %v", created, err)
			}

			cutter.arm(c.where, c.staysAway)
			op, err = store.Start(t.Context(), ledgertest.Claiming(pending))
			check("Start", pending.ID, err, made, 1+made)
			if c.known && (op.ID != pending.ID || op.State != ledger.Running || op.Attempt != 1) {
				t.Errorf("Start: %+v", op)
			}
			cutter.repair()

			// A settlement is not looked up by the store: the caller reads again.
			cutter.arm(c.where, c.staysAway)
			_, err = store.Apply(t.Context(), ledgertest.Change(running, ledger.Confirm))
			wantError(t, "Apply", err, ledger.ErrUnavailable)
			if cuts := cutter.repair(); cuts != 3 {
				t.Fatalf("%d connections were cut, want 3: the test tests nothing", cuts)
			}
			_, err = store.Apply(t.Context(), ledgertest.Change(running, ledger.Confirm))
			if made == 1 {
				wantError(t, "Apply again", err, ledger.ErrFenced)
			} else if err != nil {
				t.Errorf("Apply again: %v", err)
			}
			if got := ledgertest.Get(t, store, running); got.State != ledger.Succeeded || len(db.Audit(t, running)) != 2 {
				t.Errorf("the settled operation is %s with %d events", got.State, len(db.Audit(t, running)))
			}
			if !slices.Equal(watch.found(), c.found) {
				t.Errorf("found %v, want %v", watch.found(), c.found)
			}
			if n := watch.unanswered.Load(); n < 3 {
				t.Errorf("%d statements are said to have no answer, of 3", n)
			}
		})
	}
}

// Somebody else's claim with our number is not ours.
func TestLostAnswerIsNotMistakenForAnothersClaim(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	direct := db.Open(t)
	store, cutter := throughCutter(t, db)
	op := inState(t, direct, ledger.Pending)
	ledgertest.Moved(t, direct, op, ledger.Claim)
	cutter.arm(before, false)
	_, err := store.Start(t.Context(), ledgertest.Claiming(op))
	wantError(t, "a claim whose answer was lost, while another made it", err, ledger.ErrUnavailable)
}

// A write and its move, cut around the commit.
func TestLostAnswerOfWrite(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	withCredits(t, db)
	direct := db.Open(t)
	store, cutter := throughCutter(t, db)
	op := inState(t, direct, ledger.Running)
	for _, where := range []cut{before, after} {
		cutter.arm(where, false)
		_, err := store.Apply(t.Context(), crediting(op, credit, "cr_1", 5, nil))
		wantError(t, "a write whose answer was lost", err, ledger.ErrUnavailable)
		var refused *ledger.WriteRefusedError
		if errors.As(err, &refused) {
			t.Errorf("it is called refused: %v", err)
		}
	}
	// Neither was committed: the cut came inside the transaction.
	if done := apply(t, store, crediting(op, credit, "cr_1", 5, nil)); done.State != ledger.Succeeded {
		t.Errorf("after two cuts: %s", done.State)
	}
	if n := db.Count(t, `SELECT count(*) FROM credits`); n != 1 {
		t.Errorf("%d credits, want 1", n)
	}
}

// Commits wait for a standby that does not come.
func TestUnreplicatedCommitIsUnsafe(t *testing.T) {
	t.Parallel()
	// Only who asks for it waits: the test itself could not work otherwise.
	server := pgtest.NewServer(t, map[string]string{"synchronous_standby_names": "missing", "synchronous_commit": "local"})
	db := ledgertest.At(t, server.NewDatabase(t, ledgertest.Template()))
	prepare := db.Open(t)
	pending, pendingToo := inState(t, prepare, ledger.Pending), inState(t, prepare, ledger.Pending)
	running, write := inState(t, prepare, ledger.Running), inState(t, prepare, ledger.Running)
	withCredits(t, db)
	admin := db.Owner(t)
	store, err := postgres.Open(t.Context(), db.ServeURL+"&synchronous_commit=on")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	open, lost := ledgertest.Opening(acme), ledgertest.Opening(acme)
	confirm := func() error {
		_, err := store.Apply(t.Context(), ledgertest.Change(running, ledger.Confirm))
		return err
	}
	db.Tenant(t, acme)
	hear := func() error {
		_, err := store.StoreEvents(t.Context(), acme, fakepay, []ledger.InboxEvent{applied("evt_1", "re_1")})
		return err
	}
	const cancel, end = "pg_cancel_backend", "pg_terminate_backend"
	for _, c := range []struct {
		what, how string
		call      func() error
		want      error
	}{
		{"Open, wait cancelled", cancel, func() error { _, _, err := store.Open(t.Context(), open); return err }, ledger.ErrUnsafeCommit},
		{"Start, wait cancelled", cancel, func() error { _, err := store.Start(t.Context(), ledgertest.Claiming(pending)); return err }, ledger.ErrUnsafeCommit},
		{"write, wait cancelled", cancel, func() error {
			_, err := store.Apply(t.Context(), crediting(write, credit, "cr_1", 5, nil))
			return err
		}, ledger.ErrUnsafeCommit},
		{"Apply, wait cancelled", cancel, confirm, ledger.ErrUnsafeCommit},
		{"StoreEvents, wait cancelled", cancel, hear, ledger.ErrUnsafeCommit},
		{"StoreEvents of what is there", cancel, hear, ledger.ErrUnsafeCommit},
		// The row can be read afterwards, but is on the primary only.
		{"Open, backend ended", end, func() error { _, _, err := store.Open(t.Context(), lost); return err }, ledger.ErrUnavailable},
		{"Start, backend ended", end, func() error { _, err := store.Start(t.Context(), ledgertest.Claiming(pendingToo)); return err }, ledger.ErrUnavailable},
	} {
		if c.how == end {
			// The mark does not stick to the connection.
			wantError(t, "Apply again", confirm(), ledger.ErrFenced)
		}
		answer := make(chan error, 1)
		go func() { answer <- c.call() }()
		awaitCount(t, admin, 1, `SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
		if _, err := admin.Exec(t.Context(), `SELECT `+c.how+`(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`); err != nil {
			t.Fatal(err)
		}
		wantError(t, c.what, <-answer, c.want)
	}
	for _, o := range []ledger.Opening{open, lost} {
		if n := db.Count(t, `SELECT count(*) FROM operations WHERE id = $1::uuid AND status = 'running'`, o.Operation.ID); n != 1 {
			t.Errorf("%d rows of operation %s, want the one that is not replicated", n, o.Operation.ID)
		}
	}
}

// A database that acknowledges before it has written is no ledger.
func TestOpenChecksDurability(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	for setting, safe := range map[string]bool{"off": false, "local": true, "remote_write": true, "on": true, "remote_apply": true} {
		store, err := postgres.Open(t.Context(), db.ServeURL+"&synchronous_commit="+setting)
		if (err == nil) != safe {
			t.Errorf("synchronous_commit %s: %v, want safe %v", setting, err, safe)
		}
		if store != nil {
			if err := store.Ping(t.Context()); err != nil {
				t.Error(err)
			}
			store.Close()
		}
	}
}

func TestLaw12_LedgerAway(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t, nil)
	db := ledgertest.At(t, server.NewDatabase(t, ledgertest.Template()))
	store := db.Open(t)
	op, running := inState(t, store, ledger.Pending), inState(t, store, ledger.Running)
	server.Kill(t)
	calls := map[string]func() error{
		"Ping":  func() error { return store.Ping(t.Context()) },
		"Open":  func() error { _, _, err := store.Open(t.Context(), ledgertest.Opening(acme)); return err },
		"Start": func() error { _, err := store.Start(t.Context(), ledgertest.Claiming(op)); return err },
		"Apply": func() error {
			_, err := store.Apply(t.Context(), ledgertest.Change(running, ledger.Confirm))
			return err
		},
		"Correct": func() error {
			f := op
			f.State = ledger.Failed
			_, err := store.Correct(t.Context(), f, ledgertest.Opening(acme))
			return err
		},
		"AddEvidence": func() error {
			_, err := store.AddEvidence(t.Context(), ledger.Evidence{Operation: op})
			return err
		},
		"Get":           func() error { _, err := store.Get(t.Context(), acme, op.ID); return err },
		"GetByKey":      func() error { _, err := store.GetByKey(t.Context(), acme, op.Key); return err },
		"List":          func() error { _, err := store.List(t.Context(), acme, ledger.Filter{}, "", 1); return err },
		"Poll":          func() error { _, err := store.Poll(t.Context(), nil); return err },
		"Arguments":     func() error { _, err := store.Arguments(t.Context(), op); return err },
		"Review":        func() error { _, _, err := store.Review(t.Context(), acme, op.ID); return err },
		"OpenReviews":   func() error { _, err := store.OpenReviews(t.Context(), acme, "", 1); return err },
		"ExpireLeases":  func() error { _, _, err := store.ExpireLeases(t.Context(), 1); return err },
		"DuePending":    func() error { _, err := store.DuePending(t.Context(), 1); return err },
		"LeaseUnknown":  func() error { _, err := store.LeaseUnknown(t.Context(), 1, time.Minute); return err },
		"Postpone":      func() error { _, err := store.Postpone(t.Context(), ledger.Postponement{Operation: op}); return err },
		"LeaseWatched":  func() error { _, err := store.LeaseWatched(t.Context(), 1, time.Minute); return err },
		"EndWatch":      func() error { return store.EndWatch(t.Context(), op) },
		"ExpireReviews": func() error { _, err := store.ExpiredReviews(t.Context(), 1); return err },
		"Sweep":         func() error { _, _, _, err := store.Sweep(t.Context(), 1); return err },
	}
	for name, call := range calls {
		wantError(t, name, call(), ledger.ErrUnavailable)
	}
	// What was acknowledged before the crash is there after it.
	server.Start(t)
	for _, op := range []ledger.Operation{op, running} {
		if got := ledgertest.Get(t, store, op); got.State != op.State || got.Revision != op.Revision {
			t.Errorf("after a crash operation %s is %s", op.ID, got.State)
		}
	}
	// A login that is taken away is the ledger being away, too.
	db.Exec(t, `ALTER ROLE onceward_test_serve NOLOGIN; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'onceward_test_serve'`)
	_, _, err := store.Open(t.Context(), ledgertest.Opening(acme))
	wantError(t, "Open without a login", err, ledger.ErrUnavailable)
}
