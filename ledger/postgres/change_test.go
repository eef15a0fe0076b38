package postgres_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

func TestApplyMakesEachLegalMove(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	for _, m := range ledger.Moves() {
		if m.From == ledger.New || slices.Contains([]ledger.Event{ledger.Claim, ledger.Replay, ledger.Correct}, m.Event) {
			continue // Open, Start and Correct make these
		}
		op := inState(t, store, m.From)
		change := ledgertest.Change(op, m.Event)
		change.Delay = time.Hour
		moved := apply(t, store, change)
		if moved.State != m.To || moved.LastEvent != m.Event || moved.Revision != op.Revision+1 || moved.Effect != change.Effect {
			t.Errorf("%v: moved to %+v", m, moved)
		}
		if moved.Attempt != op.Attempt || moved.Epoch != op.Epoch || moved.ArgsHash != op.ArgsHash {
			t.Errorf("%v: attempt %d → %d, epoch %d → %d", m, op.Attempt, moved.Attempt, op.Epoch, moved.Epoch)
		}
		if waits := m.To == ledger.Pending || m.To == ledger.Unknown; waits != !moved.NextAttemptAt.IsZero() {
			t.Errorf("%v: next attempt at %v", m, moved.NextAttemptAt)
		}
		if moved.State.Final() != !moved.WindowEndsAt.IsZero() || !moved.LeaseExpiresAt.IsZero() {
			t.Errorf("%v: window %v, lease %v", m, moved.WindowEndsAt, moved.LeaseExpiresAt)
		}
		if (m.To == ledger.Succeeded) != (string(moved.Receipt) == ledgertest.Receipt && moved.ProviderReference == ledgertest.Reference) {
			t.Errorf("%v: receipt %s of %q", m, moved.Receipt, moved.ProviderReference)
		}
		if (m.To == ledger.Failed) && (moved.Failure == nil || moved.Failure.Code != string(m.Event)) {
			t.Errorf("%v: failure %+v", m, moved.Failure)
		}
		// Arguments are dropped when nothing needs them any more.
		_, err := store.Arguments(t.Context(), op)
		if dropped := err != nil; dropped != (moved.State.Final() || m.From == ledger.Failed) {
			t.Errorf("%v: arguments: %v", m, err)
		}
		// Apply makes up what it returns from what it was given and a few facts: it
		// must be what is stored.
		if stored, err := store.GetByKey(t.Context(), acme, op.Key); err != nil || !reflect.DeepEqual(moved, stored) {
			t.Errorf("%v: Apply returned\n%+v\nthe ledger has\n%+v, %v", m, moved, stored, err)
		}
		now := ledgertest.Get(t, store, moved)
		if asked := m.To == ledger.NeedsReview; asked != now.Review.Open() {
			t.Errorf("%v: review %+v", m, now.Review)
		}
		if decided := m.From == ledger.NeedsReview; decided && (now.Review.Open() || now.Review.Decision != change.Decision.Decision ||
			now.Review.DecidedBy != "person:test" || now.Review.Note != "looked" || now.Review.DecidedAt.IsZero()) {
			t.Errorf("%v: review %+v, want it decided", m, now.Review)
		}
		if m.From == ledger.Running && (now.Attempts[0].EndedAt.IsZero() || now.Attempts[0].Outcome != string(m.Event) || now.Attempts[0].Evidence != change.Detail) {
			t.Errorf("%v: attempt %+v, want it ended", m, now.Attempts[0])
		}
	}
}

func TestApplyRefusesIllegalMoves(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	for _, state := range ledger.States() {
		op := inState(t, store, state)
		unchanged(t, db, op, "an illegal move", func() {
			for _, event := range ledger.Events() {
				if _, legal := ledger.Next(state, event); !legal {
					_, err := store.Apply(t.Context(), ledgertest.Change(op, event))
					wantError(t, string(event)+" of "+string(state), err, ledger.ErrIllegalMove)
				}
			}
		})
	}
}

