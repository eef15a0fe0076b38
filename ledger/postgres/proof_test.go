package postgres_test

import (
	"errors"
	"testing"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
)

// What was learned is recorded for the state that it was judged in, or judged
// anew.
func TestLaw07_EvidenceIsFenced(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	op := ledgertest.InState(t, store, "acme", ledger.Running)
	stale := op
	ledgertest.Moved(t, store, op, ledger.Defer)
	before := db.Row(t, op)
	_, err := store.AddEvidence(t.Context(), ledger.Evidence{Operation: stale, Attempt: 1, Actor: "worker", Detail: "late", ProviderReference: "re_late", InDoubt: true})
	if !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("got %v, want ErrFenced", err)
	}
	if after := db.Row(t, op); after != before {
		t.Errorf("row changed from %s to %s", before, after)
	}
}

// A proof of absence that did not know of a receipt is none.
func TestLaw03_ReceiptOutweighsAbsence(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	for _, event := range []ledger.Event{ledger.Defer, ledger.Refuse} {
		op := ledgertest.InState(t, store, "acme", ledger.Unknown)
		if _, err := store.AddEvidence(t.Context(), ledger.Evidence{Operation: op, Attempt: 1, Actor: "worker", Detail: "late", ProviderReference: "re_late", InDoubt: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Apply(t.Context(), ledgertest.Change(op, event)); !errors.Is(err, ledger.ErrFenced) {
			t.Errorf("%s over a receipt: %v, want ErrFenced", event, err)
		}
	}
}

// Nothing new is sent for a tenant that is switched off; what waits is sent
// when it is on again.
func TestDisabledTenantIsNotSentFor(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	tenant := db.Tenant(t, "acme")
	op := ledgertest.InState(t, store, tenant, ledger.Pending)
	owner := ledgertest.At(t, db.OwnerURL)
	owner.ServeURL = db.OwnerURL
	admin := owner.Open(t)
	if err := admin.SetTenantActive(t.Context(), tenant, false); err != nil {
		t.Fatal(err)
	}
	if due, err := store.DuePending(t.Context(), 10); err != nil || len(due) != 0 {
		t.Errorf("due: %v, %v", due, err)
	}
	if _, err := store.Start(t.Context(), ledgertest.Claiming(op)); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("started: %v", err)
	}
	if err := admin.SetTenantActive(t.Context(), tenant, true); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Start(t.Context(), ledgertest.Claiming(op)); err != nil {
		t.Errorf("not started when on again: %v", err)
	}
}
