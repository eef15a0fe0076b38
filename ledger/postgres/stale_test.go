package postgres_test

import (
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
)

// Snapshots that are out of date, of an operation that looks as it did: it is in
// the same state again, and something was done meanwhile.
func TestLaw07_WhatLooksAsItDid(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	through := func(op ledger.Operation, events ...ledger.Event) ledger.Operation {
		for _, event := range events {
			op = ledgertest.Moved(t, store, op, event)
		}
		return op
	}
	renewed := func(op ledger.Operation) ledger.Operation {
		c := ledgertest.Change(op, ledger.Release)
		c.BumpEpoch = true
		if _, err := store.Apply(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		return ledgertest.Get(t, store, op)
	}
	leased := func(op ledger.Operation) ledger.Operation {
		db.Age(t, op, 2*ledgertest.Lease)
		return ledgertest.Leased(t, store, op)
	}
	for name, tt := range map[string]struct {
		from  ledger.State
		since func(ledger.Operation) ledger.Operation
		try   func(stale ledger.Operation) error
	}{
		"pending again after an attempt, and claimed": {ledger.Pending,
			func(op ledger.Operation) ledger.Operation { return through(op, ledger.Claim, ledger.Defer) },
			func(stale ledger.Operation) error {
				_, err := store.Start(t.Context(), ledgertest.Claiming(stale))
				return err
			}},
		"pending again with another key, and claimed": {ledger.Pending,
			func(op ledger.Operation) ledger.Operation { return renewed(through(op, ledger.Escalate)) },
			func(stale ledger.Operation) error {
				_, err := store.Start(t.Context(), ledgertest.Claiming(stale))
				return err
			}},
		"running again, and settled": {ledger.Running,
			func(op ledger.Operation) ledger.Operation { return through(op, ledger.Defer, ledger.Claim) },
			func(stale ledger.Operation) error {
				_, err := store.Apply(t.Context(), ledgertest.Change(stale, ledger.Confirm))
				return err
			}},
		"leased again, and put off": {ledger.Unknown, leased,
			func(stale ledger.Operation) error {
				_, err := store.Postpone(t.Context(), ledger.Postponement{Operation: stale, Delay: time.Hour, Reason: "looked"})
				return err
			}},
		"leased again, and replayed": {ledger.Unknown, leased,
			func(stale ledger.Operation) error {
				_, err := store.Start(t.Context(), ledgertest.Claiming(stale))
				return err
			}},
		"before a person again, and decided": {ledger.NeedsReview,
			func(op ledger.Operation) ledger.Operation { return through(op, ledger.Release, ledger.Escalate) },
			func(stale ledger.Operation) error {
				_, err := store.Apply(t.Context(), ledgertest.Change(stale, ledger.Confirm))
				return err
			}},
		"before a person again, and approved": {ledger.NeedsReview,
			func(op ledger.Operation) ledger.Operation { return through(op, ledger.Release, ledger.Escalate) },
			func(stale ledger.Operation) error {
				_, err := store.Apply(t.Context(), ledgertest.Change(stale, ledger.Approve))
				return err
			}},
	} {
		t.Run(name, func(t *testing.T) {
			op := ledgertest.InState(t, store, acme, tt.from)
			if tt.from == ledger.Unknown {
				op = ledgertest.Leased(t, store, op)
			}
			now := tt.since(op)
			if now.State != op.State {
				t.Fatalf("it is %s, not %s again", now.State, op.State)
			}
			unchanged(t, db, op, name, func() { wantError(t, name, tt.try(op), ledger.ErrFenced) })
		})
	}
}

// Doubt that is known of without a receipt outweighs a proof of absence that does
// not know of it, too.
func TestLaw03_DoubtWithoutAReceiptOutweighsAbsence(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	op := ledgertest.Open(t, store, ledgertest.Asked(acme))
	if _, err := store.AddEvidence(t.Context(), ledger.Evidence{Operation: op, Attempt: 1, Actor: "webhook", Detail: "it was done", InDoubt: true}); err != nil {
		t.Fatal(err)
	}
	for _, event := range []ledger.Event{ledger.Refuse, ledger.Release} {
		unchanged(t, db, op, string(event), func() {
			_, err := store.Apply(t.Context(), ledgertest.Change(op, event))
			wantError(t, string(event), err, ledger.ErrFenced)
		})
	}
}

// What is unknown is in doubt whatever its caller says, and stays so before a
// person.
func TestLaw03_DoubtIsKept(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	c := ledgertest.Change(ledgertest.InState(t, store, acme, ledger.Running), ledger.Doubt)
	c.InDoubt = false
	op, err := store.Apply(t.Context(), c)
	if err != nil || !op.InDoubt {
		t.Fatalf("in doubt: %v, %v", op.InDoubt, err)
	}
	if asked := ledgertest.Moved(t, store, op, ledger.Escalate); !asked.InDoubt {
		t.Errorf("before a person it is in doubt no more: %s", db.Row(t, asked))
	}
}