// L7: whoever knows an older row changes nothing.
func TestLaw07_StaleChangesAreFenced(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	running := inState(t, store, ledger.Running)
	leased := ledgertest.Leased(t, store, inState(t, store, ledger.Unknown))
	asked := inState(t, store, ledger.NeedsReview)
	for _, c := range []struct {
		what  string
		op    ledger.Operation
		event ledger.Event
		stale func(*ledger.Change)
	}{
		{"older attempt", running, ledger.Confirm, func(c *ledger.Change) { c.Operation.Attempt-- }},
		{"newer attempt", running, ledger.Refuse, func(c *ledger.Change) { c.Operation.Attempt++ }},
		{"other epoch", running, ledger.Doubt, func(c *ledger.Change) { c.Operation.Epoch++ }},
		{"other state", leased, ledger.Confirm, func(c *ledger.Change) { c.Operation.State = ledger.Running }},
		{"other tenant", running, ledger.Confirm, func(c *ledger.Change) { c.Operation.Tenant = "other" }},
		{"another's lease", leased, ledger.Confirm, func(c *ledger.Change) { c.Leased = true; c.Operation.Lease-- }},
		{"no lease", leased, ledger.Defer, func(c *ledger.Change) { c.Leased = true; c.Operation.Lease = 0 }},
		{"another review", asked, ledger.Approve, func(c *ledger.Change) { c.Decision.ReviewID = ledgertest.ID() }},
	} {
		unchanged(t, db, c.op, c.what, func() {
			change := ledgertest.Change(c.op, c.event)
			c.stale(&change)
			_, err := store.Apply(t.Context(), change)
			wantError(t, c.what, err, ledger.ErrFenced)
		})
	}
}

// A worker that was overtaken by its lease, a replay and a person, in turn.
func TestLaw07_LateWorkerIsFenced(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	o := ledgertest.Opening(acme)
	o.Start.Lease = 0
	first := ledgertest.Open(t, store, o)
	if expired, _, err := store.ExpireLeases(t.Context(), 10); err != nil || len(expired) != 1 || !expired[0].InDoubt || expired[0].Reason != "lease_expired" {
		t.Fatalf("expired %+v, %v", expired, err)
	}
	late := func(when string) {
		t.Helper()
		for _, event := range []ledger.Event{ledger.Confirm, ledger.Refuse, ledger.Defer, ledger.Doubt} {
			unchanged(t, db, first, "a late "+string(event), func() {
				_, err := store.Apply(t.Context(), ledgertest.Change(first, event))
				wantError(t, string(event)+" "+when, err, ledger.ErrFenced)
			})
		}
	}
	late("after the lease ran out")
	second := ledgertest.Moved(t, store, ledgertest.Leased(t, store, first), ledger.Replay)
	late("while a second attempt is under way")
	second = ledgertest.Moved(t, store, ledgertest.Moved(t, store, second, ledger.Doubt), ledger.Escalate)
	late("while a person is asked")
	ledgertest.Moved(t, store, second, ledger.Refuse)
	late("after a person decided")
}

func TestLaw07_OneReconcilerSettles(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	op := inState(t, store, ledger.Unknown)
	slow := ledgertest.Leased(t, store, op)
	if again, err := store.LeaseUnknown(t.Context(), 10, time.Minute); err != nil || len(again) != 0 {
		t.Fatalf("a leased row was leased again: %v, %v", ids(again), err)
	}
	db.Age(t, op, ledgertest.Lease)
	quick := ledgertest.Leased(t, store, op)
	if quick.Lease != slow.Lease+1 || quick.Resolves != slow.Resolves+1 {
		t.Errorf("second lease %d after %d, resolves %d after %d", quick.Lease, slow.Lease, quick.Resolves, slow.Resolves)
	}
	unchanged(t, db, op, "the slow reconciler", func() {
		absent := ledgertest.Change(slow, ledger.Refuse)
		absent.Leased = true
		_, err := store.Apply(t.Context(), absent)
		wantError(t, "the slow reconciler's absence", err, ledger.ErrFenced)
		_, err = store.Postpone(t.Context(), ledger.Postponement{Operation: slow, Delay: time.Hour, Reason: "later"})
		wantError(t, "the slow reconciler's postponement", err, ledger.ErrFenced)
		_, err = store.Start(t.Context(), ledgertest.Claiming(slow))
		wantError(t, "the slow reconciler's replay", err, ledger.ErrFenced)
	})
	found := ledgertest.Change(quick, ledger.Confirm)
	found.Leased = true
	if done := apply(t, store, found); done.State != ledger.Succeeded {
		t.Errorf("the quick reconciler left it %s", done.State)
	}
}

