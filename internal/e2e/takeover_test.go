package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// slow is an operation whose first worker stands at the provider with an
// expired lease.
type slow struct {
	id     string
	gate   *fakeprovider.Gate
	worker *apptest.Replica
}

// slowWorker sends a request whose worker the fault holds, and lets its lease
// run out.
func slowWorker(t *testing.T, w *apptest.World, act action, hold func(*fakeprovider.Gate) fakeprovider.Fault) slow {
	t.Helper()
	s := slow{gate: fakeprovider.NewGate(), worker: w.Start(t, withoutReconciler)}
	t.Cleanup(s.gate.Release)
	w.Provider.Next(hold(s.gate))
	s.id = w.Ask(t, s.worker, apptest.Waiting(act.request("slow"), 0)).GetOperation().GetId()
	await(t, "the request at the provider", s.gate.Reached())
	endLease(t, w, w.Held(t, s.id))
	return s
}

// finish lets the first worker go, and returns when it has recorded what it
// knows.
func (s slow) finish() {
	s.gate.Release()
	s.worker.Stop()
}

func heldAfter(g *fakeprovider.Gate) fakeprovider.Fault {
	return fakeprovider.Fault{HoldAfter: g}
}
func heldBefore(g *fakeprovider.Gate) fakeprovider.Fault {
	return fakeprovider.Fault{HoldBefore: g}
}

// patientWorkers is a world in which an attempt may take as long as a test.
func patientWorkers(o apptest.Options) apptest.Options {
	o.Demo.Timeout = apptest.Patience
	return o
}

// The late receipt is the one that the reconciler found: no news.
func TestLaw07_LateReceiptOfTheSameEffect(t *testing.T) {
	t.Parallel()
	for _, act := range []action{invoice(), contact()} {
		t.Run(act.name, func(t *testing.T) {
			t.Parallel()
			w := apptest.New(t, patientWorkers(apptest.Options{}))
			s := slowWorker(t, w, act, heldAfter)
			w.Start(t, nil)
			w.WaitFor(t, "acme", s.id, ledger.Succeeded)
			before := w.Database.Row(t, w.Held(t, s.id))
			s.finish()
			op := w.Held(t, s.id)
			if now := w.Database.Row(t, op); now != before || op.Incident != "" {
				t.Errorf("the late receipt changed the row from\n%s\nto\n%s", before, now)
			}
			w.WantOneEffect(t, s.id)
			w.WantTrail(t, s.id, "claim doubt confirm")
			wantSound(t, w)
		})
	}
}

// The provider still works on the first worker's request when the same key
// comes again: one effect, whoever gets its receipt first.
func TestLaw07_ReplayWhileTheFirstIsInFlight(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, patientWorkers(apptest.Options{}))
	s := slowWorker(t, w, refund(), heldAfter)
	w.Start(t, nil)
	eventually(t, w, "the replay", func() bool { return writes(w, "slow") >= 2 })
	s.finish()
	w.WaitFor(t, "acme", s.id, ledger.Succeeded)
	w.WantOneEffect(t, s.id)
	if op := w.Held(t, s.id); op.Incident != "" {
		t.Errorf("incident %q over one effect", op.Incident)
	}
	wantSound(t, w)
}

// The provider breaks its promise and executes one key twice. The second
// receipt overwrites nothing and is told.
func TestLaw07_LateReceiptOfAnotherEffectIsAnIncident(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, patientWorkers(apptest.Options{Provider: fakeprovider.Options{IgnoreKeys: true}}))
	s := slowWorker(t, w, refund(), heldAfter)
	w.Start(t, nil)
	first := w.WaitFor(t, "acme", s.id, ledger.Succeeded)
	s.finish()

	op := w.Held(t, s.id)
	if op.State != ledger.Succeeded || op.ProviderReference != first.ProviderReference || string(op.Receipt) != string(first.Receipt) {
		t.Errorf("the receipt was %s %s and is %s %s", first.ProviderReference, first.Receipt, op.ProviderReference, op.Receipt)
	}
	twice := w.Provider.EffectsFor(s.id)
	if len(twice) != 2 || !strings.Contains(op.Incident, twice[0].ID) || !strings.Contains(op.Incident, twice[1].ID) {
		t.Errorf("incident %q does not name both effects; %s", op.Incident, w.Describe())
	}
	w.WantTrail(t, s.id, "claim doubt replay confirm evidence")
}

