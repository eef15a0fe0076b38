//go:build unix

package e2e

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/internal/pgtest"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// disaster is a ledger that is backed up under traffic, goes on for a while, is lost,
// and comes back as it was at the backup. The provider has forgotten nothing.
type disaster struct {
	w      *apptest.World
	server *pgtest.Server
	from   time.Time // of the lost time
	until  time.Time

	early   *oncewardv1.Operation // was done before the backup
	refused *oncewardv1.Operation // had failed before it
	// Were open at the backup: under way, deferred, waiting for an approval. All of
	// them were done in the lost time.
	open map[string]*oncewardv1.RequestActionRequest
	// Were requested and done in the lost time.
	late map[string]*oncewardv1.RequestActionRequest
}

// onePerson asks for the approval of refunds above 10, and allows contacts.
const onePerson = `  - {id: crm, actors: ["planner*"], action_types: [crm.contact.create]}
rules:
  - id: large
    reason: refunds above 10 want the yes of a person
    action_types: [payments.refund.create]
    when: amount > 10
    then: require_approval
`

func newDisaster(t *testing.T) *disaster {
	t.Helper()
	server := pgtest.NewServer(t, nil)
	database := ledgertest.At(t, server.NewDatabase(t, ledgertest.Template()))
	d := &disaster{server: server, w: apptest.New(t, apptest.Options{Database: &database, Policies: policyOf("1", onePerson)})}
	w := d.w
	r := w.Start(t, nil)
	gate := fakeprovider.NewGate()
	t.Cleanup(gate.Release)
	d.early = w.AskIn(t, r, invoice().request("early"), succeeded).GetOperation()
	forRequest(w, "refused", fakeprovider.Fault{Kind: fakeprovider.Reject})
	d.refused = w.AskIn(t, r, refund().request("refused"), failed).GetOperation()
	d.open = map[string]*oncewardv1.RequestActionRequest{
		"under_way": invoice().request("under_way"), "deferred": refund().request("deferred"), "asked": apptest.Refund("ch_asked", 5000, "run_asked"),
	}
	forRequest(w, "under_way", heldAfter(gate))
	forRequest(w, "deferred", fakeprovider.Fault{Kind: fakeprovider.RateLimited, RetryAfter: time.Hour})
	ids := map[string]string{}
	for name, state := range map[string]ledger.State{"under_way": ledger.Running, "deferred": ledger.Pending, "asked": ledger.NeedsReview} {
		ids[name] = w.Ask(t, r, apptest.Waiting(d.open[name], 0)).GetOperation().GetId()
		w.WaitFor(t, "acme", ids[name], state)
	}
	await(t, "the request at the provider", gate.Reached())

	d.from = time.Now()
	backup := server.Backup(t)

	gate.Release()
	w.Database.Age(t, w.Held(t, ids["deferred"]), 2*time.Hour)
	approve(t, r, w.Reviewer, questionOf(t, w, ids["asked"]))
	for name := range d.open {
		w.WaitFor(t, "acme", ids[name], ledger.Succeeded)
	}
	d.late = map[string]*oncewardv1.RequestActionRequest{
		"refund": refund().request("late"), "invoice": invoice().request("late"), "contact": contact().request("late"), "large": apptest.Refund("ch_large", 5000, "run_large"),
	}
	for name, req := range d.late {
		if name == "large" {
			id := w.AskIn(t, r, req, needsReview).GetOperation().GetId()
			approve(t, r, w.Reviewer, questionOf(t, w, id))
			w.WaitFor(t, "acme", id, ledger.Succeeded)
			continue
		}
		w.AskIn(t, r, req, succeeded)
	}
	r.Stop()
	d.until = time.Now()
	w.WantEffects(t, d.effects())
	server.Restore(t, backup)
	return d
}

// effects is how many there are of what was requested before the loss.
func (d *disaster) effects() int { return 1 + len(d.open) + len(d.late) }

// questionOf is the review that an operation waits for.
func questionOf(t *testing.T, w *apptest.World, id string) *oncewardv1.Review {
	t.Helper()
	op := w.WaitFor(t, "acme", id, ledger.NeedsReview)
	if !op.Review.Open() {
		t.Fatalf("operation %s waits for nobody: %+v", id, op.Review)
	}
	return &oncewardv1.Review{Id: op.Review.ID, Detail: op.Review.Detail}
}

// resolved decides a review that says that the ledger was restored.
func resolved(t *testing.T, w *apptest.World, r *apptest.Replica, id string, req *oncewardv1.ResolveReviewRequest) {
	t.Helper()
	question := questionOf(t, w, id)
	if !strings.Contains(question.GetDetail(), "restored from a backup") {
		t.Errorf("the reviewer of %s is told: %s", id, question.GetDetail())
	}
	req.ReviewId, req.Note = question.GetId(), "looked at the provider"
	if _, err := r.Reviews.ResolveReview(apptest.As(t.Context(), w.Reviewer), req); err != nil {
		t.Fatal(err)
	}
}

// foretold checks what a preview says of a request.
func foretold(t *testing.T, w *apptest.World, r *apptest.Replica, req *oncewardv1.RequestActionRequest, want oncewardv1.PreviewOutcome) {
	t.Helper()
	resp, err := r.Actions.PreviewAction(apptest.As(t.Context(), w.Agent), &oncewardv1.PreviewActionRequest{Request: req})
	if err != nil || resp.GetOutcome() != want {
		t.Errorf("a preview says %s: %s, %v; want %s", resp.GetOutcome(), resp.GetExplanation(), err, want)
	}
}