// Doubt that came up meanwhile outweighs a proof of absence that did not know
// of it.
func TestProofOfAbsenceMustKnowOfTheDoubt(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	for _, state := range []ledger.State{ledger.Running, ledger.NeedsReview} {
		op := inState(t, store, state)
		if state == ledger.NeedsReview {
			op = ledgertest.Open(t, store, ledgertest.Asked(acme))
		}
		e := ledger.Evidence{Operation: op, Attempt: 1, Actor: "worker", Detail: "a late receipt", ProviderReference: "re_late", InDoubt: true}
		doubted, err := store.AddEvidence(t.Context(), e)
		if err != nil || !doubted.InDoubt || doubted.ProviderReference != "re_late" {
			t.Fatalf("evidence left %+v, %v", doubted, err)
		}
		unchanged(t, db, op, "an answer that does not know of the doubt", func() {
			_, err := store.Apply(t.Context(), ledgertest.Change(op, ledger.Refuse))
			wantError(t, "refusal of "+string(state), err, ledger.ErrFenced)
		})
	}
}

func TestSecondReferenceNeverOverwritesTheFirst(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	withReference := func() ledger.Operation {
		doubt := ledgertest.Change(inState(t, store, ledger.Running), ledger.Doubt)
		doubt.ProviderReference = "re_first"
		return apply(t, store, doubt)
	}
	op := withReference()
	unchanged(t, db, op, "a receipt with another reference", func() {
		_, err := store.Apply(t.Context(), ledgertest.Change(op, ledger.Confirm))
		wantError(t, "another reference", err, ledger.ErrFenced)
	})
	same := ledgertest.Change(op, ledger.Confirm)
	same.ProviderReference = "re_first"
	if done := apply(t, store, same); done.ProviderReference != "re_first" {
		t.Errorf("reference %q", done.ProviderReference)
	}
	// A person who saw both may say which one counts.
	op = ledgertest.Moved(t, store, withReference(), ledger.Escalate)
	if done := ledgertest.Moved(t, store, op, ledger.Confirm); done.ProviderReference != ledgertest.Reference {
		t.Errorf("after a person's decision the reference is %q", done.ProviderReference)
	}
}

func TestReviewIsDecidedOnce(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	asked := ledgertest.Open(t, store, ledgertest.Asked(acme))
	first := ledgertest.Moved(t, store, asked, ledger.Approve)
	unchanged(t, db, asked, "a second decision", func() {
		for _, event := range []ledger.Event{ledger.Approve, ledger.Reject, ledger.Expire} {
			_, err := store.Apply(t.Context(), ledgertest.Change(asked, event))
			wantError(t, string(event)+" after approval", err, ledger.ErrFenced)
		}
	})
	// Asked again: the answer to the first question does not fit the second.
	again := ledgertest.Moved(t, store, first, ledger.Escalate)
	unchanged(t, db, asked, "an answer to an earlier question", func() {
		_, err := store.Apply(t.Context(), ledgertest.Change(asked, ledger.Approve))
		wantError(t, "an answer to an earlier question", err, ledger.ErrFenced)
	})
	review, operation, err := store.Review(t.Context(), acme, asked.Review.ID)
	if err != nil || operation != asked.ID || review.Decision != ledger.Approved {
		t.Errorf("the first review is %+v of %s, %v", review, operation, err)
	}
	if again.Review.ID == review.ID || !again.Review.Open() {
		t.Errorf("the latest review is %+v, want the second", again.Review)
	}
}

