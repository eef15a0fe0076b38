package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
)

func TestOpenRecordsWhatItWasGiven(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	earlier := inState(t, store, ledger.Succeeded)
	for _, o := range []ledger.Opening{ledgertest.Opening(acme), ledgertest.Recorded(acme), ledgertest.Asked(acme)} {
		o.Operation.IntentID, o.Operation.DistinctFrom = "refund:order-42", earlier.ID
		op, created, err := store.Open(t.Context(), o)
		if err != nil || !created {
			t.Fatalf("%s: created %v, %v", o.Event, created, err)
		}
		want := o.Operation
		want.State, _ = ledger.Next(ledger.New, o.Event)
		want.LastEvent, want.Effect, want.Revision, want.Stage = o.Event, ledger.EffectNone, 1, ledger.StageReconcile
		if o.Event == ledger.Claim {
			want.Effect, want.Attempt = ledger.EffectUnknown, 1
		}
		// What the database's clock decides is checked below.
		want.CreatedAt, want.UpdatedAt = op.CreatedAt, op.UpdatedAt
		want.FirstSentAt, want.LastSentAt, want.KeyHorizon, want.LeaseExpiresAt, want.NextAttemptAt = op.FirstSentAt, op.LastSentAt, op.KeyHorizon, op.LeaseExpiresAt, op.NextAttemptAt
		if got, want := fmt.Sprintf("%+v", shown(op)), fmt.Sprintf("%+v", shown(want)); got != want {
			t.Errorf("%s: opened\n%s\nwant\n%s", o.Event, got, want)
		}
		if sealed, err := store.Arguments(t.Context(), op); err != nil || string(sealed) != string(o.Sealed) {
			t.Errorf("%s: sealed arguments %q, %v", o.Event, sealed, err)
		}
		again := ledgertest.Get(t, store, op)
		if (o.Event == ledger.Claim) != (len(again.Attempts) == 1) || (o.Event == ledger.Escalate) != again.Review.Open() {
			t.Errorf("%s: %d attempts, review %+v", o.Event, len(again.Attempts), again.Review)
		}
		if (o.Event == ledger.Record) != !op.NextAttemptAt.IsZero() || !op.WindowEndsAt.IsZero() {
			t.Errorf("%s: next attempt %v, window %v", o.Event, op.NextAttemptAt, op.WindowEndsAt)
		}
		if events := db.Audit(t, op); len(events) != 1 || events[0].Actor != o.Operation.RequestedBy {
			t.Errorf("%s: audit record %+v", o.Event, events)
		}
	}
}

// shown is an operation with its pointers followed.
func shown(op ledger.Operation) any {
	var request ledger.Hash
	if op.RequestHash != nil {
		request = *op.RequestHash
	}
	op.RequestHash = nil
	return []any{op, request}
}

func TestOpenOnlyByItsThreeEvents(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	for _, event := range ledger.Events() {
		if _, legal := ledger.Next(ledger.New, event); legal {
			continue
		}
		o := ledgertest.Opening(acme)
		o.Event = event
		_, _, err := store.Open(t.Context(), o)
		wantError(t, "opening by "+string(event), err, ledger.ErrIllegalMove)
	}
	if n := db.Count(t, `SELECT count(*) FROM operations`); n != 0 {
		t.Errorf("there are %d operations, want none", n)
	}
}

// same is another request with the key of an operation.
func same(op ledger.Operation) ledger.Opening {
	o := ledgertest.Opening(op.Tenant)
	o.Operation.Key = op.Key
	return o
}

func TestLaw05_StoreRefusesOtherArgumentsInEveryState(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	for _, state := range ledger.States() {
		op := inState(t, store, state)
		for _, event := range []ledger.Event{ledger.Claim, ledger.Record, ledger.Escalate} {
			changed := map[string]func(*ledger.Operation){
				"arguments":   func(o *ledger.Operation) { o.ArgsHash = ledgertest.Hash("other") },
				"action type": func(o *ledger.Operation) { o.ActionType = "demo.invoice.create" },
			}
			for what, change := range changed {
				o := same(op)
				o.Event, o.Review = event, ledgertest.Review(ledger.ApprovalRequired)
				change(&o.Operation)
				unchanged(t, db, op, "a request with another "+what, func() {
					_, created, err := store.Open(t.Context(), o)
					var reused *ledger.KeyReusedError
					if !errors.As(err, &reused) || created {
						t.Fatalf("%s, other %s: created %v, error %v, want KeyReusedError", state, what, created, err)
					}
					if reused.Existing.ID != op.ID || reused.Existing.State != state || reused.Existing.Revision != op.Revision {
						t.Errorf("%s: the error names %+v", state, reused.Existing)
					}
				})
			}
		}
		// The same request is answered from the ledger, with the receipt as it was.
		unchanged(t, db, op, "a duplicate", func() {
			got, created, err := store.Open(t.Context(), same(op))
			if err != nil || created || got.ID != op.ID || got.State != state || string(got.Receipt) != string(op.Receipt) {
				t.Errorf("%s: a duplicate got %+v, created %v, %v", state, got, created, err)
			}
		})
	}
	if n := db.Count(t, `SELECT count(*) FROM operations`); n != len(ledger.States()) {
		t.Errorf("there are %d operations, want %d", n, len(ledger.States()))
	}
}

