package postgres_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
)

func TestLaw08_UnfinishedOperationsAreNeverSwept(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	var unfinished, kept []ledger.Operation
	for _, reuse := range []bool{true, false} {
		for _, state := range ledger.States() {
			o := ledgertest.Recorded(acme)
			o.ExpiredKeyReuse = reuse
			op := ledgertest.Brought(t, store, ledgertest.Open(t, store, o), state)
			if !state.Final() {
				db.Age(t, op, 100*365*24*time.Hour)
				unfinished = append(unfinished, op)
			}
			kept = append(kept, op) // the finished ones are inside their window
		}
	}
	for _, reuse := range []bool{true, false} {
		o := ledgertest.Opening(acme)
		o.ExpiredKeyReuse = reuse
		watched := ledgertest.Change(ledgertest.Open(t, store, o), ledger.Refuse)
		watched.Watch = 2 * ledgertest.Window
		op := apply(t, store, watched)
		db.Age(t, op, ledgertest.Window+time.Hour)
		kept = append(kept, op)
	}
	// The first time puts those off that were due and cannot go.
	if buried, swept, _, err := store.Sweep(t.Context(), 1000); err != nil || buried != 0 || swept != 0 {
		t.Errorf("buried %d, swept %d, %v; want nothing", buried, swept, err)
	}
	before := map[string]string{}
	for _, op := range kept {
		before[op.ID] = everything(t, db, op)
	}
	for range 3 {
		if buried, swept, _, err := store.Sweep(t.Context(), 1000); err != nil || buried != 0 || swept != 0 {
			t.Errorf("buried %d, swept %d, %v; want nothing", buried, swept, err)
		}
	}
	for _, op := range kept {
		if after := everything(t, db, op); after != before[op.ID] {
			t.Errorf("sweeping changed a %s operation from\n%s\nto\n%s", op.State, before[op.ID], after)
		}
	}
	// A hundred years later the key still belongs to its operation (R31).
	for _, op := range unfinished {
		if got, created, err := store.Open(t.Context(), same(op)); err != nil || created || got.ID != op.ID {
			t.Errorf("the key of a %s operation: %s, created %v, %v", op.State, got.ID, created, err)
		}
	}
}

func TestSweepLeavesTombstonesWhereKeysAreRefused(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	finished := func(reuse bool) ledger.Operation {
		o := ledgertest.Opening(acme)
		o.ExpiredKeyReuse = reuse
		op := ledgertest.Moved(t, store, ledgertest.Open(t, store, o), ledger.Confirm)
		db.Age(t, op, ledgertest.Window+time.Second)
		return op
	}
	free, refused, refusedToo := finished(true), finished(false), finished(false)
	db.Age(t, free, time.Hour) // so that it is the first

	sweep := func(limit int, wantBuried, wantSwept int64) {
		t.Helper()
		buried, swept, _, err := store.Sweep(t.Context(), limit)
		if err != nil || buried != wantBuried || swept != wantSwept {
			t.Errorf("buried %d and swept %d, %v; want %d and %d", buried, swept, err, wantBuried, wantSwept)
		}
	}
	sweep(1, 0, 1) // one at a time; a tombstone rests before its row goes
	sweep(1, 1, 0)
	sweep(10, 1, 0)
	sweep(10, 0, 0)
	for _, op := range []ledger.Operation{refused, refusedToo} {
		_, _, err := store.Open(t.Context(), same(op))
		wantError(t, "key with a tombstone, row there", err, ledger.ErrKeyExpired)
		db.Age(t, op, time.Minute)
	}
	sweep(10, 0, 2)
	for _, op := range []ledger.Operation{free, refused, refusedToo} {
		if _, err := store.Get(t.Context(), acme, op.ID); err == nil {
			t.Errorf("operation %s is still there", op.ID)
		}
		if len(db.Audit(t, op)) != 2 {
			t.Errorf("the audit record of operation %s is not", op.ID)
		}
	}
	for _, event := range []ledger.Event{ledger.Claim, ledger.Record, ledger.Escalate} {
		o := same(refused)
		o.Event, o.Review = event, ledgertest.Review(ledger.ApprovalRequired)
		_, created, err := store.Open(t.Context(), o)
		wantError(t, "key with a tombstone", err, ledger.ErrKeyExpired)
		if created {
			t.Error("created under a tombstone")
		}
	}
	if _, created, err := store.Open(t.Context(), same(free)); err != nil || !created {
		t.Errorf("a key that may be used again: created %v, %v", created, err)
	}
	elsewhere := same(refused)
	elsewhere.Operation.Tenant = "other"
	if _, created, err := store.Open(t.Context(), elsewhere); err != nil || !created {
		t.Errorf("another tenant's key: created %v, %v", created, err)
	}
	var hash, args []byte
	if err := db.Owner(t).QueryRow(t.Context(), `SELECT key_hash, args_hash FROM tombstones WHERE tenant_id = $1 AND operation_id = $2::uuid AND status = 'succeeded' AND provider_reference = $3`,
		acme, refused.ID, ledgertest.Reference).Scan(&hash, &args); err != nil {
		t.Fatalf("the tombstone: %v", err)
	}
	if ledger.Hash(hash) != ledgertest.Hash(refused.Key) || ledger.Hash(args) != refused.ArgsHash {
		t.Errorf("the tombstone holds key hash %x and arguments hash %x", hash, args)
	}
}