func didNotHappen() *oncewardv1.ResolveReviewRequest {
	return &oncewardv1.ResolveReviewRequest{Decision: &oncewardv1.ResolveReviewRequest_NotApplied{
		NotApplied: &oncewardv1.NotApplied{Then: oncewardv1.NotAppliedThen_NOT_APPLIED_THEN_RETRY},
	}}
}

// A ledger that comes back older than it was sends nothing twice: what it finds is
// confirmed, what it does not find goes to a person.
func TestLaw01_RestoredLedgerResendsNothing(t *testing.T) {
	t.Parallel()
	d := newDisaster(t)
	w := d.w
	owner, err := postgres.Open(t.Context(), w.Database.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(owner.Close)
	if _, err := owner.BeginRestore(t.Context(), ledger.Restore{LostFrom: d.from, LostUntil: d.until, BegunBy: "operator:test"}); err != nil {
		t.Fatal(err)
	}
	r := w.Start(t, nil)

	again := w.AskIn(t, r, invoice().request("early"), succeeded)
	if !again.GetReplayed() || again.GetOperation().GetId() != d.early.GetId() {
		t.Errorf("what was done before the backup is answered with %v", again)
	}
	for _, req := range d.open {
		w.WantOneEffect(t, w.AskIn(t, r, req, succeeded).GetOperation().GetId())
	}
	held := map[string]string{}
	for name, req := range d.late {
		first := w.Ask(t, r, apptest.Waiting(req, 0))
		if step := first.GetNextStep(); first.GetOperation().GetState() == oncewardv1.OperationState_OPERATION_STATE_UNKNOWN &&
			(step.GetKind() != oncewardv1.NextStepKind_NEXT_STEP_KIND_WAIT || !strings.Contains(step.GetMessage(), "restored from a backup")) {
			t.Errorf("%s: the planner is told %v", name, step)
		}
		second := w.AskIn(t, r, req, needsReview)
		held[name] = second.GetOperation().GetId()
		if held[name] != first.GetOperation().GetId() || second.GetNextStep().GetKind() != oncewardv1.NextStepKind_NEXT_STEP_KIND_ASK_HUMAN {
			t.Errorf("%s: %v, and then %v", name, first, second)
		}
	}
	foretold(t, w, r, refund().request("fresh"), oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_IN_DOUBT)
	foretold(t, w, r, apptest.Refund("ch_fresh_large", 7000, "run_fresh_large"), oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_IN_DOUBT)
	foretold(t, w, r, invoice().request("early"), oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_REPLAY)
	fresh := w.AskIn(t, r, refund().request("fresh"), needsReview).GetOperation().GetId()
	freshLarge := w.AskIn(t, r, apptest.Refund("ch_fresh_large", 7000, "run_fresh_large"), needsReview).GetOperation().GetId()
	w.WantEffects(t, d.effects())
	if detail := questionOf(t, w, held["contact"]).GetDetail(); !strings.Contains(detail, "taken by") {
		t.Errorf("the reviewer is not told of the contact that is there: %s", detail)
	}

	correction := apptest.Refund("ch_corrected", 400, "run_refused")
	correction.CorrectsOperationId = d.refused.GetId()
	_, err = w.Try(t.Context(), r, correction)
	apptest.WantReason(t, err, codes.FailedPrecondition, "LEDGER_RESTORED")
	_, err = r.Actions.PreviewAction(apptest.As(t.Context(), w.Agent), &oncewardv1.PreviewActionRequest{Request: correction})
	apptest.WantReason(t, err, codes.FailedPrecondition, "LEDGER_RESTORED")
	w.WantEffects(t, d.effects())

	resolved(t, w, r, held["refund"], &oncewardv1.ResolveReviewRequest{Decision: &oncewardv1.ResolveReviewRequest_Confirm{
		Confirm: &oncewardv1.Confirm{ProviderReference: "re_found", ReceiptJson: `{"id":"re_found"}`},
	}})
	if again := w.AskIn(t, r, d.late["refund"], succeeded); again.GetOperation().GetReceipt().GetProviderReference() != "re_found" {
		t.Errorf("what a person confirmed is answered with %v", again)
	}
	resolved(t, w, r, fresh, didNotHappen())
	w.WaitFor(t, "acme", fresh, ledger.Succeeded)
	w.WantEffects(t, d.effects()+1)
	// To find that it did not happen is no approval.
	resolved(t, w, r, freshLarge, didNotHappen())
	eventually(t, w, "the approval is asked for", func() bool {
		op := w.Held(t, freshLarge)
		return op.Review.Open() && op.Review.Reason == ledger.ApprovalRequired
	})
	w.WantEffects(t, d.effects()+1)
	approve(t, r, w.Reviewer, questionOf(t, w, freshLarge))
	w.WaitFor(t, "acme", freshLarge, ledger.Succeeded)
	w.WantEffects(t, d.effects()+2)

	if err := owner.EndRestore(t.Context(), "operator:test", "nobody asks again"); err != nil {
		t.Fatal(err)
	}
	foretold(t, w, r, invoice().request("afterwards"), oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_EXECUTE)
	w.WantOneEffect(t, w.AskIn(t, r, invoice().request("afterwards"), succeeded).GetOperation().GetId())
	w.AskIn(t, r, correction, succeeded)
	w.AskIn(t, r, d.late["invoice"], needsReview) // what is in doubt stays so
	w.WantEffects(t, d.effects()+4)
}

// The same without the switch: the test above can fail.
func TestRestoredLedgerThatNobodyToldResends(t *testing.T) {
	t.Parallel()
	d := newDisaster(t)
	r := d.w.Start(t, nil)
	d.w.AskIn(t, r, d.late["refund"], succeeded)
	d.w.AskIn(t, r, d.late["invoice"], succeeded)
	d.w.WantEffects(t, d.effects()+2)
}
