package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
)

func TestLaw10_AnotherTenantsIdIsNotFound(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	op := ledgertest.Open(t, store, ledgertest.Asked(acme))
	none := ledgertest.ID()
	for _, who := range []struct{ what, tenant, id, review, key string }{
		{"another tenant's", "other", op.ID, op.Review.ID, op.Key},
		{"nobody's", acme, none, none, "no such key"},
		{"a review for an operation and back", acme, op.Review.ID, op.ID, ""},
	} {
		unchanged(t, db, op, who.what, func() {
			_, err := store.Get(t.Context(), who.tenant, who.id)
			wantError(t, "Get of "+who.what, err, ledger.ErrNotFound)
			_, err = store.GetByKey(t.Context(), who.tenant, who.key)
			wantError(t, "GetByKey of "+who.what, err, ledger.ErrNotFound)
			named := ledger.Operation{Tenant: who.tenant, ID: who.id, Key: op.Key}
			_, err = store.Arguments(t.Context(), named)
			wantError(t, "Arguments of "+who.what, err, ledger.ErrNotFound)
			_, _, err = store.Review(t.Context(), who.tenant, who.review)
			wantError(t, "Review of "+who.what, err, ledger.ErrNotFound)
			_, err = store.AddEvidence(t.Context(), ledger.Evidence{Operation: named, Actor: "x", Detail: "x", Incident: "x"})
			wantError(t, "AddEvidence to "+who.what, err, ledger.ErrNotFound)
			if polled, err := store.Poll(t.Context(), []ledger.Waited{{Tenant: who.tenant, Key: op.Key, ID: who.id}}); err != nil || len(polled) != 0 {
				t.Errorf("Poll of %s: %v, %v", who.what, ids(polled), err)
			}
		})
	}
	if listed, err := store.List(t.Context(), "other", ledger.Filter{}, "", 10); err != nil || len(listed) != 0 {
		t.Errorf("the other tenant lists %v, %v", ids(listed), err)
	}
	if reviews, err := store.OpenReviews(t.Context(), "other", "", 10); err != nil || len(reviews) != 0 {
		t.Errorf("the other tenant reviews %v, %v", reviews, err)
	}
}

func TestGetTellsTheWholeStory(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	op := ledgertest.Open(t, store, ledgertest.Asked(acme))
	for _, event := range []ledger.Event{ledger.Approve, ledger.Claim, ledger.Defer, ledger.Claim, ledger.Doubt, ledger.Escalate, ledger.Confirm} {
		op = ledgertest.Moved(t, store, op, event)
	}
	if len(op.Attempts) != 2 || op.Attempts[0].Number != 1 || op.Attempts[1].Number != 2 || op.Attempts[0].Outcome != "defer" || op.Attempts[1].Outcome != "doubt" {
		t.Errorf("attempts %+v", op.Attempts)
	}
	if op.Review == nil || op.Review.Reason != ledger.Inconclusive || op.Review.Decision != ledger.Confirmed {
		t.Errorf("latest review %+v", op.Review)
	}
	byKey, err := store.GetByKey(t.Context(), acme, op.Key)
	if err != nil || byKey.ID != op.ID || byKey.Revision != op.Revision || byKey.Attempts != nil || byKey.Review != nil {
		t.Errorf("by key %+v, %v", byKey, err)
	}
}

func TestListFiltersAndPages(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	var all []string // newest first
	for i, state := range []ledger.State{ledger.Pending, ledger.Running, ledger.Succeeded, ledger.Pending, ledger.Unknown, ledger.Failed} {
		o := ledgertest.Recorded(acme)
		if i%2 == 1 {
			o.Operation.ActionType, o.Operation.Run.RunID = "demo.invoice.create", "run-odd"
		}
		op := ledgertest.Brought(t, store, ledgertest.Open(t, store, o), state)
		// An hour between any two, the oldest first.
		db.Age(t, op, time.Duration(6-i)*time.Hour)
		all = append([]string{op.ID}, all...)
	}
	inState(t, store, ledger.Running) // newest, and excluded where times are given
	ledgertest.Open(t, store, ledgertest.Recorded("other"))
	now := time.Now()
	for _, c := range []struct {
		what   string
		filter ledger.Filter
		want   []int // indices in all
	}{
		{"pending", ledger.Filter{States: []ledger.State{ledger.Pending}}, []int{2, 5}},
		{"two states", ledger.Filter{States: []ledger.State{ledger.Pending, ledger.Failed}}, []int{0, 2, 5}},
		{"action type", ledger.Filter{ActionType: "demo.invoice.create"}, []int{0, 2, 4}},
		{"run", ledger.Filter{RunID: "run-odd"}, []int{0, 2, 4}},
		{"after and before", ledger.Filter{CreatedAfter: now.Add(-5*time.Hour - time.Minute), CreatedBefore: now.Add(-2*time.Hour - time.Minute)}, []int{2, 3, 4}},
		{"old, no states given", ledger.Filter{States: []ledger.State{}, CreatedBefore: now.Add(-30 * time.Minute)}, []int{0, 1, 2, 3, 4, 5}},
		{"all at once", ledger.Filter{States: []ledger.State{ledger.Failed}, RunID: "run-odd", ActionType: "demo.invoice.create", CreatedBefore: now}, []int{0}},
		{"nothing", ledger.Filter{RunID: "run-odd", ActionType: "demo.refund.create"}, nil},
	} {
		var want []string
		for _, i := range c.want {
			want = append(want, all[i])
		}
		for _, page := range []int{1, 2, 100} {
			var got []string
			for before := ""; ; {
				ops, err := store.List(t.Context(), acme, c.filter, before, page)
				if err != nil {
					t.Fatalf("%s: %v", c.what, err)
				}
				got = append(got, ids(ops)...)
				if len(ops) < page || len(got) > len(all) {
					break
				}
				before = ops[len(ops)-1].ID
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, by pages of %d: %v, want %v", c.what, page, got, want)
			}
		}
	}
}