func TestWatchOutlivesTheMove(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	change := ledgertest.Change(inState(t, store, ledger.Unknown), ledger.Refuse)
	change.Watch = time.Hour
	op := apply(t, store, change)
	if watch := op.WatchUntil.Sub(op.UpdatedAt); watch != time.Hour {
		t.Errorf("watched for %v, want an hour", watch)
	}
	if sealed, err := store.Arguments(t.Context(), op); err != nil || len(sealed) == 0 {
		t.Errorf("a watched operation keeps its arguments: %q, %v", sealed, err)
	}
	leased, err := store.LeaseWatched(t.Context(), 10, time.Minute)
	if err != nil || !slices.Equal(ids(leased), []string{op.ID}) {
		t.Fatalf("watched: %v, %v", ids(leased), err)
	}
	if again, err := store.LeaseWatched(t.Context(), 10, time.Minute); err != nil || len(again) != 0 {
		t.Errorf("watched again within the gap: %v, %v", ids(again), err)
	}
	unchanged(t, db, op, "ending a watch before its time", func() {
		if err := store.EndWatch(t.Context(), op); err != nil {
			t.Error(err)
		}
	})
	db.Age(t, op, time.Hour)
	foreign := op
	foreign.Tenant = "other"
	if err := store.EndWatch(t.Context(), foreign); err != nil {
		t.Error(err)
	}
	if err := store.EndWatch(t.Context(), op); err != nil {
		t.Error(err)
	}
	if ended := ledgertest.Get(t, store, op); !ended.WatchUntil.IsZero() || ended.State != ledger.Failed {
		t.Errorf("after its watch: %+v", ended)
	}
	_, err = store.Arguments(t.Context(), op)
	wantError(t, "arguments after the watch", err, ledger.ErrNotFound)
	db.Age(t, op, time.Hour)
	if leased, err := store.LeaseWatched(t.Context(), 10, time.Minute); err != nil || len(leased) != 0 {
		t.Errorf("watched after its end: %v, %v", ids(leased), err)
	}
}

func TestCorrect(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	op := inState(t, store, ledger.Failed)
	o := ledgertest.Opening(acme)
	o.Operation.ArgsHash, o.Sealed, o.Operation.RequestedBy = ledgertest.Hash("corrected"), []byte("corrected"), "agent:second"
	o.Operation.AdapterVersion, o.Operation.ContractVersion = "2", "3"
	fixed, err := store.Correct(t.Context(), op, o)
	if err != nil {
		t.Fatal(err)
	}
	if fixed.ID != op.ID || fixed.State != ledger.Pending || fixed.ArgsHash != o.Operation.ArgsHash || fixed.Epoch != op.Epoch+1 ||
		fixed.Attempt != op.Attempt || fixed.Failure != nil || fixed.RequestHash != nil || fixed.NextAttemptAt.IsZero() || !fixed.WindowEndsAt.IsZero() ||
		fixed.AdapterVersion != "2" || fixed.ContractVersion != "3" || fixed.RequestedBy != op.RequestedBy || fixed.Effect != ledger.EffectNotApplied {
		t.Errorf("corrected to %+v", fixed)
	}
	if sealed, err := store.Arguments(t.Context(), op); err != nil || string(sealed) != "corrected" {
		t.Errorf("arguments %q, %v", sealed, err)
	}
	events := db.Audit(t, op)
	if last := events[len(events)-1]; last.Actor != "agent:second" || last.ArgsHash != o.Operation.ArgsHash || last.Epoch != 1 {
		t.Errorf("audit event %+v", last)
	}
	done := ledgertest.Moved(t, store, ledgertest.Moved(t, store, fixed, ledger.Claim), ledger.Confirm)
	if done.Attempt != 2 || done.State != ledger.Succeeded {
		t.Errorf("the corrected operation ended as %+v", done)
	}

	other := inState(t, store, ledger.Failed)
	for what, stale := range map[string]ledger.Operation{
		"corrected already": op,
		"nothing was tried": withdrawn(t, store),
		"other hash known":  func() ledger.Operation { o := other; o.ArgsHash = ledgertest.Hash("x"); return o }(),
		"other attempt":     func() ledger.Operation { o := other; o.Attempt++; return o }(),
		"of another tenant": func() ledger.Operation { o := other; o.Tenant = "other"; return o }(),
		"believed failed":   func() ledger.Operation { o := inState(t, store, ledger.Unknown); o.State = ledger.Failed; return o }(),
	} {
		row := stale
		row.Tenant = acme
		unchanged(t, db, row, what, func() {
			_, err := store.Correct(t.Context(), stale, o)
			wantError(t, what, err, ledger.ErrFenced)
		})
	}
	_, err = store.Correct(t.Context(), inState(t, store, ledger.Succeeded), o)
	wantError(t, "correction of a success", err, ledger.ErrIllegalMove)
}

func apply(t *testing.T, store *postgres.Store, c ledger.Change) ledger.Operation {
	t.Helper()
	op, err := store.Apply(t.Context(), c)
	if err != nil {
		t.Fatalf("%s of a %s operation: %v", c.Event, c.Operation.State, err)
	}
	return op
}