// What another replica works on is left to it, without waiting.
func TestLockedRowsAreSkipped(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	opening := ledgertest.Opening(acme)
	opening.ExpiredKeyReuse = true
	watched := ledgertest.Change(inState(t, store, ledger.Running), ledger.Refuse)
	watched.Watch = time.Hour
	running, unknown := inState(t, store, ledger.Running), inState(t, store, ledger.Unknown)
	done, late := ledgertest.Moved(t, store, ledgertest.Open(t, store, opening), ledger.Confirm), apply(t, store, watched)
	db.Age(t, running, ledgertest.Lease)
	db.Age(t, done, ledgertest.Window)

	other := db.Owner(t)
	taken := func() map[string]int {
		expired, _, err := store.ExpireLeases(ctx, 10)
		leased, err2 := store.LeaseUnknown(ctx, 10, time.Minute)
		landing, err3 := store.LeaseWatched(ctx, 10, time.Minute)
		_, swept, _, err4 := store.Sweep(ctx, 10)
		if err := errors.Join(err, err2, err3, err4); err != nil {
			t.Fatal(err)
		}
		return map[string]int{"expired": len(expired), "leased": len(leased), "watched": len(landing), "swept": int(swept)}
	}
	if _, err := other.Exec(ctx, `BEGIN; SELECT FROM operations FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if got, want := taken(), map[string]int{"expired": 0, "leased": 0, "watched": 0, "swept": 0}; !maps.Equal(got, want) {
		t.Errorf("took %v of what is locked", got)
	}
	if _, err := other.Exec(ctx, `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	// What was locked is looked at again a moment later.
	db.Age(t, running, time.Second)
	// The one that is expired is unknown then, and leased as well.
	if got, want := taken(), map[string]int{"expired": 1, "leased": 2, "watched": 1, "swept": 1}; !maps.Equal(got, want) {
		t.Errorf("took %v when nothing was locked, want %v of %s %s %s %s", got, want, running.ID, unknown.ID, late.ID, done.ID)
	}
}

func TestExpireLeases(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	held := inState(t, store, ledger.Running)
	var due []string
	for i := range 3 {
		op := inState(t, store, ledger.Running)
		db.Age(t, op, ledgertest.Lease+time.Duration(3-i)*time.Second)
		due = append(due, op.ID)
	}
	var expired []ledger.Operation
	for range 3 {
		ops, _, err := store.ExpireLeases(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(ops) > 2 {
			t.Errorf("expired %d at once, want 2 at most", len(ops))
		}
		expired = append(expired, ops...)
	}
	got := ids(expired)
	slices.Sort(got)
	slices.Sort(due)
	if !slices.Equal(got, due) {
		t.Errorf("expired %v, want %v", got, due)
	}
	for _, op := range expired {
		op = ledgertest.Get(t, store, op)
		if op.State != ledger.Unknown || op.LastEvent != ledger.Doubt || op.Effect != ledger.EffectUnknown || op.Reason != "lease_expired" ||
			!op.InDoubt || op.DoubtedAt.IsZero() || op.NextAttemptAt.IsZero() || !op.LeaseExpiresAt.IsZero() || op.Attempts[0].Outcome != "lease_expired" {
			t.Errorf("expired to %+v", op)
		}
	}
	if got := ledgertest.Get(t, store, held); got.State != ledger.Running {
		t.Errorf("a lease that holds became %s", got.State)
	}
}

func TestDuePending(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	later := ledgertest.Change(inState(t, store, ledger.Running), ledger.Defer)
	later.Delay = time.Hour
	apply(t, store, later)
	first, second := inState(t, store, ledger.Pending), inState(t, store, ledger.Pending)
	db.Age(t, second, time.Minute)
	inState(t, store, ledger.Unknown)
	if due, err := store.DuePending(t.Context(), 10); err != nil || !slices.Equal(ids(due), []string{second.ID, first.ID}) {
		t.Errorf("due %v, %v; want %v", ids(due), err, []string{second.ID, first.ID})
	}
	if due, err := store.DuePending(t.Context(), 1); err != nil || !slices.Equal(ids(due), []string{second.ID}) {
		t.Errorf("due at most 1: %v, %v", ids(due), err)
	}
	put, err := store.Postpone(t.Context(), ledger.Postponement{Operation: second, Delay: time.Hour, Reason: "no adapter"})
	if err != nil || put.Reason != "no adapter" || put.State != ledger.Pending {
		t.Errorf("postponed %+v, %v", put, err)
	}
	if due, err := store.DuePending(t.Context(), 10); err != nil || !slices.Equal(ids(due), []string{first.ID}) {
		t.Errorf("due after a postponement: %v, %v", ids(due), err)
	}
}

func TestLeaseUnknownSharesTheWork(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	later := ledgertest.Change(inState(t, store, ledger.Running), ledger.Doubt)
	later.Delay = time.Hour
	apply(t, store, later)
	want := map[string]int{}
	for range 12 {
		want[inState(t, store, ledger.Unknown).ID] = 1
	}
	var mu sync.Mutex
	got := map[string]int{}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				ops, err := store.LeaseUnknown(t.Context(), 3, time.Minute)
				if err != nil || len(ops) > 3 {
					t.Errorf("leased %d, %v", len(ops), err)
				}
				mu.Lock()
				for _, id := range ids(ops) {
					got[id]++
				}
				done := len(got) >= len(want)
				mu.Unlock()
				if done || t.Failed() {
					return
				}
			}
		})
	}
	all.Wait()
	for id, n := range got {
		if want[id] != n {
			t.Errorf("operation %s was leased %d times, want %d", id, n, want[id])
		}
	}
	if n := db.Count(t, `SELECT count(*) FROM operations WHERE lease = 1 AND lease_expires_at > clock_timestamp()`); n != 12 {
		t.Errorf("%d leases, want 12", n)
	}
}

