package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// patient opens a store that waits for a lock as long as a test holds it.
func patient(t *testing.T) (*postgres.Store, ledgertest.Database) {
	t.Helper()
	db := ledgertest.NewDatabase(t)
	return patientAt(t, db.ServeURL), db
}

func patientAt(t *testing.T, url string) *postgres.Store {
	t.Helper()
	store, err := postgres.Open(t.Context(), url+"&lock_timeout=0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// heldBack is how many operations held opens.
const heldBack = 1 + postgres.WriteCrowd

// held keeps all writes of a database waiting until release is called, with as
// many of the store's transactions under way as there can be: what is written
// meanwhile waits together. release waits for those.
func held(t *testing.T, store *postgres.Store, db ledgertest.Database) (release func()) {
	t.Helper()
	return heldWith(t, store, db, postgres.WriteCrowd)
}

// heldWith is held with so many openings after the first one. With none there is
// one transaction under way, and fewer than a crowd can wait for the next.
func heldWith(t *testing.T, store *postgres.Store, db ledgertest.Database, more int) (release func()) {
	t.Helper()
	conn, watch := db.Owner(t), db.Owner(t)
	if _, err := conn.Exec(t.Context(), `BEGIN; LOCK TABLE operations IN EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	open := func() {
		if _, created, err := store.Open(context.WithoutCancel(t.Context()), ledgertest.Opening(acme)); err != nil || !created {
			t.Errorf("an operation that was held back: created %v, %v", created, err)
		}
	}
	const waiting = `SELECT count(DISTINCT pid) FROM pg_locks WHERE relation = 'operations'::regclass AND NOT granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	all.Go(open)
	awaitCount(t, watch, 1, waiting)
	for range more {
		all.Go(open)
	}
	if more > 0 {
		awaitCount(t, watch, 2, waiting)
	}
	return func() {
		t.Helper()
		if _, err := conn.Exec(t.Context(), `ROLLBACK`); err != nil {
			t.Fatal(err)
		}
		all.Wait()
	}
}

// together does things at once, and returns when each has taken its place in
// the store's queue.
func together(t *testing.T, store *postgres.Store, n int, do func(i int)) *sync.WaitGroup {
	t.Helper()
	before := store.Waiting()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	for deadline := time.Now().Add(20 * time.Second); store.Waiting() < before+n; {
		if time.Now().After(deadline) {
			t.Fatalf("%d writes wait, want %d", store.Waiting(), before+n)
		}
		time.Sleep(time.Millisecond)
	}
	return &all
}

func TestWritesThatWaitShareOneTransaction(t *testing.T) {
	t.Parallel()
	store, db := patient(t)
	running := make([]ledger.Operation, 20)
	for i := range running {
		running[i] = inState(t, store, ledger.Running)
	}
	release := held(t, store, db)
	ops := make([]ledger.Operation, 40)
	all := together(t, store, len(ops), func(i int) {
		var err error
		if i < len(running) {
			ops[i], err = store.Apply(t.Context(), ledgertest.Change(running[i], ledger.Confirm))
		} else {
			ops[i], _, err = store.Open(t.Context(), ledgertest.Opening(acme))
		}
		if err != nil {
			t.Error(err)
		}
	})
	release()
	all.Wait()
	if n := db.Count(t, `SELECT count(DISTINCT xmin::text) FROM operations WHERE id::text = ANY ($1)`, ids(ops)); n != 1 {
		t.Errorf("%d writes were made in %d transactions, want one", len(ops), n)
	}
	// Each caller got its own result.
	for i, op := range ops {
		if want := ledgertest.Get(t, store, op); op.State != want.State || op.Revision != want.Revision || (i < len(running)) != (op.State == ledger.Succeeded) {
			t.Errorf("caller %d was told %s at revision %d; the ledger has %s at %d", i, op.State, op.Revision, want.State, want.Revision)
		}
	}
}

// What Open returns is made up from what it was given and the database's time:
// it must be what is stored.
func TestOpenReturnsWhatIsStored(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	bare := ledgertest.Opening(acme)
	bare.Operation.Run, bare.Operation.IntentID, bare.Start.Horizon, bare.Start.Lease = ledger.Run{}, "", 0, 1500*time.Nanosecond
	full := ledgertest.Opening(acme)
	full.Operation.IntentID, full.Operation.DistinctFrom, full.ExpiredKeyReuse = "refund:42", ledgertest.ID(), true
	full.Operation.Run = ledger.Run{RunID: "ä\"\\", StepID: "s", Attempt: 3, ToolCallID: "call", ToolVersion: "v", Agent: "a"}
	for what, o := range map[string]ledger.Opening{
		"claimed": ledgertest.Opening(acme), "recorded": ledgertest.Recorded(acme), "asked": ledgertest.Asked(acme), "bare": bare, "full": full,
	} {
		op, created, err := store.Open(t.Context(), o)
		if err != nil || !created {
			t.Fatalf("%s: created %v, %v", what, created, err)
		}
		stored, err := store.GetByKey(t.Context(), acme, o.Operation.Key)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(op, stored) {
			t.Errorf("%s: Open returned\n%+v\nthe ledger has\n%+v", what, op, stored)
		}
	}
}

func TestBadRowFailsAlone(t *testing.T) {
	t.Parallel()
	store, db := patient(t)
	sound := inState(t, store, ledger.Running)
	bad := map[int]ledger.Opening{}
	for i, spoil := range []func(*ledger.Opening){
		func(o *ledger.Opening) { o.Operation.Key = strings.Repeat("k", 300) },
		func(o *ledger.Opening) { o.Operation.RequestedBy = "nul \x00 in it" },
		func(o *ledger.Opening) { o.Operation.ID = "no uuid" },
		func(o *ledger.Opening) { o.Sealed = nil },
		func(o *ledger.Opening) { o.Window = -time.Hour },
	} {
		o := ledgertest.Opening(acme)
		spoil(&o)
		bad[3+7*i] = o
	}
	release := held(t, store, db)
	all := together(t, store, 50, func(i int) {
		var err error
		o, spoiled := bad[i]
		switch {
		case i == 5:
			_, err = store.Apply(t.Context(), ledgertest.Change(sound, ledger.Confirm))
		case spoiled:
			_, _, err = store.Open(t.Context(), o)
		default:
			var created bool
			_, created, err = store.Open(t.Context(), ledgertest.Opening(acme))
			if !created {
				t.Errorf("caller %d: not created, %v", i, err)
			}
		}
		if (err != nil) != spoiled {
			t.Errorf("caller %d, bad %v: %v", i, spoiled, err)
		}
		if spoiled && errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("caller %d is told that the ledger is away: %v", i, err)
		}
	})
	release()
	all.Wait()
	if n := db.Count(t, `SELECT count(*) FROM operations`); n != heldBack+1+50-1-len(bad) {
		t.Errorf("%d operations, want those of the sound rows", n)
	}
}

// The same key several times in one batch is made once; the others get it.
func TestTwinsInOneBatch(t *testing.T) {
	t.Parallel()
	store, db := patient(t)
	one := ledgertest.Opening(acme)
	running := inState(t, store, ledger.Running)
	var created, moved, fenced int
	var mu sync.Mutex
	release := held(t, store, db)
	all := together(t, store, 30, func(i int) {
		if i%3 == 0 {
			_, err := store.Apply(t.Context(), ledgertest.Change(running, ledger.Confirm))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				moved++
			case errors.Is(err, ledger.ErrFenced):
				fenced++
			default:
				t.Error(err)
			}
			return
		}
		twin := one
		twin.Operation.ID = ledgertest.ID()
		op, made, err := store.Open(t.Context(), twin)
		mu.Lock()
		defer mu.Unlock()
		if err != nil || op.Key != one.Operation.Key || made != (op.ID == twin.Operation.ID) {
			t.Errorf("twin %d: created %v, %v", i, made, err)
		}
		if made {
			created++
		}
	})
	release()
	all.Wait()
	if created != 1 || moved != 1 || fenced != 9 {
		t.Errorf("created %d, moved %d, fenced %d; want 1, 1 and 9", created, moved, fenced)
	}
}

func TestCallerWhoLeavesTakesItsWriteBack(t *testing.T) {
	t.Parallel()
	store, db := patient(t)
	release := held(t, store, db)
	ctx, leave := context.WithCancel(t.Context())
	o := ledgertest.Opening(acme)
	all := together(t, store, 1, func(int) {
		_, created, err := store.Open(ctx, o)
		if created || !errors.Is(err, ledger.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("created %v, %v; want it given up", created, err)
		}
	})
	leave()
	all.Wait()
	release()
	if _, err := store.GetByKey(t.Context(), acme, o.Operation.Key); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("a write that was taken back: %v", err)
	}
}

