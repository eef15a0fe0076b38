package inbox_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// The answer is lost, nothing can be looked up, and no key protects a second
// try: the provider's own event resolves the doubt, once, and the caller who
// comes again gets its receipt.
func TestEventResolvesALostAnswer(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	r := h.Start(t, nil)
	h.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying})
	id := h.ask(t, r, "test.invoice.send", "lost")
	waiting := h.WaitFor(t, "acme", id, ledger.Unknown)
	apptest.Eventually(t, func() bool {
		waiting = h.Held(t, id)
		return waiting.NextAttemptAt.Sub(waiting.DoubtedAt) > 50*time.Minute
	}, func() string { return fmt.Sprintf("it does not wait for an event: %+v", waiting) })
	if waiting.State != ledger.Unknown || waiting.Resolves != 0 {
		t.Errorf("while it waits: %+v", waiting)
	}
	sent := mailEvent{ID: "evt_1", Type: "sent", Operation: id, Reference: effect(t, h, id)}
	h.tell(t, sent)
	op := h.WaitFor(t, "acme", id, ledger.Succeeded)
	h.WantOneEffect(t, id)
	h.WantTrail(t, id, "claim doubt confirm")
	if string(op.Receipt) != fmt.Sprintf(`{"id":%q}`, sent.Reference) || op.ProviderReference != sent.Reference {
		t.Errorf("confirmed by %s, %s", op.ProviderReference, op.Receipt)
	}
	if audit := h.Database.Audit(t, op); audit[2].Actor != "webhook" || !strings.Contains(audit[2].Detail, "evt_1") {
		t.Errorf("the audit record says %+v", audit[2])
	}
	// Sent again, before and after it was weighed, it does nothing.
	for range 2 {
		if got := h.hear(t, "acme", secret, sent); got != (reply{200, `{"stored":0}`, ""}) {
			t.Errorf("sent again: %+v", got)
		}
		h.note(t, "acme", "evt_1")
	}
	again := apptest.Invoice("lost")
	again.ActionType = "test.invoice.send"
	resp := h.AskIn(t, r, again, oncewardv1.OperationState_OPERATION_STATE_SUCCEEDED)
	if !resp.GetReplayed() || resp.GetOperation().GetId() != id {
		t.Errorf("the same key again: %v", resp)
	}
	if now := h.Held(t, id); now.Revision != op.Revision {
		t.Errorf("it changed from revision %d to %d", op.Revision, now.Revision)
	}
}

// The event is here before the answer: it confirms, whoever waits is told, and
// the answer is no news.
func TestEventBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	r := h.Start(t, nil)
	gate := fakeprovider.NewGate()
	t.Cleanup(gate.Release)
	h.Provider.Next(fakeprovider.Fault{HoldAfter: gate})
	req := apptest.Invoice("early")
	req.ActionType = "test.invoice.send"
	answered := make(chan *oncewardv1.RequestActionResponse, 1)
	go func() {
		resp, err := h.Try(t.Context(), r, proto.CloneOf(req))
		if err != nil {
			t.Error(err)
		}
		answered <- resp
	}()
	<-gate.Reached()
	id := h.Provider.Effects()[0].OperationID
	h.tell(t, mailEvent{ID: "evt_0", Type: "queued", Operation: id, Reference: effect(t, h, id)})
	h.looked(t, "evt_0") // it means nothing before the answer, and is kept
	h.tell(t, mailEvent{ID: "evt_1", Type: "sent", Operation: id, Reference: effect(t, h, id)})
	resp := <-answered // the provider's answer is still held
	if resp.GetOperation().GetState() != oncewardv1.OperationState_OPERATION_STATE_SUCCEEDED {
		t.Errorf("the caller got %v", resp)
	}
	before := h.Database.Row(t, h.Held(t, id))
	gate.Release()
	r.Stop() // the worker has recorded what it knows
	op := h.Held(t, id)
	if after := h.Database.Row(t, op); after != before || op.Incident != "" {
		t.Errorf("the answer changed the row from\n%s\nto\n%s", before, after)
	}
	if len(op.Attempts) != 1 || op.Attempts[0].Outcome != "applied_by_event" || op.Attempts[0].EndedAt.IsZero() {
		t.Errorf("attempts are %+v", op.Attempts)
	}
	h.WantOneEffect(t, id)
	h.WantTrail(t, id, "claim confirm")
}

// The event names another effect than the answer that it was before: two
// receipts, an incident, and the first stays.
func TestEventAndAnswerDiffer(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	r := h.Start(t, nil)
	gate := fakeprovider.NewGate()
	t.Cleanup(gate.Release)
	h.Provider.Next(fakeprovider.Fault{HoldAfter: gate})
	id := h.ask(t, r, "test.invoice.send", "differ")
	<-gate.Reached()
	h.tell(t, mailEvent{ID: "evt_1", Type: "sent", Operation: id, Reference: "em_other"})
	h.WaitFor(t, "acme", id, ledger.Succeeded)
	gate.Release()
	r.Stop()
	if op := h.Held(t, id); op.State != ledger.Succeeded || op.ProviderReference != "em_other" || !strings.Contains(op.Incident, effect(t, h, id)) {
		t.Errorf("operation is %+v", op)
	}
	h.WantTrail(t, id, "claim confirm evidence")
}