func TestPostponeGivesTheLeaseBack(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	leased := ledgertest.Leased(t, store, inState(t, store, ledger.Unknown))
	put, err := store.Postpone(t.Context(), ledger.Postponement{Operation: leased, Delay: time.Minute, Reason: "settling", NegativeReads: 2, ProviderReference: "re_hint"})
	if err != nil || !put.LeaseExpiresAt.IsZero() || put.NegativeReads != 2 || put.Reason != "settling" || put.ProviderReference != "re_hint" || put.Resolves != 1 || put.State != ledger.Unknown {
		t.Errorf("postponed %+v, %v", put, err)
	}
	if again, err := store.LeaseUnknown(t.Context(), 10, time.Minute); err != nil || len(again) != 0 {
		t.Errorf("leased before its time: %v, %v", ids(again), err)
	}
	db.Age(t, put, time.Minute)
	next := ledgertest.Leased(t, store, put)
	if next.Lease != leased.Lease+1 || next.Resolves != 2 || next.NegativeReads != 2 {
		t.Errorf("leased again as %+v", next)
	}
	for _, state := range []ledger.State{ledger.Running, ledger.Succeeded, ledger.NeedsReview} {
		op := inState(t, store, state)
		unchanged(t, db, op, "a postponement", func() {
			_, err := store.Postpone(t.Context(), ledger.Postponement{Operation: op, Delay: time.Minute})
			wantError(t, "postponing what is "+string(state), err, ledger.ErrFenced)
		})
	}
}

func TestExpiredReviews(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	asked := func(expires time.Duration) ledger.Operation {
		o := ledgertest.Asked(acme)
		o.Review.ExpiresIn = expires
		return ledgertest.Open(t, store, o)
	}
	never, later, lapsed, decided := asked(0), asked(time.Hour), asked(time.Minute), asked(time.Minute)
	ledgertest.Moved(t, store, decided, ledger.Approve)
	for _, op := range []ledger.Operation{never, later, lapsed, decided} {
		db.Age(t, op, 2*time.Minute)
	}
	due, err := store.ExpiredReviews(t.Context(), 10)
	if err != nil || !slices.Equal(ids(due), []string{lapsed.ID}) {
		t.Fatalf("lapsed %v, %v; want %s", ids(due), err, lapsed.ID)
	}
	if op := ledgertest.Moved(t, store, due[0], ledger.Expire); op.State != ledger.Failed || op.Review.Decision != ledger.Expired || op.Effect != ledger.EffectNone {
		t.Errorf("lapsed to %+v", op)
	}
}