// Keys are compared byte by byte, per tenant.
func TestLaw10_KeysOfTenantsDoNotMeet(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	for _, pair := range [][2]string{{acme, "Key"}, {acme, "key"}, {acme, "key "}, {"other", "key"}, {"other", "Key"}} {
		o := ledgertest.Recorded(pair[0])
		o.Operation.Key = pair[1]
		if _, created, err := store.Open(t.Context(), o); !created || err != nil {
			t.Errorf("%q in %s: created %v, %v", pair[1], pair[0], created, err)
		}
	}
}

func TestLaw01_ManyOpenersOneOperation(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	stores := []interface {
		Open(context.Context, ledger.Opening) (ledger.Operation, bool, error)
	}{db.Open(t), db.Open(t)}
	first := ledgertest.Opening(acme)
	var created atomic.Int32
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range 64 {
		all.Go(func() {
			o := same(first.Operation)
			<-begin
			op, made, err := stores[i%2].Open(t.Context(), o)
			if err != nil || op.Key != o.Operation.Key || op.State != ledger.Running {
				t.Errorf("opener %d: %+v, %v", i, op, err)
			}
			if made {
				created.Add(1)
			}
		})
	}
	close(begin)
	all.Wait()
	if created.Load() != 1 {
		t.Errorf("%d openers were told that they made the operation, want 1", created.Load())
	}
	for _, table := range []string{"operations", "attempts", "audit_events"} {
		if n := db.Count(t, `SELECT count(*) FROM `+table); n != 1 {
			t.Errorf("%s holds %d rows, want 1", table, n)
		}
	}
}

// The second opener begins while the first is not committed, so its own
// statement cannot see the winner.
func TestOpenBesideAnUncommittedOpener(t *testing.T) {
	t.Parallel()
	for _, outcome := range []string{"COMMIT", "ROLLBACK"} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			store, db := ledgertest.NewStore(t)
			template := inState(t, store, ledger.Running)
			o := ledgertest.Opening(acme)
			first, watcher := db.Owner(t), db.Owner(t)
			if _, err := first.Exec(t.Context(), `BEGIN`); err != nil {
				t.Fatal(err)
			}
			if _, err := first.Exec(t.Context(), `INSERT INTO operations SELECT (r).* FROM (
				SELECT jsonb_populate_record(o, jsonb_build_object('id', gen_random_uuid(), 'idempotency_key', $2::text)) AS r
				FROM operations o WHERE id = $1::uuid) copy`, template.ID, o.Operation.Key); err != nil {
				t.Fatal(err)
			}
			type answer struct {
				op      ledger.Operation
				created bool
				err     error
			}
			answers := make(chan answer, 1)
			go func() {
				op, created, err := store.Open(t.Context(), o)
				answers <- answer{op, created, err}
			}()
			awaitCount(t, watcher, 1, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
			if _, err := first.Exec(t.Context(), outcome); err != nil {
				t.Fatal(err)
			}
			got := <-answers
			if got.err != nil || got.created != (outcome == "ROLLBACK") || got.op.Key != o.Operation.Key {
				t.Errorf("the second opener: created %v, %v, key %q", got.created, got.err, got.op.Key)
			}
		})
	}
}