// Without an event the wait ends with a person, who sees what comes then.
func TestWaitEndsWithAPerson(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	r := h.Start(t, nil)
	h.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying})
	id := h.ask(t, r, "test.invoice.send", "late")
	doubt := h.WaitFor(t, "acme", id, ledger.Unknown)
	apptest.Eventually(t, func() bool { // until the reconciler waits: it must not put off what has aged
		doubt = h.Held(t, id)
		return doubt.NextAttemptAt.Sub(doubt.UpdatedAt) > time.Minute && doubt.LeaseExpiresAt.IsZero()
	}, h.Describe)
	h.Database.Age(t, doubt, time.Hour)
	h.WaitFor(t, "acme", id, ledger.NeedsReview)
	h.tell(t, mailEvent{ID: "evt_1", Type: "sent", Operation: id, Reference: effect(t, h, id)})
	h.note(t, "acme", "evt_1")
	if op := h.Held(t, id); op.State != ledger.NeedsReview || op.ProviderReference != effect(t, h, id) || !op.Review.Open() {
		t.Errorf("operation is %+v", op)
	}
	h.WantTrail(t, id, "claim doubt escalate evidence")
}

// Events come in any order, and final states stay.
func TestEventsOutOfOrder(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	r := h.Start(t, nil)
	lost := func(name string) string {
		h.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying})
		id := h.ask(t, r, "test.invoice.send", name)
		h.WaitFor(t, "acme", id, ledger.Unknown)
		return id
	}

	id := lost("failed_after_sent")
	ref := effect(t, h, id)
	for i, typ := range []string{"sent", "failed", "queued"} {
		event := fmt.Sprintf("evt_a%d", i)
		h.tell(t, mailEvent{ID: event, Type: typ, Operation: id, Reference: ref})
		h.note(t, "acme", event)
	}
	h.WantOneEffect(t, id)
	h.WantTrail(t, id, "claim doubt confirm evidence")

	id = lost("sent_after_failed")
	ref = effect(t, h, id)
	h.tell(t, mailEvent{ID: "evt_b0", Type: "queued", Operation: id, Reference: ref})
	h.note(t, "acme", "evt_b0")
	h.tell(t, mailEvent{ID: "evt_b1", Type: "failed", Operation: id, Reference: ref})
	op := h.WaitFor(t, "acme", id, ledger.Failed)
	if op.Effect != ledger.EffectNotApplied || op.Failure.Code != "bounced" || !op.Failure.Correctable {
		t.Errorf("failed as %s, %+v", op.Effect, op.Failure)
	}
	h.note(t, "acme", "evt_b1")
	h.tell(t, mailEvent{ID: "evt_b2", Type: "queued", Operation: id, Reference: ref})
	h.note(t, "acme", "evt_b2")
	h.tell(t, mailEvent{ID: "evt_b3", Type: "sent", Operation: id, Reference: ref})
	op = h.WaitFor(t, "acme", id, ledger.NeedsReview)
	if op.Review.Reason != ledger.Contradicted || op.Effect != ledger.EffectApplied || !op.InDoubt {
		t.Errorf("contradicted as %+v", op)
	}
	h.WantTrail(t, id, "claim doubt evidence refuse contradict")
}

// What is forged, or of another tenant, or of another provider, does nothing.
func TestStrangersDoNothing(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	r := h.Start(t, nil)
	h.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying})
	id := h.ask(t, r, "test.invoice.send", "strangers")
	h.WaitFor(t, "acme", id, ledger.Unknown)
	refund := h.AskIn(t, r, apptest.Refund("ch_1001", 100, "strangers"), oncewardv1.OperationState_OPERATION_STATE_SUCCEEDED).GetOperation().GetId()

	forged := mailEvent{ID: "evt_1", Type: "sent", Operation: id, Reference: "em_1"}
	if got := h.hear(t, "acme", "whsec_"+base64.StdEncoding.EncodeToString([]byte("not the secret")), forged); got != (reply{401, `{"error":"not verified"}`, ""}) {
		t.Errorf("a forgery was answered %+v", got)
	}
	if got := h.hear(t, "nobody", secret, forged); got != (reply{404, `{"error":"not found"}`, ""}) {
		t.Errorf("nobody's event was answered %+v", got)
	}
	if n := h.Database.Count(t, `SELECT count(*) FROM webhook_inbox`); n != 0 {
		t.Errorf("%d events were stored", n)
	}
	// Well signed, and sent to the address of a tenant whose operation it is not.
	if got := h.hear(t, "globex", secret, forged); got.body != `{"stored":1}` {
		t.Errorf("globex's event was answered %+v", got)
	}
	if note := h.note(t, "globex", "evt_1"); note != "no such operation" {
		t.Errorf("globex's event: %s", note)
	}
	h.tell(t, mailEvent{ID: "evt_2", Type: "sent", Operation: refund, Reference: "em_1"})
	if note := h.note(t, "acme", "evt_2"); note != "the operation is on another provider" {
		t.Errorf("the mail provider about a refund: %s", note)
	}
	h.WantTrail(t, id, "claim doubt")
	h.WantTrail(t, refund, "claim confirm")
}

