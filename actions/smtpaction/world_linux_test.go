//go:build opensmtpd

package smtpaction_test

import (
	"os"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/internal/pgtest"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func mailRequest(run string) *oncewardv1.RequestActionRequest {
	return &oncewardv1.RequestActionRequest{
		ActionType:    "mail.invoice.send",
		ArgumentsForm: &oncewardv1.RequestActionRequest_ArgumentsJson{ArgumentsJson: `{}`},
		Run:           &oncewardv1.RunContext{RunId: run, StepId: "mail", Agent: "test"},
		Wait:          durationpb.New(apptest.Patience),
	}
}

// A request through a whole Onceward to a real server, and its duplicate: one
// mail, one receipt.
func TestThroughOncewardToARealServer(t *testing.T) {
	t.Parallel()
	box := opensmtpd(t)
	o := options(box.port)
	o.Message = local
	w := apptest.New(t, apptest.Options{Adapters: []actions.Adapter{action(t, o)}})
	r := w.Start(t, nil)
	first := w.AskIn(t, r, mailRequest("run_1"), oncewardv1.OperationState_OPERATION_STATE_SUCCEEDED)
	again := w.Ask(t, r, mailRequest("run_1"))
	if !again.GetReplayed() || !proto.Equal(first.GetOperation().GetReceipt(), again.GetOperation().GetReceipt()) {
		t.Errorf("the duplicate got %v, want %v", again, first)
	}
	w.AskIn(t, r, mailRequest("run_2"), oncewardv1.OperationState_OPERATION_STATE_SUCCEEDED)
	mails := box.delivered(t, 2)
	if mails[0].Header.Get("Message-Id") == mails[1].Header.Get("Message-Id") {
		t.Errorf("two operations share the Message-ID %s", mails[0].Header.Get("Message-Id"))
	}
}

// A mail whose acceptance was lost goes to a person, and is never sent again.
func TestThroughOncewardWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	v := serve(t, script{"dot": hangUp}, nil, false)
	w := apptest.New(t, apptest.Options{Adapters: []actions.Adapter{action(t, options(v.port()))}})
	r := w.Start(t, nil)
	id := w.Ask(t, r, mailRequest("run_1")).GetOperation().GetId()
	op := w.WaitFor(t, "acme", id, ledger.NeedsReview, ledger.Succeeded, ledger.Failed)
	if op.State != ledger.NeedsReview || op.Attempt != 1 {
		t.Errorf("operation is %s after %d attempts, want needs_review after one; audit %v", op.State, op.Attempt, w.Trail(t, id))
	}
	again := w.Ask(t, r, mailRequest("run_1"))
	if got := again.GetOperation(); got.GetId() != id || got.GetState() != oncewardv1.OperationState_OPERATION_STATE_NEEDS_REVIEW {
		t.Errorf("the duplicate got %v", again)
	}
	if n := len(v.taken()); n != 1 {
		t.Errorf("the server holds %d mails, want 1; heard %s", n, v.heard())
	}
}