// Two processes take the same keys in opposite orders. Each call holds one
// key's lock at a time, so nothing can lock up.
func TestOppositeOrdersDoNotDeadlock(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	const keys = 50
	var created atomic.Int32
	var all sync.WaitGroup
	for process := range 2 {
		store := db.Open(t)
		all.Go(func() {
			for i := range keys {
				if process == 1 {
					i = keys - 1 - i
				}
				o := ledgertest.Opening(acme)
				o.Operation.Key = fmt.Sprint("key-", i)
				op, made, err := store.Open(t.Context(), o)
				if err != nil {
					t.Errorf("process %d, key %d: %v", process, i, err)
					return
				}
				if made {
					created.Add(1)
				}
				// Both try to settle: one of them is fenced off.
				if _, err := store.Apply(t.Context(), ledgertest.Change(op, ledger.Confirm)); err != nil && !errors.Is(err, ledger.ErrFenced) && !errors.Is(err, ledger.ErrIllegalMove) {
					t.Errorf("process %d settles key %d: %v", process, i, err)
				}
			}
		})
	}
	all.Wait()
	if created.Load() != keys {
		t.Errorf("%d operations were made, want %d", created.Load(), keys)
	}
	if n := db.Count(t, `SELECT count(*) FROM audit_events WHERE event = 'confirm'`); n != keys {
		t.Errorf("%d confirmations, want %d", n, keys)
	}
}

func TestKeyPastItsWindow(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	for _, state := range []ledger.State{ledger.Succeeded, ledger.Failed} {
		for _, reuse := range []bool{true, false} {
			o := ledgertest.Opening(acme)
			o.ExpiredKeyReuse = reuse
			op := ledgertest.Brought(t, store, ledgertest.Open(t, store, o), state)
			what := fmt.Sprintf("%s, reuse %v", state, reuse)

			db.Age(t, op, ledgertest.Window-time.Minute)
			if got, created, err := store.Open(t.Context(), same(op)); err != nil || created || got.ID != op.ID {
				t.Errorf("%s, a minute before the window's end: %s, created %v, %v", what, got.ID, created, err)
			}
			db.Age(t, op, 2*time.Minute)
			other := same(op)
			other.Operation.ArgsHash = ledgertest.Hash("other")
			if !reuse {
				unchanged(t, db, op, "a request after the window", func() {
					for _, o := range []ledger.Opening{same(op), other} {
						_, created, err := store.Open(t.Context(), o)
						wantError(t, what+", after its window", err, ledger.ErrKeyExpired)
						if created {
							t.Errorf("%s: created after the window", what)
						}
					}
				})
				continue
			}
			got, created, err := store.Open(t.Context(), other)
			if err != nil || !created || got.ID != other.Operation.ID {
				t.Errorf("%s, after its window: created %v, %v, want a new operation", what, created, err)
			}
			if _, err := store.Get(t.Context(), acme, op.ID); !errors.Is(err, ledger.ErrNotFound) {
				t.Errorf("%s: the old operation is still there: %v", what, err)
			}
			if len(db.Audit(t, op)) != 2 {
				t.Errorf("%s: the audit record went with the operation", what)
			}
			if n := db.Count(t, `SELECT count(*) FROM operations WHERE id = $1::uuid`, op.ID); n != 0 {
				t.Errorf("%s: %d attempts stayed", what, n)
			}
		}
	}
}

// An effect may still land: the key is not given away meanwhile.
func TestWatchedOperationKeepsItsKey(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	o := ledgertest.Opening(acme)
	o.ExpiredKeyReuse = true
	change := ledgertest.Change(ledgertest.Moved(t, store, ledgertest.Open(t, store, o), ledger.Doubt), ledger.Refuse)
	change.Watch = 2 * ledgertest.Window
	op, err := store.Apply(t.Context(), change)
	if err != nil {
		t.Fatal(err)
	}
	db.Age(t, op, ledgertest.Window+time.Minute)
	if got, created, err := store.Open(t.Context(), same(op)); err != nil || created || got.ID != op.ID {
		t.Errorf("a watched operation past its window: %s, created %v, %v; want itself", got.ID, created, err)
	}
	db.Age(t, op, ledgertest.Window)
	if err := store.EndWatch(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	if _, created, err := store.Open(t.Context(), same(op)); err != nil || !created {
		t.Errorf("after its watch: created %v, %v", created, err)
	}
}

// However many ask at once for a key that has just become free, one gets it.
func TestExpiredKeyIsTakenOnce(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	o := ledgertest.Opening(acme)
	o.ExpiredKeyReuse = true
	op := ledgertest.Moved(t, store, ledgertest.Open(t, store, o), ledger.Confirm)
	db.Age(t, op, 2*ledgertest.Window)
	var created atomic.Int32
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			got, made, err := store.Open(t.Context(), same(op))
			if err != nil || got.ID == op.ID {
				t.Errorf("opener got %s, %v; want the new operation", got.ID, err)
			}
			if made {
				created.Add(1)
			}
		})
	}
	all.Wait()
	if created.Load() != 1 {
		t.Errorf("%d openers made an operation, want 1", created.Load())
	}
}
