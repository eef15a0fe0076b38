package e2e

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// The process dies at a crash point and another takes over: one effect, a
// receipt, nothing stuck.
func TestCrashAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		point apptest.CrashPoint
		left  ledger.State // what the crash leaves in the ledger; New: nothing
		trail map[string]string
	}{
		{apptest.BeforeClaim, ledger.New, map[string]string{
			"refund": "claim confirm", "invoice": "claim confirm", "contact": "claim confirm", "note": "claim confirm"}},
		{apptest.AfterClaim, ledger.Running, map[string]string{
			"refund": "claim doubt replay confirm", "invoice": "claim doubt defer claim confirm",
			"contact": "claim doubt defer claim confirm", "note": "claim doubt defer claim confirm"}},
		{apptest.BeforeSettle, ledger.Running, map[string]string{
			"refund": "claim doubt replay confirm", "invoice": "claim doubt confirm",
			"contact": "claim doubt confirm", "note": "claim doubt defer claim confirm"}},
		{apptest.AfterSettle, ledger.Succeeded, map[string]string{
			"refund": "claim confirm", "invoice": "claim confirm", "contact": "claim confirm", "note": "claim confirm"}},
	} {
		for _, act := range everyAction() {
			t.Run(string(c.point)+"/"+act.name, func(t *testing.T) {
				t.Parallel()
				w := apptest.New(t, apptest.Options{})
				child := w.StartChild(t, apptest.ChildOptions{Crash: c.point})
				if c.point == apptest.AfterSettle {
					// The poll of others' work may tell of the commit before the process is
					// dead: then it is the truth that the caller gets.
					resp, err := w.Try(t.Context(), child.Replica, act.request("crash"))
					if told := err == nil && resp.GetOperation().GetState() == succeeded; !told && status.Code(err) != codes.Unavailable {
						t.Fatalf("the caller of a process that died got %v, %v", resp, err)
					}
				} else {
					wantLeftAlone(t, w, child, act.request("crash"))
				}
				child.WaitExit(t)
				if c.left != ledger.New {
					op := theOnly(t, w)
					if op.State != c.left {
						t.Fatalf("the crash left the operation %s, want %s", op.State, c.left)
					}
					if c.left == ledger.Running {
						endLease(t, w, op)
					}
				} else if n := w.Database.Count(t, `SELECT count(*) FROM operations`); n != 0 {
					t.Fatalf("%d operations are on record before the claim", n)
				}

				next := w.Start(t, nil)
				resp := w.AskIn(t, next, act.request("crash"), succeeded)
				// What was in doubt may have been resolved before it was asked for.
				if c.left != ledger.Running && resp.GetReplayed() != (c.left == ledger.Succeeded) {
					t.Errorf("replayed is %v", resp.GetReplayed())
				}
				w.WantOneEffect(t, resp.GetOperation().GetId())
				w.WantTrail(t, resp.GetOperation().GetId(), c.trail[act.name])
				wantSound(t, w)
			})
		}
	}
}

// The process dies while the provider holds the answer to what it has applied;
// another process takes over.
func TestKillWhileTheProviderHoldsTheAnswer(t *testing.T) {
	t.Parallel()
	for _, act := range onProvider() {
		t.Run(act.name, func(t *testing.T) {
			t.Parallel()
			w := apptest.New(t, apptest.Options{})
			gate := fakeprovider.NewGate()
			t.Cleanup(gate.Release)
			w.Provider.Next(fakeprovider.Fault{HoldAfter: gate})
			child := w.StartChild(t, apptest.ChildOptions{})
			left := make(chan error, 1)
			go func() {
				_, err := w.Try(t.Context(), child.Replica, act.request("held"))
				left <- err
			}()
			await(t, "the request at the provider", gate.Reached())
			w.WantEffects(t, 1)
			child.Kill()
			if err := <-left; status.Code(err) != codes.Unavailable {
				t.Errorf("the caller of a killed process got %v", err)
			}
			gate.Release()

			endLease(t, w, theOnly(t, w))
			next := w.StartChild(t, apptest.ChildOptions{})
			resp := w.AskIn(t, next.Replica, act.request("held"), succeeded)
			w.WantOneEffect(t, resp.GetOperation().GetId())
			wantSound(t, w)
		})
	}
}

// The reconciler dies in mid-work and another one takes over.
func TestCrashOfTheReconciler(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		act   action
		point apptest.CrashPoint
		left  ledger.State
		trail string
	}{
		{refund(), apptest.AfterLease, ledger.Unknown, "claim doubt replay confirm"},
		{refund(), apptest.BeforeSettle, ledger.Running, "claim doubt replay doubt replay confirm"},
		{refund(), apptest.AfterSettle, ledger.Succeeded, "claim doubt replay confirm"},
		{invoice(), apptest.AfterLease, ledger.Unknown, "claim doubt confirm"},
		{invoice(), apptest.BeforeMove, ledger.Unknown, "claim doubt confirm"},
		{contact(), apptest.BeforeMove, ledger.Unknown, "claim doubt confirm"},
	} {
		t.Run(c.act.name+"/"+string(c.point), func(t *testing.T) {
			t.Parallel()
			w := apptest.New(t, apptest.Options{})
			w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying})
			serving := w.Start(t, withoutReconciler)
			id := w.Ask(t, serving, apptest.Waiting(c.act.request("crash"), 0)).GetOperation().GetId()
			w.WaitFor(t, "acme", id, ledger.Unknown)

			w.StartChild(t, apptest.ChildOptions{Crash: c.point}).WaitExit(t)
			op := w.Held(t, id)
			if op.State != c.left {
				t.Fatalf("the reconciler left the operation %s, want %s", op.State, c.left)
			}
			if op.State != ledger.Succeeded {
				endLease(t, w, op)
			}
			w.Start(t, nil)
			w.WaitFor(t, "acme", id, ledger.Succeeded)
			w.WantOneEffect(t, id)
			w.WantTrail(t, id, c.trail)
			wantSound(t, w)
		})
	}
}

// wantLeftAlone sends a request to a child that dies of it.
func wantLeftAlone(t *testing.T, w *apptest.World, child *apptest.Child, req *oncewardv1.RequestActionRequest) {
	t.Helper()
	resp, err := w.Try(t.Context(), child.Replica, req)
	if err == nil || status.Code(err) != codes.Unavailable {
		t.Fatalf("the caller of a process that died got %v, %v", resp, err)
	}
}
