package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/pgtest"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// watch notes what a store tells.
type watch struct {
	unanswered atomic.Int64

	mu      sync.Mutex
	batches []string // lane and rows
	refused []ledger.Lane
	looks   []ledger.Found
}

var _ postgres.Observer = (*watch)(nil)

func (w *watch) Batch(lane ledger.Lane, rows int, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := fmt.Sprintf("%d %s", rows, lane)
	if took <= 0 {
		text += " in no time"
	}
	w.batches = append(w.batches, text)
}

func (w *watch) Overloaded(lane ledger.Lane) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = append(w.refused, lane)
}

func (w *watch) AmbiguousCommit(found ledger.Found) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks = append(w.looks, found)
}

func (w *watch) Unanswered() { w.unanswered.Add(1) }

func (w *watch) found() []ledger.Found {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.looks)
}

func (w *watch) told() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.batches, ", ")
}

// What is refused and what is in each other's way is answered: it is no ledger
// that is away.
func TestObserved(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	watch := &watch{}
	store, err := postgres.Open(t.Context(), db.ServeURL, postgres.ObservedBy(watch))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	op := inState(t, store, ledger.Running)
	apply(t, store, ledgertest.Change(op, ledger.Confirm))
	_, err = store.Apply(t.Context(), ledgertest.Change(op, ledger.Confirm))
	wantError(t, "a second settlement", err, ledger.ErrFenced)
	_, err = store.GetByKey(t.Context(), acme, "nobody's")
	wantError(t, "a key that nobody holds", err, ledger.ErrNotFound)
	if _, err := store.Get(t.Context(), acme, "no uuid"); err == nil {
		t.Error("an id that is none is found")
	}
	if got, want := watch.told(), "1 writes, 1 writes, 1 writes, 1 reads"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
	if n, looks := watch.unanswered.Load(), watch.found(); n != 0 || len(looks) != 0 {
		t.Errorf("%d statements without an answer, and looks that found %v", n, looks)
	}
	if load := store.Load(); load.Waiting != [ledger.Lanes]int{} || load.Idle == 0 || load.Used != 0 || load.Limit != 8+7+2 {
		t.Errorf("load %+v", load)
	}
}

// A look needs no connection of those that requests use.
func TestLookBesideAPoolThatIsUsedUp(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	store, err := postgres.Open(t.Context(), db.ServeURL+"&pool_max_conns=1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	holder := db.Owner(t)
	if _, err := holder.Exec(t.Context(), `BEGIN; LOCK TABLE tombstones IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	asking := make(chan error, 1)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	go func() { _, err := store.Buried(ctx, acme, "k"); asking <- err }()
	awaitCount(t, db.Owner(t), 1, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`)
	if load := store.Load(); load.Used != 1 {
		t.Errorf("load %+v, want a connection in use", load)
	}
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := store.Look(soon); err != nil {
		t.Errorf("Look: %v", err)
	}
	if _, err := store.Census(soon); err != nil {
		t.Errorf("Census: %v", err)
	}
	leave()
	wantError(t, "a request that waits for a connection", <-asking, ledger.ErrUnavailable)
}

func TestLook(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t, nil)
	db := ledgertest.At(t, server.NewDatabase(t, ledgertest.Template()))
	watch := &watch{}
	store, err := postgres.Open(t.Context(), db.ServeURL, postgres.ObservedBy(watch))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	look := func() (restored bool) {
		t.Helper()
		restored, err := store.Look(t.Context())
		if err != nil {
			t.Error(err)
		}
		return restored
	}
	fails := func(what string, want error) {
		t.Helper()
		_, err := store.Look(t.Context())
		wantError(t, "Look at "+what, err, want)
	}
	if look() {
		t.Error("nothing was restored")
	}
	db.Exec(t, `INSERT INTO restores (id, lost_from, lost_until, begun_by) VALUES (gen_random_uuid(), now() - interval '1 hour', now(), 'test')`)
	if !look() {
		t.Error("a restore is in force, and Look does not see it")
	}
	if census, err := store.Census(t.Context()); err != nil || census.Restores != 1 {
		t.Errorf("the census has %d restores, %v", census.Restores, err)
	}
	db.Exec(t, `UPDATE restores SET ended_at = now(), ended_by = 'test'`)
	if look() {
		t.Error("the restore has ended")
	}
	db.Exec(t, `ALTER TYPE review_row ADD ATTRIBUTE another text`)
	fails("another schema", postgres.ErrOldSchema)
	db.Exec(t, `ALTER TYPE review_row DROP ATTRIBUTE another`)
	db.Exec(t, `ALTER TABLE restores RENAME TO gone`)
	fails("a schema from before there were restores", postgres.ErrOldSchema)
	if n := watch.unanswered.Load(); n != 0 {
		t.Errorf("%d statements without an answer", n)
	}
	server.Kill(t)
	fails("a ledger that is away", ledger.ErrUnavailable)
	_, err = store.Census(t.Context())
	wantError(t, "Census of a ledger that is away", err, ledger.ErrUnavailable)
	if n := watch.unanswered.Load(); n < 2 {
		t.Errorf("%d statements without an answer, want those two at least", n)
	}
	if looks := watch.found(); len(looks) > 0 {
		t.Errorf("nothing was written, and looks found %v", looks)
	}
}
