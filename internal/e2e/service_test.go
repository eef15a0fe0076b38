package e2e

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// A caller who does not wait is answered at once, and the action goes on.
func TestNoWaitIsAcceptedAndSucceeds(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	gate := fakeprovider.NewGate()
	t.Cleanup(gate.Release)
	w.Provider.Next(heldBefore(gate))
	resp := w.AskIn(t, r, apptest.Waiting(refund().request("nowait"), 0), running)
	if resp.GetDisposition() != accepted || resp.GetNextStep().GetKind() != oncewardv1.NextStepKind_NEXT_STEP_KIND_WAIT || resp.GetNextStep().GetRetryAfter() == nil {
		t.Errorf("got %v", resp)
	}
	gate.Release()
	again := w.AskIn(t, r, refund().request("nowait"), succeeded)
	w.WantOneEffect(t, again.GetOperation().GetId())
	w.WantTrail(t, again.GetOperation().GetId(), "claim confirm")
	wantSound(t, w)
}

// A watch sends the operation as it is, its changes, and ends with it; also on
// another replica.
func TestWatchOperation(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	replicas := []*apptest.Replica{w.Start(t, nil), w.Start(t, withoutReconciler)}
	var gates []*fakeprovider.Gate
	for range 2 {
		gate := fakeprovider.NewGate()
		t.Cleanup(gate.Release)
		gates = append(gates, gate)
	}
	w.Provider.Next(
		fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying, HoldAfter: gates[0]},
		fakeprovider.Fault{HoldBefore: gates[1]},
	)
	id := w.Ask(t, replicas[0], apptest.Waiting(refund().request("watched"), 0)).GetOperation().GetId()
	var streams []interface {
		Recv() (*oncewardv1.WatchOperationResponse, error)
	}
	for _, r := range replicas {
		stream, err := r.Actions.WatchOperation(apptest.As(t.Context(), w.Agent), &oncewardv1.WatchOperationRequest{OperationId: id})
		if err != nil {
			t.Fatal(err)
		}
		if first, err := stream.Recv(); err != nil || first.GetOperation().GetState() != running || len(first.GetOperation().GetAttempts()) != 1 {
			t.Fatalf("first message %v, %v", first, err)
		}
		streams = append(streams, stream)
	}
	gates[0].Release() // the first attempt is in doubt, the second is made
	for i, stream := range streams {
		for attempts := 1; attempts < 2; {
			next, err := stream.Recv()
			if err != nil {
				t.Fatalf("stream %d: %v", i, err)
			}
			attempts = len(next.GetOperation().GetAttempts())
		}
	}
	gates[1].Release()
	for i, stream := range streams {
		var last *oncewardv1.Operation
		for {
			next, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("stream %d: %v", i, err)
			}
			last = next.GetOperation()
		}
		if last.GetState() != succeeded || last.GetReceipt() == nil {
			t.Errorf("stream %d ended with %v", i, last)
		}
	}
	w.WantOneEffect(t, id)
	wantSound(t, w)
}

// A replica that is told to stop answers its callers, finishes what is under
// way and loses nothing.
func TestShutdownUnderLoad(t *testing.T) {
	t.Parallel()
	const callers = 40
	w := apptest.New(t, apptest.Options{})
	leaving := w.Start(t, withoutReconciler)
	gate := fakeprovider.NewGate()
	t.Cleanup(gate.Release)
	w.Provider.Next(fakeprovider.Fault{HoldAfter: gate, Times: callers})
	answers := make(chan answer, callers)
	for i := range callers {
		go func() {
			resp, err := w.Try(t.Context(), leaving, refund().request(fmt.Sprintf("leaving_%d", i)))
			answers <- answer{resp, err}
		}()
	}
	provided(t, w.Provider.WaitEffects, callers)
	stopped := make(chan struct{})
	go func() { leaving.Stop(); close(stopped) }()
	ids := map[string]bool{}
	for range callers {
		got := <-answers
		if got.err != nil {
			t.Fatalf("a caller of a replica that leaves got %v", got.err)
		}
		if got.resp.GetOperation().GetState() != running || got.resp.GetDisposition() != accepted {
			t.Errorf("a caller of a replica that leaves got %v", got.resp)
		}
		ids[got.resp.GetOperation().GetId()] = true
	}
	gate.Release()
	await(t, "the end of the replica", stopped)
	for id := range ids {
		w.WantOneEffect(t, id)
		w.WantTrail(t, id, "claim confirm")
	}
	if len(ids) != callers {
		t.Errorf("%d operations for %d callers", len(ids), callers)
	}
	wantSound(t, w)
}

