package e2e

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

const keyReused = "IDEMPOTENCY_KEY_REUSED"

// The same key with other arguments, or for another action, is refused in each
// state of the operation, and nothing changes.
func TestLaw05_OtherArgumentsInEachState(t *testing.T) {
	t.Parallel()
	approved := newScripted("test.approved", func(actions.Call) actions.Outcome { return actions.Outcome{} })
	approved.spec.RequiresApproval = true
	w := apptest.New(t, apptest.Options{Adapters: []actions.Adapter{approved}})
	// No reconciler: each operation stays in its state.
	a, b := w.Start(t, withoutReconciler), w.Start(t, withoutReconciler)
	gate := fakeprovider.NewGate()
	t.Cleanup(gate.Release)

	for _, c := range []struct {
		state ledger.State
		fault fakeprovider.Fault
	}{
		{ledger.Running, fakeprovider.Fault{HoldBefore: gate}},
		{ledger.Succeeded, fakeprovider.Fault{}},
		{ledger.Failed, fakeprovider.Fault{Kind: fakeprovider.Reject}},
		{ledger.Unknown, fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying}},
		{ledger.Pending, fakeprovider.Fault{Kind: fakeprovider.RateLimited, RetryAfter: time.Hour}},
		{ledger.NeedsReview, fakeprovider.Fault{}},
	} {
		t.Run(string(c.state), func(t *testing.T) {
			name, key := "state_"+string(c.state), "key-"+string(c.state)
			req := apptest.Keyed(apptest.Waiting(refund().request(name), 0), key)
			if c.state == ledger.NeedsReview {
				req.ActionType, req.ArgumentsForm = "test.approved", &oncewardv1.RequestActionRequest_ArgumentsJson{ArgumentsJson: `{"n":1}`}
			} else {
				forRequest(w, name, c.fault)
			}
			op := w.WaitFor(t, "acme", w.Ask(t, a, req).GetOperation().GetId(), c.state)
			if c.state == ledger.Running {
				await(t, "the request at the provider", gate.Reached())
			}
			before := state(t, w, op)

			other := proto.CloneOf(req)
			other.ArgumentsForm = apptest.Keyed(refund().request(name+"_other"), key).GetArgumentsForm()
			for path, refused := range map[string]*oncewardv1.RequestActionRequest{
				"other arguments": other,
				"another action":  apptest.Keyed(note().request(name), key),
			} {
				for _, r := range []*apptest.Replica{a, b} {
					_, err := w.Try(t.Context(), r, refused)
					apptest.WantReason(t, err, codes.FailedPrecondition, keyReused)
					_, err = r.Actions.PreviewAction(apptest.As(t.Context(), w.Agent), &oncewardv1.PreviewActionRequest{Request: refused})
					apptest.WantReason(t, err, codes.FailedPrecondition, keyReused)
				}
				if now := state(t, w, op); now != before {
					t.Errorf("%s changed something: it was\n%s\nand is now\n%s", path, before, now)
				}
			}
			// The key still answers for its own arguments.
			if again := w.Ask(t, b, req); again.GetOperation().GetId() != op.ID {
				t.Errorf("the key leads to %s, not to %s", again.GetOperation().GetId(), op.ID)
			}
		})
	}
}

// Two requests with one key and different arguments arrive at once: one wins,
// whichever, and the other is refused.
func TestLaw05_OtherArgumentsAtTheSameMoment(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	a, b := w.Start(t, nil), w.Start(t, nil)
	for round := range 10 {
		key := fmt.Sprintf("race-%d", round)
		var errs [2]error
		var callers sync.WaitGroup
		for i, r := range []*apptest.Replica{a, b} {
			callers.Go(func() {
				_, errs[i] = w.Try(t.Context(), r, apptest.Keyed(refund().request(fmt.Sprintf("%s_%d", key, i)), key))
			})
		}
		callers.Wait()
		loser := 1
		if errs[0] != nil {
			loser = 0
		}
		if errs[1-loser] != nil {
			t.Fatalf("both are refused: %v", errs)
		}
		apptest.WantReason(t, errs[loser], codes.FailedPrecondition, keyReused)
		if n := len(w.Provider.Effects()); n != round+1 {
			t.Fatalf("%d effects after %d rounds; %s", n, round+1, w.Describe())
		}
	}
	wantSound(t, w)
}

// An argument that does not identify the action may differ: the first one is
// what was sent.
func TestAdvisoryArgumentIsNoMismatch(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	req := refund().request("noted")
	first := w.AskIn(t, r, req, succeeded)
	reworded := proto.CloneOf(req)
	reworded.ArgumentsForm = &oncewardv1.RequestActionRequest_ArgumentsJson{
		ArgumentsJson: `{"charge_id":"ch_noted","amount":500,"currency":"usd","reason":"the customer asked, politely"}`}
	again := w.AskIn(t, r, reworded, succeeded)
	wantOneReceipt(t, w, []answer{{resp: first}, {resp: again}}, 1)
	w.WantEffects(t, 1)
	wantSound(t, w)
}

// state is everything that a refused request must leave as it was.
func state(t testing.TB, w *apptest.World, op ledger.Operation) string {
	t.Helper()
	return fmt.Sprintf("row %s\naudit %v\nattempts %d, operations %d, effects %d, requests %d", w.Database.Row(t, op), w.Database.Audit(t, op),
		w.Database.Count(t, `SELECT count(*) FROM attempts`), w.Database.Count(t, `SELECT count(*) FROM operations`),
		len(w.Provider.Effects()), len(w.Provider.Requests()))
}