func TestPollReturnsWhatChanged(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	a, b := inState(t, store, ledger.Running), inState(t, store, ledger.Running)
	waited := []ledger.Waited{{Tenant: acme, Key: a.Key, ID: a.ID, Revision: a.Revision}, {Tenant: acme, Key: b.Key, ID: b.ID, Revision: b.Revision}}
	if polled, err := store.Poll(t.Context(), waited); err != nil || len(polled) != 0 {
		t.Errorf("before a change: %v, %v", ids(polled), err)
	}
	ledgertest.Moved(t, store, b, ledger.Confirm)
	if polled, err := store.Poll(t.Context(), waited); err != nil || !slices.Equal(ids(polled), []string{b.ID}) || polled[0].State != ledger.Succeeded {
		t.Errorf("after a change: %v, %v", ids(polled), err)
	}
	if polled, err := store.Poll(t.Context(), nil); err != nil || len(polled) != 0 {
		t.Errorf("waiting for nothing: %v, %v", ids(polled), err)
	}
}

func TestOpenReviews(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	var want []ledger.OpenReview
	for i := range 5 {
		op := ledgertest.Open(t, store, ledgertest.Asked(acme))
		if i == 2 {
			ledgertest.Moved(t, store, op, ledger.Reject)
			continue
		}
		want = append(want, ledger.OpenReview{OperationID: op.ID, ReviewID: op.Review.ID})
	}
	ledgertest.Open(t, store, ledgertest.Asked("other"))
	var got []ledger.OpenReview
	for after := ""; ; after = got[len(got)-1].ReviewID {
		page, err := store.OpenReviews(t.Context(), acme, after, 3)
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, page...); len(page) < 3 || len(got) > len(want) {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("open reviews %v, want %v", got, want)
	}
}

func TestAddEvidence(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	for _, state := range ledger.States() {
		op := inState(t, store, state)
		got, err := store.AddEvidence(t.Context(), ledger.Evidence{Operation: op, Attempt: 1, Actor: "worker",
			Detail: "a late receipt", Incident: "two receipts", ProviderReference: "re_late", InDoubt: true})
		if err != nil {
			t.Fatalf("%s: %v", state, err)
		}
		reference := "re_late"
		if op.ProviderReference != "" {
			reference = op.ProviderReference
		}
		doubted := op.InDoubt || state == ledger.Running || state == ledger.Unknown || state == ledger.NeedsReview
		if got.State != state || got.LastEvent != op.LastEvent || got.Effect != op.Effect || string(got.Receipt) != string(op.Receipt) ||
			got.Incident != "two receipts" || got.ProviderReference != reference || got.InDoubt != doubted || got.Revision != op.Revision+1 {
			t.Errorf("%s: evidence left %+v", state, got)
		}
		again, err := store.AddEvidence(t.Context(), ledger.Evidence{Operation: op, Attempt: 1, Actor: "worker", Detail: "more"})
		if err != nil || again.Incident != got.Incident || again.ProviderReference != reference || again.InDoubt != doubted {
			t.Errorf("%s: evidence without news left %+v, %v", state, again, err)
		}
		if events := db.Audit(t, op); events[len(events)-1].Detail != "more" || events[len(events)-2].Detail != "a late receipt" {
			t.Errorf("%s: audit record %+v", state, events)
		}
	}
}

// Where too many wait a look-up is refused; what a claim must know it is told.
func TestLookUpsAreRefusedWhereTooManyWait(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	opening := ledgertest.Opening(acme)
	op, _, err := store.Open(t.Context(), opening)
	if err != nil {
		t.Fatal(err)
	}
	store.RefuseReads()
	_, err = store.GetByKey(t.Context(), acme, op.Key)
	wantError(t, "a look-up", err, ledger.ErrOverloaded)
	if again, created, err := store.Open(t.Context(), opening); err != nil || created || again.ID != op.ID {
		t.Errorf("claimed again: %v, created %t (%v)", again, created, err)
	}
}