// An adapter that panics or forgets to classify has proved nothing: a person
// decides, and nothing is sent again.
func TestLaw03_AdapterThatProvesNothing(t *testing.T) {
	t.Parallel()
	panics := newScripted("test.panics", func(actions.Call) actions.Outcome { panic("a bug") })
	forgets := newScripted("test.forgets", func(actions.Call) actions.Outcome { return actions.Outcome{} })
	empty := newScripted("test.empty", func(actions.Call) actions.Outcome { return actions.Outcome{Kind: actions.Applied} })
	rubbish := newScripted("test.rubbish", func(actions.Call) actions.Outcome { return actions.Outcome{Kind: 99} })
	adapters := []scripted{panics, forgets, empty, rubbish}
	w := apptest.New(t, apptest.Options{Adapters: []actions.Adapter{panics, forgets, empty, rubbish}})
	r := w.Start(t, nil)
	for _, a := range adapters {
		req := note().request(a.spec.Type)
		req.ActionType = a.spec.Type
		resp := w.AskIn(t, r, req, needsReview)
		op := resp.GetOperation()
		if reason := op.GetReview().GetReason(); reason != oncewardv1.ReviewReason_REVIEW_REASON_INCONCLUSIVE {
			t.Errorf("%s: review for %s", a.spec.Type, reason)
		}
		if kind := resp.GetNextStep().GetKind(); kind != oncewardv1.NextStepKind_NEXT_STEP_KIND_ASK_HUMAN {
			t.Errorf("%s: next step %s", a.spec.Type, kind)
		}
		if again := w.AskIn(t, r, req, needsReview); again.GetOperation().GetId() != op.GetId() {
			t.Errorf("%s: the key leads to %s", a.spec.Type, again.GetOperation().GetId())
		}
		if n := a.calls.Load(); n != 1 {
			t.Errorf("%s was called %d times", a.spec.Type, n)
		}
		w.WantTrail(t, op.GetId(), "claim doubt escalate")
	}
	wantSound(t, w)
}

// One process serves and another reconciles: together they do the whole.
func TestRolesInTwoProcesses(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	api := w.Start(t, withoutReconciler)
	w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying}, fakeprovider.Fault{Kind: fakeprovider.RateLimited})
	first := w.Ask(t, api, apptest.Waiting(invoice().request("roles"), 0)).GetOperation().GetId()
	w.WaitFor(t, "acme", first, ledger.Unknown)
	second := w.Ask(t, api, apptest.Waiting(contact().request("roles"), 0)).GetOperation().GetId()
	w.WaitFor(t, "acme", second, ledger.Pending)
	w.Start(t, func(c *app.Config) {
		if err := c.Listener.Close(); err != nil {
			t.Error(err)
		}
		c.Listener = nil
	})
	// The API hears of what the other process does.
	w.AskIn(t, api, invoice().request("roles"), succeeded)
	w.AskIn(t, api, contact().request("roles"), succeeded)
	w.WantOneEffect(t, first)
	w.WantOneEffect(t, second)
	wantSound(t, w)
}

// As many attempts as may be are under way: another action is refused, with
// nothing on record.
func TestOverload(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, func(c *app.Config) { c.MaxInFlight, c.Reconcile = 1, false })
	gate := fakeprovider.NewGate()
	t.Cleanup(gate.Release)
	w.Provider.Next(heldAfter(gate))
	req := refund().request("first")
	id := w.AskIn(t, r, apptest.Waiting(req, 0), running).GetOperation().GetId()
	await(t, "the request at the provider", gate.Reached())
	_, err := w.Try(t.Context(), r, refund().request("second"))
	if st := apptest.WantReason(t, err, codes.ResourceExhausted, "OVERLOADED"); !hasRetryInfo(st) {
		t.Errorf("no RetryInfo in %v", st.Details())
	}
	if op := theOnly(t, w); op.ID != id {
		t.Errorf("the ledger holds %s, want %s", op.ID, id)
	}
	// A duplicate needs no place, and a mismatch is one whatever the load.
	if again := w.AskIn(t, r, apptest.Waiting(req, 0), running); again.GetDisposition() != joined || again.GetOperation().GetId() != id {
		t.Errorf("the duplicate got %v", again)
	}
	other := refund().request("other")
	other.Run = req.GetRun()
	_, err = w.Try(t.Context(), r, other)
	apptest.WantReason(t, err, codes.FailedPrecondition, keyReused)
	gate.Release()
	w.WaitFor(t, "acme", id, ledger.Succeeded)
	eventually(t, w, "the place is free again", func() bool {
		_, err := w.Try(t.Context(), r, refund().request("second"))
		return err == nil
	})
	w.WantEffects(t, 2)
	wantSound(t, w)
}