// An event that has the provider's reference alone, before the answer that brings
// this reference to us: it is kept, and found again by it.
func TestEventByReference(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	queued := job{typ: "test.job.queue", answer: func(actions.Call) actions.Outcome {
		<-release
		return actions.Outcome{Kind: actions.Accepted, Receipt: actions.Receipt{Reference: "job_1"}}
	}}
	h := newHall(t, queued)
	r := h.Start(t, nil)
	id := h.ask(t, r, queued.typ, "reference")
	h.tell(t, mailEvent{ID: "evt_1", Type: "sent", Reference: "job_1"})
	h.looked(t, "evt_1")
	close(release)
	op := h.WaitFor(t, "acme", id, ledger.Succeeded)
	if op.ProviderReference != "job_1" {
		t.Errorf("confirmed by %s", op.ProviderReference)
	}
	h.WantTrail(t, id, "claim doubt confirm")
}

// Two replicas, each event sent to both of them and twice: each operation moves
// once.
func TestTwoReplicasWeighEachEventOnce(t *testing.T) {
	t.Parallel()
	queued := job{typ: "test.job.queue", answer: func(c actions.Call) actions.Outcome {
		return actions.Outcome{Kind: actions.Accepted, Receipt: actions.Receipt{Reference: "job_" + c.OperationID}}
	}}
	h := newHall(t, queued)
	r := h.Start(t, func(c *app.Config) { c.Reconcile = false })
	var ids []string
	for i := range 12 {
		ids = append(ids, h.ask(t, r, queued.typ, fmt.Sprint("job_", i)))
	}
	var senders sync.WaitGroup
	for i, id := range ids {
		h.WaitFor(t, "acme", id, ledger.Unknown)
		e := mailEvent{ID: fmt.Sprint("evt_", i), Type: "sent", Reference: "job_" + id}
		if i%2 == 0 {
			e.Operation = id
		}
		for range 2 {
			senders.Go(func() {
				if got := h.hear(t, "acme", secret, e); got.status != http.StatusOK {
					t.Errorf("event %+v was answered %+v", e, got)
				}
			})
		}
	}
	senders.Wait()
	h.Start(t, nil)
	h.Start(t, nil)
	for _, id := range ids {
		h.WaitFor(t, "acme", id, ledger.Succeeded)
		h.WantTrail(t, id, "claim doubt confirm")
	}
	if n := h.Database.Count(t, `SELECT count(*) FROM webhook_inbox`); n != len(ids) {
		t.Errorf("the inbox holds %d events, want %d", n, len(ids))
	}
}

// A job that a look-up finds ended is a failure with its reason.
func TestPolledJobEnds(t *testing.T) {
	t.Parallel()
	polled := findingJob{job{
		typ: "test.job.poll",
		answer: func(actions.Call) actions.Outcome {
			return actions.Outcome{Kind: actions.Accepted, Receipt: actions.Receipt{Reference: "job_1"}}
		},
		find: func(q actions.Query) actions.Finding {
			return actions.Finding{Kind: actions.Ended, Failure: actions.Failure{Code: "job_failed", Message: "The job failed."}, Detail: q.ProviderReference}
		},
	}}
	h := newHall(t, polled)
	r := h.Start(t, nil)
	op := h.WaitFor(t, "acme", h.ask(t, r, polled.typ, "poll"), ledger.Failed)
	if op.Effect != ledger.EffectNotApplied || op.Failure.Code != "job_failed" || op.Failure.Correctable {
		t.Errorf("failed as %+v with %+v", op, op.Failure)
	}
	h.WantTrail(t, op.ID, "claim doubt refuse")
}

// With the ledger away, or its schema too old, nothing is acknowledged, and what
// is sent again then is stored.
func TestLedgerAway(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	e := mailEvent{ID: "evt_1", Type: "sent", Reference: "em_1"}
	refused := reply{503, `{"error":"not stored, send it again"}`, "30"}
	h.Database.Exec(t, `ALTER TABLE webhook_inbox RENAME TO old`)
	if got := h.hear(t, "acme", secret, e); got != refused {
		t.Errorf("on an old schema: %+v", got)
	}
	h.Database.Exec(t, `ALTER TABLE old RENAME TO webhook_inbox`)
	h.tell(t, e)
	h.store.Close()
	e.ID = "evt_2"
	if got := h.hear(t, "acme", secret, e); got != refused {
		t.Errorf("without a connection: %+v", got)
	}
}
