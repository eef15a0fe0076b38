package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// askedOf opens an operation that waits for so many approvals.
func askedOf(t *testing.T, store *postgres.Store, required int) ledger.Operation {
	t.Helper()
	o := ledgertest.Asked(acme)
	o.Review.ExpiresIn, o.Review.RequiredApprovals, o.Review.PolicyVersion = time.Hour, required, "1-a"
	return ledgertest.Open(t, store, o)
}

// vote says yes to the question as op has it.
func vote(t *testing.T, store *postgres.Store, op ledger.Operation, by string) ledger.Review {
	t.Helper()
	review, err := store.AddApproval(t.Context(), acme, op.Review.ID, ledger.Approval{By: by, Note: "note of " + by, PolicyVersion: op.Review.PolicyVersion})
	if err != nil {
		t.Fatal(err)
	}
	return review
}

func voters(r ledger.Review) (names []string) {
	for _, a := range r.Approvals {
		names = append(names, a.By)
	}
	return names
}

// approval is the move that the last vote leads to.
func approval(op ledger.Operation) ledger.Change {
	c := ledgertest.Change(op, ledger.Approve)
	c.Decision.ReviewID = op.Review.ID
	return c
}

func TestSeveralMustApprove(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	op := askedOf(t, store, 2)
	if r := op.Review; r.RequiredApprovals != 2 || r.PolicyVersion != "1-a" || len(r.Approvals) != 0 {
		t.Fatalf("asked %+v", r)
	}
	_, err := store.Apply(t.Context(), approval(op))
	wantError(t, "approved by nobody", err, ledger.ErrFenced)
	first := vote(t, store, op, "ann")
	if !first.Open() || !slices.Equal(voters(first), []string{"ann"}) || first.Approvals[0].Note != "note of ann" || time.Since(first.Approvals[0].At) > time.Minute {
		t.Errorf("after one: %+v", first)
	}
	_, err = store.Apply(t.Context(), approval(op))
	wantError(t, "approved by one", err, ledger.ErrFenced)
	again, err := store.AddApproval(t.Context(), acme, op.Review.ID, ledger.Approval{By: "ann", Note: "other", PolicyVersion: "1-a"})
	if !errors.Is(err, ledger.ErrAlreadyVoted) || !slices.Equal(voters(again), []string{"ann"}) || again.Approvals[0].Note != "note of ann" {
		t.Errorf("ann again: %+v, %v", again, err)
	}
	if second := vote(t, store, op, "bob"); !slices.Equal(voters(second), []string{"ann", "bob"}) {
		t.Errorf("after two: %v", voters(second))
	}
	if got := ledgertest.Get(t, store, op); !slices.Equal(voters(*got.Review), []string{"ann", "bob"}) {
		t.Errorf("Get says %v", voters(*got.Review))
	}
	moved, err := store.Apply(t.Context(), approval(op))
	if err != nil || moved.State != ledger.Pending {
		t.Fatalf("approved by two: %s, %v", moved.State, err)
	}
	_, err = store.AddApproval(t.Context(), acme, op.Review.ID, ledger.Approval{By: "cid", PolicyVersion: "1-a"})
	wantError(t, "a vote after the decision", err, ledger.ErrFenced)
}

func TestVotesThatDoNotCount(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	lapsed := askedOf(t, store, 1)
	db.Age(t, lapsed, 2*time.Hour)
	doubt := inState(t, store, ledger.NeedsReview)
	for what, tt := range map[string]struct {
		tenant, review string
		want           error
	}{
		"a lapsed one":     {acme, lapsed.Review.ID, ledger.ErrFenced},
		"no approval":      {acme, doubt.Review.ID, ledger.ErrFenced},
		"another tenant's": {"other", lapsed.Review.ID, ledger.ErrNotFound},
		"none":             {acme, ledgertest.ID(), ledger.ErrNotFound},
	} {
		_, err := store.AddApproval(t.Context(), tt.tenant, tt.review, ledger.Approval{By: "ann", PolicyVersion: "1-a"})
		wantError(t, "vote on "+what, err, tt.want)
		if what != "a lapsed one" {
			_, err = store.Rebind(t.Context(), tt.tenant, tt.review, "2-b", 1, "x")
			wantError(t, "rebinding "+what, err, tt.want)
		}
	}
	if n := db.Count(t, `SELECT count(*) FROM approvals`); n != 0 {
		t.Errorf("%d votes were kept", n)
	}
}

// Many vote at once, some of them twice: each counts once, and the review has
// enough exactly when the last of the required ones has voted.
func TestConcurrentVotes(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	other := db.Open(t)
	op := askedOf(t, store, 5)
	var complete, twice atomic.Int64
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			s := store
			if i%2 == 0 {
				s = other
			}
			review, err := s.AddApproval(t.Context(), acme, op.Review.ID, ledger.Approval{By: fmt.Sprint("voter ", i%10), PolicyVersion: "1-a"})
			switch {
			case errors.Is(err, ledger.ErrAlreadyVoted):
				twice.Add(1)
			case err != nil:
				t.Error(err)
			case len(review.Approvals) == review.RequiredApprovals:
				complete.Add(1)
			}
		})
	}
	all.Wait()
	if complete.Load() != 1 || twice.Load() != 10 || db.Count(t, `SELECT count(*) FROM approvals`) != 10 {
		t.Errorf("%d were told that it is complete (want 1), %d voted twice (want 10)", complete.Load(), twice.Load())
	}
}