// The effect lands after its absence was proved, while the operation waits to
// be tried again: it goes to a person, and nothing is sent again.
func TestLaw07_LateReceiptWhilePending(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, patientWorkers(apptest.Options{Demo: demo.Options{MailSettleTime: 20 * time.Millisecond, ReadGap: 10 * time.Millisecond}}))
	s := slowWorker(t, w, invoice(), heldBefore)
	reconciler := w.Start(t, func(c *app.Config) {
		c.WrapLedger = func(l app.Ledger) app.Ledger { return patient{l} }
	})
	w.WaitFor(t, "acme", s.id, ledger.Pending)
	s.finish()
	op := w.Held(t, s.id)
	if op.State != ledger.NeedsReview || !op.Review.Open() || op.Review.Reason != ledger.Contradicted {
		t.Fatalf("operation is %s with review %+v; %s", op.State, op.Review, w.Describe())
	}
	reconciler.Stop()

	// One that does make deferred attempts finds none.
	r := w.Start(t, nil)
	w.AskIn(t, r, invoice().request("slow"), needsReview)
	if n := writes(w, "slow"); n != 1 {
		t.Errorf("%d writes, want 1; %s", n, w.Describe())
	}
	w.WantEffects(t, 1)
	w.WantTrail(t, s.id, "claim doubt defer escalate")
	wantSound(t, w)
}

// The effect lands after the operation was closed as failed: it is opened again
// for a person.
func TestLaw07_LateReceiptOfAFailedOperation(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, patientWorkers(apptest.Options{Demo: demo.Options{MailSettleTime: 20 * time.Millisecond, ReadGap: 10 * time.Millisecond}}))
	s := slowWorker(t, w, invoice(), heldBefore)
	reconciler := w.Start(t, func(c *app.Config) {
		c.WrapLedger = func(l app.Ledger) app.Ledger { return patient{l} }
	})
	w.WaitFor(t, "acme", s.id, ledger.Pending)
	cancelled, err := reconciler.Actions.CancelOperation(apptest.As(t.Context(), w.Agent), &oncewardv1.CancelOperationRequest{OperationId: s.id})
	if err != nil || cancelled.GetOperation().GetState() != failed {
		t.Fatalf("cancelling: %v, %v", cancelled, err)
	}
	reconciler.Stop() // it would look for a late landing itself
	s.finish()
	op := w.Held(t, s.id)
	if op.State != ledger.NeedsReview || op.Effect != ledger.EffectApplied || !op.Review.Open() {
		t.Errorf("operation is %s with effect %s and review %+v", op.State, op.Effect, op.Review)
	}
	w.WantTrail(t, s.id, "claim doubt defer cancel contradict")
	w.WantEffects(t, 1)
	wantSound(t, w)
}

// The worker is dead and the effect lands all the same, after the operation was
// closed: the reconciler still looks.
func TestKillBeforeALateLanding(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, patientWorkers(apptest.Options{Demo: demo.Options{MailSettleTime: 20 * time.Millisecond, ReadGap: 10 * time.Millisecond}}))
	gate := fakeprovider.NewGate()
	t.Cleanup(gate.Release)
	w.Provider.Next(heldBefore(gate))
	child := w.StartChild(t, apptest.ChildOptions{NoReconciler: true})
	id := w.Ask(t, child.Replica, apptest.Waiting(invoice().request("ghost"), 0)).GetOperation().GetId()
	await(t, "the request at the provider", gate.Reached())
	child.Kill()
	endLease(t, w, w.Held(t, id))

	r := w.Start(t, func(c *app.Config) {
		c.WrapLedger = func(l app.Ledger) app.Ledger { return patient{l} }
	})
	w.WaitFor(t, "acme", id, ledger.Pending)
	if _, err := r.Actions.CancelOperation(apptest.As(t.Context(), w.Agent), &oncewardv1.CancelOperationRequest{OperationId: id}); err != nil {
		t.Fatal(err)
	}
	gate.Release()
	provided(t, w.Provider.WaitEffects, 1)
	w.Database.Age(t, w.Held(t, id), 20*time.Second) // the next look is due
	if op := w.WaitFor(t, "acme", id, ledger.NeedsReview); op.Review.Reason != ledger.Contradicted || op.ProviderReference != w.Provider.Effects()[0].ID {
		t.Errorf("review %+v with reference %q", op.Review, op.ProviderReference)
	}
	w.WantTrail(t, id, "claim doubt defer cancel contradict")
	w.WantEffects(t, 1)
	wantSound(t, w)
}
