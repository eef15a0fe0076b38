package e2e

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

const (
	correctArguments = oncewardv1.NextStepKind_NEXT_STEP_KIND_CORRECT_ARGUMENTS
	stop             = oncewardv1.NextStepKind_NEXT_STEP_KIND_STOP
	notCorrectable   = "NOT_CORRECTABLE"
)

// An explicit, permanent refusal ends the operation: nothing was applied, and
// the planner hears whether other arguments could help.
func TestPermanentRefusals(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	for _, c := range []struct {
		name   string
		status int
		next   oncewardv1.NextStepKind
	}{
		{"validation", 422, correctArguments},
		{"malformed", 400, correctArguments},
		{"no_such_thing", 404, correctArguments},
		{"unauthenticated", 401, stop},
		{"forbidden", 403, stop},
	} {
		for _, act := range onProvider() {
			t.Run(c.name+"/"+act.name, func(t *testing.T) {
				t.Parallel()
				name := c.name + "_" + act.name
				forRequest(w, name, fakeprovider.Fault{Kind: fakeprovider.Reject, Status: c.status})
				resp := w.AskIn(t, r, act.request(name), failed)
				op := resp.GetOperation()
				if op.GetEffect() != oncewardv1.Effect_EFFECT_NOT_APPLIED || resp.GetNextStep().GetKind() != c.next {
					t.Errorf("effect %s, next step %v; want not applied and %s", op.GetEffect(), resp.GetNextStep(), c.next)
				}
				if op.GetFailure().GetCode() != "rejected" || op.GetFailure().GetCorrectable() != (c.next == correctArguments) {
					t.Errorf("failure is %v", op.GetFailure())
				}
				if n := w.EffectsOf(t, op.GetId()); n != 0 || writes(w, name) != 1 {
					t.Errorf("%d effects of %d writes, want none of one", n, writes(w, name))
				}
				w.WantTrail(t, op.GetId(), "claim refuse")
			})
		}
	}
}

// A refusal that follows doubt says nothing about the attempt before: it does
// not end the operation.
func TestLaw03_RefusalAfterDoubtIsNoProof(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	w.Provider.Next(
		fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying},
		fakeprovider.Fault{Kind: fakeprovider.Reject, Status: 422}, // the replay, at a front door in a bad mood
	)
	op := w.AskIn(t, r, refund().request("moody"), succeeded).GetOperation()
	w.WantOneEffect(t, op.GetId())
	w.WantTrail(t, op.GetId(), "claim doubt replay doubt confirm")
	wantSound(t, w)
}

// A correction succeeds under the same key, with a provider key of its own, and
// both lives of the operation are on record.
func TestCorrectionOfARefusedOperation(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	wrong := refund().request("missing_7") // the charge is ch_missing_7
	refused := w.AskIn(t, r, wrong, failed).GetOperation()
	if refused.GetFailure().GetCode() != "charge_not_found" {
		t.Fatalf("failure is %v", refused.GetFailure())
	}

	right := proto.CloneOf(wrong)
	right.ArgumentsForm = refund().request("right").GetArgumentsForm()
	right.CorrectsOperationId = refused.GetId()
	resp := w.AskIn(t, r, right, succeeded)
	op := resp.GetOperation()
	if op.GetId() != refused.GetId() || op.GetIdempotencyKey() != refused.GetIdempotencyKey() || op.GetArgumentsHash() == refused.GetArgumentsHash() {
		t.Errorf("the corrected operation is %v, the refused one was %v", op, refused)
	}
	w.WantOneEffect(t, op.GetId())
	w.WantTrail(t, op.GetId(), "claim refuse correct claim confirm")
	audit := w.Database.Audit(t, ledger.Operation{Tenant: "acme", ID: op.GetId()})
	if c := audit[2]; c.Actor != "planner" || c.Epoch != audit[1].Epoch+1 || c.ArgsHash == audit[1].ArgsHash {
		t.Errorf("the audit record of the correction is %+v after %+v", c, audit[1])
	}
	sent := w.Provider.Requests()
	if len(sent) != 2 || sent[0].Key == sent[1].Key {
		t.Errorf("the correction was sent with the key of what it corrects; %s", w.Describe())
	}

	// The correction delivered again is a duplicate, and the wrong arguments are
	// other arguments now.
	if again := w.AskIn(t, r, right, succeeded); !again.GetReplayed() || !proto.Equal(again.GetOperation().GetReceipt(), op.GetReceipt()) {
		t.Errorf("the correction, delivered again, got %v", again)
	}
	_, err := w.Try(t.Context(), r, wrong)
	apptest.WantReason(t, err, codes.FailedPrecondition, keyReused)
	w.WantEffects(t, 1)
	wantSound(t, w)
}

// Only what was proved not applied can be corrected.
func TestCorrectionIsRefused(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, withoutReconciler)
	for _, c := range []struct {
		state ledger.State
		fault fakeprovider.Fault
	}{
		{ledger.Succeeded, fakeprovider.Fault{}},
		{ledger.Unknown, fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying}},
	} {
		t.Run(string(c.state), func(t *testing.T) {
			name := "firm_" + string(c.state)
			forRequest(w, name, c.fault)
			req := apptest.Waiting(refund().request(name), 0)
			op := w.WaitFor(t, "acme", w.Ask(t, r, req).GetOperation().GetId(), c.state)
			before := state(t, w, op)
			other := proto.CloneOf(req)
			other.ArgumentsForm = refund().request(name + "_other").GetArgumentsForm()
			other.CorrectsOperationId = op.ID
			_, err := w.Try(t.Context(), r, other)
			apptest.WantReason(t, err, codes.FailedPrecondition, notCorrectable)
			if now := state(t, w, op); now != before {
				t.Errorf("it was\n%s\nand is now\n%s", before, now)
			}
		})
	}
}