func TestRebindDropsVotes(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	op := askedOf(t, store, 1)
	vote(t, store, op, "ann")
	stale := ledgertest.Get(t, store, op)
	review, err := store.Rebind(t.Context(), acme, op.Review.ID, "2-b", 2, "policy 2-b wants two")
	if err != nil || review.PolicyVersion != "2-b" || review.RequiredApprovals != 2 || len(review.Approvals) != 0 || !review.Open() {
		t.Fatalf("rebound %+v, %v", review, err)
	}
	_, err = store.AddApproval(t.Context(), acme, op.Review.ID, ledger.Approval{By: "cid", PolicyVersion: "1-a"})
	wantError(t, "a yes to the policy from before", err, ledger.ErrFenced)
	op = ledgertest.Get(t, store, op)
	if review.Detail != "policy 2-b wants two" {
		t.Errorf("who looks again is told %q", review.Detail)
	}
	vote(t, store, op, "ann") // a yes to the new policy is another one
	// The same again keeps it.
	if review, err = store.Rebind(t.Context(), acme, op.Review.ID, "2-b", 2, "again"); err != nil || !slices.Equal(voters(review), []string{"ann"}) {
		t.Errorf("rebound to the same: %+v, %v", review, err)
	}
	vote(t, store, op, "bob")
	// Whoever read it before decides about something else.
	_, err = store.Apply(t.Context(), approval(stale))
	wantError(t, "a decision from before", err, ledger.ErrFenced)
	if _, err = store.Apply(t.Context(), approval(ledgertest.Get(t, store, op))); err != nil {
		t.Errorf("a decision after: %v", err)
	}
	_, err = store.Rebind(t.Context(), acme, op.Review.ID, "3-c", 1, "late")
	wantError(t, "rebinding what is decided", err, ledger.ErrFenced)
	events := db.Audit(t, op)
	if len(events) != 3 || events[1].Event != "evidence" || events[1].Detail != "policy 2-b wants two" || events[1].From != ledger.NeedsReview || events[1].To != ledger.NeedsReview {
		t.Errorf("recorded %+v", events)
	}
	if problems, _ := verified(t, store); len(problems) > 0 {
		t.Error(problems)
	}
	if _, err := store.Rebind(t.Context(), acme, op.Review.ID, "3-c", 0, "x"); err == nil {
		t.Error("bound to no approval at all")
	}
}

// A crash between the last vote and the move leaves what the reconciler finds; it
// does not lapse meanwhile.
func TestApprovedReviews(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	enough, oneShort := askedOf(t, store, 2), askedOf(t, store, 2)
	vote(t, store, enough, "ann")
	vote(t, store, enough, "bob")
	vote(t, store, oneShort, "ann")
	if due, err := store.ApprovedReviews(t.Context(), 10); err != nil || len(due) != 0 {
		t.Errorf("at once %v, %v: it is still the last voter's", ids(due), err)
	}
	db.Age(t, enough, 2*time.Hour)
	db.Age(t, oneShort, 2*time.Hour)
	due, err := store.ApprovedReviews(t.Context(), 10)
	if err != nil || !slices.Equal(ids(due), []string{enough.ID}) || !slices.Equal(voters(*due[0].Review), []string{"ann", "bob"}) {
		t.Fatalf("found %v, %v", ids(due), err)
	}
	if lapsed, err := store.ExpiredReviews(t.Context(), 10); err != nil || !slices.Equal(ids(lapsed), []string{oneShort.ID}) {
		t.Errorf("lapsed %v, %v", ids(lapsed), err)
	}
	apply(t, store, approval(due[0]))
	if due, err := store.ApprovedReviews(t.Context(), 10); err != nil || len(due) != 0 {
		t.Errorf("after the move %v, %v", ids(due), err)
	}
}

// Votes go with their review.
func TestVotesAreSweptWithTheirOperation(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	o := ledgertest.Asked(acme)
	o.Review.ExpiresIn, o.ExpiredKeyReuse = time.Hour, true
	op := ledgertest.Open(t, store, o)
	vote(t, store, op, "ann")
	op = ledgertest.Moved(t, store, ledgertest.Get(t, store, op), ledger.Reject)
	db.Age(t, op, ledgertest.Window+time.Second)
	if _, swept, _, err := store.Sweep(t.Context(), 10); err != nil || swept != 1 {
		t.Fatalf("swept %d, %v", swept, err)
	}
	if n := db.Count(t, `SELECT count(*) FROM approvals`); n != 0 {
		t.Errorf("%d votes are left", n)
	}
}