// Once it is on its way its caller waits for it: nothing is made unseen.
func TestCallerWhoLeavesInFlightIsToldTheOutcome(t *testing.T) {
	t.Parallel()
	store, db := patient(t)
	conn := db.Owner(t)
	if _, err := conn.Exec(t.Context(), `BEGIN; LOCK TABLE operations IN EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	told := make(chan error, 1)
	go func() {
		_, created, err := store.Open(ctx, ledgertest.Opening(acme))
		if !created {
			err = errors.Join(errors.New("not created"), err)
		}
		told <- err
	}()
	awaitCount(t, db.Owner(t), 1, `SELECT count(*) FROM pg_locks WHERE relation = 'operations'::regclass AND NOT granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	leave()
	if _, err := conn.Exec(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	if err := <-told; err != nil {
		t.Error(err)
	}
}

func TestTooManyNewOperationsAreRefused(t *testing.T) {
	t.Parallel()
	store, db := patient(t)
	running := inState(t, store, ledger.Running)
	release := held(t, store, db)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var all sync.WaitGroup
	for store.Waiting() < postgres.MaxWaiting { // some of them are in a second flight
		all.Go(func() {
			_, _, err := store.Open(ctx, ledgertest.Opening(acme))
			if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ledger.ErrOverloaded) {
				t.Error(err)
			}
		})
	}
	_, _, err := store.Open(t.Context(), ledgertest.Opening(acme))
	wantError(t, "one more", err, ledger.ErrOverloaded)
	// What is under way is not refused.
	settled := together(t, store, 1, func(int) {
		if _, err := store.Apply(t.Context(), ledgertest.Change(running, ledger.Confirm)); err != nil {
			t.Error(err)
		}
	})
	leave()
	release()
	settled.Wait()
	all.Wait()
}

// Replicas that open and settle the same keys in opposite orders.
func TestReplicasNeverDeadlock(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	const replicas, keys, rounds = 6, 60, 8
	stores := make([]*postgres.Store, replicas)
	for i := range stores {
		stores[i] = patientAt(t, db.ServeURL) // a lock that is given up would hide a deadlock
	}
	for round := range rounds {
		var all sync.WaitGroup
		for i, store := range stores {
			order := make([]int, keys)
			for k := range order {
				order[k] = (k*(i+1) + round) % keys
			}
			if i%2 == 1 {
				slices.Reverse(order)
			}
			for _, k := range order {
				all.Go(func() {
					o := ledgertest.Opening(acme)
					o.Operation.Key = fmt.Sprintf("key-%d-%02d", round, k)
					op, _, err := store.Open(t.Context(), o)
					if err != nil {
						t.Error(err)
						return
					}
					if op.State == ledger.Running {
						_, err = store.Apply(t.Context(), ledgertest.Change(op, ledger.Confirm))
					}
					if err != nil && !errors.Is(err, ledger.ErrFenced) {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
	}
	if n := db.Count(t, `SELECT count(*) FROM operations WHERE status = 'succeeded' AND attempt = 1`); n != keys*rounds {
		t.Errorf("%d operations succeeded, want %d", n, keys*rounds)
	}
	if n := db.Count(t, `SELECT count(*) FROM audit_events`); n != 2*keys*rounds {
		t.Errorf("%d audit events, want two for each operation", n)
	}
	// Connections that end report what they met.
	for _, store := range stores {
		store.Close()
	}
	awaitCount(t, db.Owner(t), 0, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'onceward'`)
	if n := db.Count(t, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// A batch whose commit was not answered: each of its callers learns whether its
// own operation is there.
func TestLostAnswerOfBatch(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	store, cutter := throughCutter(t, db)
	warm := inState(t, store, ledger.Running)
	taken := inState(t, store, ledger.Running)
	release := heldWith(t, store, db, 0) // its statement is on the way before the cut is armed
	all := together(t, store, 10, func(i int) {
		switch i {
		case 0:
			_, err := store.Apply(t.Context(), ledgertest.Change(warm, ledger.Confirm))
			wantError(t, "a change whose answer was lost", err, ledger.ErrUnavailable)
		case 1:
			twin := same(taken)
			twin.Operation.ID = ledgertest.ID()
			if op, created, err := store.Open(t.Context(), twin); created || (err == nil && op.ID != taken.ID) {
				t.Errorf("a key that was taken before: created %v of %s, %v", created, op.ID, err)
			}
		default:
			o := ledgertest.Opening(acme)
			if op, created, err := store.Open(t.Context(), o); err != nil || !created || op.ID != o.Operation.ID || op.State != ledger.Running {
				t.Errorf("an opening whose answer was lost: created %v, %v", created, err)
			}
		}
	})
	cutter.arm(after, false)
	release()
	all.Wait()
	if cuts := cutter.repair(); cuts != 1 {
		t.Fatalf("%d connections were cut, want 1: the test tests nothing", cuts)
	}
	if got := ledgertest.Get(t, store, warm); got.State != ledger.Succeeded {
		t.Errorf("the change was made, and the ledger has %s", got.State)
	}
}

// A row that somebody holds does not hold up those who want other rows.
func TestHeldRowFailsAlone(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	ops := make([]ledger.Operation, 12)
	for i := range ops {
		ops[i] = inState(t, store, ledger.Running)
	}
	const stuck = 7
	person := db.Owner(t)
	if _, err := person.Exec(t.Context(), `BEGIN`); err != nil {
		t.Fatal(err)
	}
	if _, err := person.Exec(t.Context(), `SELECT FROM operations WHERE id = $1::uuid FOR UPDATE`, ops[stuck].ID); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i, op := range ops {
		all.Go(func() {
			_, err := store.Apply(t.Context(), ledgertest.Change(op, ledger.Confirm))
			if i == stuck {
				wantError(t, "the row that is held", err, ledger.ErrUnavailable)
			} else if err != nil {
				t.Errorf("another row: %v", err)
			}
		})
	}
	all.Wait()
	if _, err := person.Exec(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	apply(t, store, ledgertest.Change(ops[stuck], ledger.Confirm))
}
