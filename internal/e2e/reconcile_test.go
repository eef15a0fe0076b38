package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// The provider is slower than the attempt may take, and has applied it: the
// reconciler finds the effect.
func TestReconciliationFindsTheEffectAfterATimeout(t *testing.T) {
	t.Parallel()
	for _, act := range onProvider() {
		t.Run(act.name, func(t *testing.T) {
			t.Parallel()
			w := apptest.New(t, apptest.Options{Demo: demo.Options{Timeout: 300 * time.Millisecond}})
			r := w.Start(t, nil)
			w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.NeverAnswer, Apply: true})
			op := w.AskIn(t, r, act.request("slow"), succeeded).GetOperation()
			w.WantOneEffect(t, op.GetId())
			if writes(w, "slow") > 1 && act.name != "refund" {
				t.Errorf("it was sent again to a provider without keys; %s", w.Describe())
			}
			wantSound(t, w)
		})
	}
}

// A search that lags finds nothing for a while. That is believed only after the
// settle time: the effect shows up, and nothing was sent again.
func TestLaw04_AbsenceIsNotBelievedBeforeTheSettleTime(t *testing.T) {
	t.Parallel()
	clock := fakeprovider.NewManualClock(time.Now())
	w := apptest.New(t, apptest.Options{
		Provider: fakeprovider.Options{Clock: clock},
		Demo:     demo.Options{MailSettleTime: time.Hour, ReadGap: 10 * time.Millisecond},
	})
	r := w.Start(t, nil)
	w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying, LookupLag: time.Minute})
	id := w.Ask(t, r, apptest.Waiting(invoice().request("lagging"), 0)).GetOperation().GetId()
	// More negative reads than the contract asks for.
	eventually(t, w, "look-ups that find nothing", func() bool { return requests(w, "GET", id) >= 4 })
	if op := w.Held(t, id); op.State != ledger.Unknown || op.NegativeReads != 0 {
		t.Fatalf("after early reads the operation is %s, with %d reads that count", op.State, op.NegativeReads)
	}
	clock.Advance(2 * time.Minute)
	w.WaitFor(t, "acme", id, ledger.Succeeded)
	w.WantOneEffect(t, id)
	w.WantTrail(t, id, "claim doubt confirm")
	if n := writes(w, "lagging"); n != 1 {
		t.Errorf("%d writes, want 1; %s", n, w.Describe())
	}
	wantSound(t, w)
}

// Nothing was applied: absence counts after the settle time and the contract's
// number of reads, and the same operation is tried again, once.
func TestAbsenceIsProvedAndTheRetryMadeOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		act   action
		reads string // what names the operation in its look-ups; empty: its id
	}{{invoice(), ""}, {contact(), "absent@example.test"}} {
		t.Run(c.act.name, func(t *testing.T) {
			t.Parallel()
			w := apptest.New(t, apptest.Options{Demo: demo.Options{
				MailSettleTime: time.Hour, ArrivalTime: time.Hour, ReadGap: 10 * time.Millisecond,
			}})
			// Two reconcilers: the retry is made by one of them.
			r := w.Start(t, nil)
			w.Start(t, nil)
			w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.DropBeforeReading})
			req := c.act.request("absent")
			id := w.Ask(t, r, apptest.Waiting(req, 0)).GetOperation().GetId()
			name := c.reads
			if name == "" {
				name = id
			}
			eventually(t, w, "look-ups before the settle time", func() bool { return requests(w, "GET", name) >= 3 })
			if n := writes(w, "absent"); n != 1 {
				t.Fatalf("%d writes before absence was proved; %s", n, w.Describe())
			}
			early := requests(w, "GET", name)
			w.Database.Age(t, w.Held(t, id), 2*time.Hour)
			w.WaitFor(t, "acme", id, ledger.Succeeded)
			if n := requests(w, "GET", name) - early; n < 2 {
				t.Errorf("absence was believed after %d reads, want 2", n)
			}
			if n := writes(w, "absent"); n != 2 {
				t.Errorf("%d writes, want the first and one more; %s", n, w.Describe())
			}
			w.WantTrail(t, id, "claim doubt defer claim confirm")
			w.WantOneEffect(t, id)
			if again := w.AskIn(t, r, req, succeeded); again.GetOperation().GetId() != id || !again.GetReplayed() {
				t.Errorf("the key leads to %v", again)
			}
			wantSound(t, w)
		})
	}
}

// A look-up that finds two effects goes to a person, and nothing is sent.
func TestLookUpFindsTwo(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying, DuplicateLookup: true})
	resp := w.AskIn(t, r, invoice().request("twice"), needsReview)
	if review := resp.GetOperation().GetReview(); review.GetReason() != oncewardv1.ReviewReason_REVIEW_REASON_CONTRADICTED {
		t.Errorf("review is %v", review)
	}
	if kind := resp.GetNextStep().GetKind(); kind != oncewardv1.NextStepKind_NEXT_STEP_KIND_ASK_HUMAN {
		t.Errorf("next step is %s", kind)
	}
	w.WantTrail(t, resp.GetOperation().GetId(), "claim doubt escalate")
	if n := writes(w, "twice"); n != 1 {
		t.Errorf("%d writes, want 1; %s", n, w.Describe())
	}
	wantSound(t, w)
}

// The name is taken by something that we did not make: a failure that says so,
// and no effect of ours.
func TestContactOfSomebodyElse(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	theirs := contact().request("taken")
	w.AskIn(t, r, apptest.Keyed(theirs, "one"), succeeded)
	resp := w.AskIn(t, r, apptest.Keyed(theirs, "another"), failed)
	op := resp.GetOperation()
	if op.GetFailure().GetCode() != "taken_by_another" || resp.GetNextStep().GetKind() != correctArguments {
		t.Errorf("failure is %v, next step %v", op.GetFailure(), resp.GetNextStep())
	}
	w.WantTrail(t, op.GetId(), "claim doubt refuse")
	w.WantEffects(t, 1)
	wantSound(t, w)
}

// Proof of no effect defers the operation, and the same key is used again.
func TestDeferredAttemptsUseTheSameKey(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	for i, fault := range []fakeprovider.Fault{
		{Kind: fakeprovider.RateLimited},
		{Kind: fakeprovider.ErrorBeforeApplying},
	} {
		name := fmt.Sprintf("later_%d", i)
		forRequest(w, name, fault)
		op := w.AskIn(t, r, refund().request(name), succeeded).GetOperation()
		w.WantOneEffect(t, op.GetId())
		keys := map[string]bool{}
		for _, sent := range w.Provider.Requests() {
			if sent.OperationID == op.GetId() {
				keys[sent.Key] = true
			}
		}
		if len(keys) != 1 || writes(w, name) != 2 {
			t.Errorf("%d writes with %d keys, want two with one; %s", writes(w, name), len(keys), w.Describe())
		}
	}
	wantSound(t, w)
}

// A connection that is refused proves that nothing was sent.
func TestProviderRefusesConnections(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	if err := w.ProviderServer.Pause(); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, act := range onProvider() {
		id := w.Ask(t, r, apptest.Waiting(act.request("closed"), 0)).GetOperation().GetId()
		if op := w.WaitFor(t, "acme", id, ledger.Pending); op.Effect != ledger.EffectNotApplied {
			t.Errorf("%s: effect is %s, want not applied", act.name, op.Effect)
		}
		ids = append(ids, id)
	}
	if err := w.ProviderServer.Resume(); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		w.WaitFor(t, "acme", id, ledger.Succeeded)
		w.WantOneEffect(t, id)
	}
	wantSound(t, w)
}
