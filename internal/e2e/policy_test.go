package e2e

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// policyOf is a policy of acme that allows refunds to planners, and what else is
// given.
func policyOf(version, rest string) map[string]string {
	return map[string]string{"acme.yaml": fmt.Sprintf(`kind: policy
tenant: acme
version: %q
stages: {default: reconcile}
allow:
  - {id: planners, actors: ["planner*"], action_types: [payments.refund.create, email.invoice.send]}
%s`, version, rest)}
}

// twoPeople asks for two approvals of refunds above 10.
const twoPeople = `rules:
  - id: large
    reason: refunds above 10 want the yes of two people
    action_types: [payments.refund.create]
    when: amount > 10
    then: require_approval
    approvals: 2
`

// thousand is many callers against a budget for half of them.
const thousand = 1000

func TestBudgetHoldsAgainstAThousandCallersOnThreeReplicas(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{Policies: policyOf("1", `budgets:
  - {id: refunds, of: calls, limit: 500, window: {sliding: 24h}}
  - {id: money, of: spend, currency: USD, limit: "5000.00", action_types: [payments.*], window: {sliding: 24h}}
`)})
	replicas := []*apptest.Replica{w.Start(t, nil), w.Start(t, nil), w.StartChild(t, apptest.ChildOptions{}).Replica}
	var made, refused atomic.Int64
	var callers sync.WaitGroup
	start := make(chan struct{})
	for i := range thousand {
		callers.Go(func() {
			<-start
			resp, err := w.Try(t.Context(), replicas[i%3], apptest.Refund(fmt.Sprintf("ch_%d", i), 999, fmt.Sprintf("run_%d", i)))
			for status.Code(err) == codes.Unavailable || err != nil && strings.Contains(err.Error(), "as many actions are under way") {
				resp, err = w.Try(t.Context(), replicas[i%3], apptest.Refund(fmt.Sprintf("ch_%d", i), 999, fmt.Sprintf("run_%d", i)))
			}
			switch {
			case err == nil && resp.GetOperation().GetState() == succeeded:
				made.Add(1)
			case err != nil:
				apptest.WantReason(t, err, codes.ResourceExhausted, "BUDGET_EXHAUSTED")
				refused.Add(1)
			default:
				t.Errorf("caller %d got %v", i, resp)
			}
		})
	}
	close(start)
	callers.Wait()
	if made.Load() != 500 || refused.Load() != 500 {
		t.Errorf("%d were made and %d refused, want 500 each", made.Load(), refused.Load())
	}
	w.WantEffects(t, 500)
	preview := preview(t, w, replicas[0], apptest.Refund("ch_more", 999, "run_more"))
	if used := usedOf(preview, "money"); used != "4995.00" && used != "4995" {
		t.Errorf("%s dollars are used, want 4995", used)
	}
	if preview.GetOutcome() != oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_BUDGET_EXHAUSTED {
		t.Errorf("a preview of one more: %v", preview)
	}
}

func preview(t testing.TB, w *apptest.World, r *apptest.Replica, req *oncewardv1.RequestActionRequest) *oncewardv1.PreviewActionResponse {
	t.Helper()
	resp, err := r.Actions.PreviewAction(apptest.As(t.Context(), w.Agent), &oncewardv1.PreviewActionRequest{Request: req})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func usedOf(p *oncewardv1.PreviewActionResponse, budget string) string {
	for _, b := range p.GetBudgets() {
		if b.GetBudget() == budget {
			return b.GetUsed()
		}
	}
	return "nothing"
}

// What is in doubt keeps its budget and its intent, and what is proved not to have
// happened gives both back.
func TestDoubtHoldsBudgetAndIntent(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{Policies: policyOf("1", `budgets:
  - {id: money, of: spend, currency: USD, limit: "10.00", action_types: [payments.*], window: {sliding: 24h}}
intents:
  - name: order
    actions:
      payments.refund.create: {order: args.charge_id}
      email.invoice.send: {order: args.invoice_id}
`)})
	r := w.Start(t, withoutReconciler)
	forRequest(w, "doubt", fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying})
	first := w.Ask(t, r, apptest.Waiting(apptest.Refund("doubt", 600, "run_1"), 2*time.Second)).GetOperation()
	if first.GetState() != oncewardv1.OperationState_OPERATION_STATE_UNKNOWN || first.GetAmount() != "6.00" || first.GetCurrency() != "USD" {
		t.Fatalf("got %v", first)
	}
	_, err := w.Try(t.Context(), r, apptest.Refund("other", 401, "run_2"))
	apptest.WantReason(t, err, codes.ResourceExhausted, "BUDGET_EXHAUSTED")
	w.AskIn(t, r, apptest.Refund("other", 400, "run_3"), succeeded)
	for _, req := range []*oncewardv1.RequestActionRequest{
		apptest.Invoice("doubt"), apptest.Keyed(apptest.Refund("doubt", 0+1, "run_4"), "another-key"),
	} {
		_, err := w.Try(t.Context(), r, req)
		want := "INTENT_OPEN"
		if req.GetActionType() == "payments.refund.create" {
			want = "BUDGET_EXHAUSTED" // it comes first
		}
		if st := status.Convert(err); st.Code() == codes.OK || !strings.Contains(fmt.Sprint(st.Details()), want) {
			t.Errorf("%s got %v %v, want %s", req.GetActionType(), err, st.Details(), want)
		}
	}
	w.Start(t, nil) // now it is found out
	w.WaitFor(t, "acme", first.GetId(), ledger.Succeeded)
	w.WantOneEffect(t, first.GetId())
	if used := usedOf(preview(t, w, r, apptest.Refund("more", 1, "run_5")), "money"); used != "10.00" {
		t.Errorf("%s is used, want 10.00", used)
	}

	// A refusal of the provider gives back.
	forRequest(w, "refused", fakeprovider.Fault{Kind: fakeprovider.Reject})
	w.WritePolicy(t, "acme.yaml", policyOf("2", `budgets:
  - {id: money, of: spend, currency: USD, limit: "12.00", action_types: [payments.*], window: {sliding: 24h}}
`)["acme.yaml"])
	inForce(t, w, r, "2")
	w.AskIn(t, r, apptest.Refund("refused", 200, "run_6"), failed)
	w.AskIn(t, r, apptest.Refund("again", 200, "run_7"), succeeded)
	wantSound(t, w)
}

// An approval is for the policy that asked: a new version asks anew.
func TestApprovalIsForOnePolicyVersion(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{Policies: policyOf("1", twoPeople)})
	r := w.Start(t, nil)
	op := w.AskIn(t, r, apptest.Refund("ch_1", 5000, "run_1"), needsReview).GetOperation()
	review := op.GetReview()
	if review.GetRequiredApprovals() != 2 || !strings.HasPrefix(review.GetPolicyVersion(), "1+") {
		t.Fatalf("review %v", review)
	}
	if got := approve(t, r, w.Reviewer, review); got.GetState() != needsReview || len(got.GetReview().GetApprovals()) != 1 {
		t.Fatalf("after one yes: %v", got)
	}
	w.WritePolicy(t, "acme.yaml", policyOf("2", twoPeople)["acme.yaml"])
	inForce(t, w, r, "2")
	_, err := tryApprove(t, r, w.SecondReviewer, review.GetId(), &oncewardv1.Approve{ArgumentsHash: op.GetArgumentsHash(), PolicyVersion: review.GetPolicyVersion()})
	apptest.WantReason(t, err, codes.FailedPrecondition, "POLICY_CHANGED")
	w.WantEffects(t, 0)
	now := w.Held(t, op.GetId()).Review
	if len(now.Approvals) != 0 || !strings.HasPrefix(now.PolicyVersion, "2+") {
		t.Errorf("the review is %+v, want it bound to version 2 without a yes", now)
	}
	_, err = tryApprove(t, r, w.Reviewer, review.GetId(), &oncewardv1.Approve{ArgumentsHash: strings.Repeat("0", 64)})
	apptest.WantReason(t, err, codes.FailedPrecondition, "ARGUMENTS_CHANGED")
	// The same person twice is one yes.
	approve(t, r, w.Reviewer, review)
	if got := approve(t, r, w.Reviewer, review); got.GetState() != needsReview {
		t.Fatalf("one person was enough: %v", got)
	}
	approve(t, r, w.SecondReviewer, review)
	w.WaitFor(t, "acme", op.GetId(), ledger.Succeeded)
	w.WantOneEffect(t, op.GetId())
	w.WantTrail(t, op.GetId(), "escalate evidence approve claim confirm")
}

// inForce waits until a replica has a version of the policy.
func inForce(t testing.TB, w *apptest.World, r *apptest.Replica, version string) {
	t.Helper()
	var got string
	apptest.Eventually(t, func() bool {
		in, err := r.Policy.GetPolicy(apptest.As(t.Context(), w.Admin), &oncewardv1.GetPolicyRequest{})
		got = fmt.Sprint(in.GetVersion(), err)
		return err == nil && strings.HasPrefix(in.GetVersion(), version+"+")
	}, func() string { return "the policy is " + got })
}

func approve(t testing.TB, r *apptest.Replica, who string, review *oncewardv1.Review) *oncewardv1.Operation {
	t.Helper()
	op, err := tryApprove(t, r, who, review.GetId(), &oncewardv1.Approve{})
	if err != nil {
		t.Fatal(err)
	}
	return op
}

func tryApprove(t testing.TB, r *apptest.Replica, who, reviewID string, approve *oncewardv1.Approve) (*oncewardv1.Operation, error) {
	t.Helper()
	resp, err := r.Reviews.ResolveReview(apptest.As(t.Context(), who), &oncewardv1.ResolveReviewRequest{
		ReviewId: reviewID, Decision: &oncewardv1.ResolveReviewRequest_Approve{Approve: approve},
	})
	return resp.GetOperation(), err
}

// What was approved and has not been sent is judged again when it is about to be.
func TestApprovedWriteIsJudgedAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rest  string
		state ledger.State
		code  string
	}{
		"refused now":    {strings.Replace(twoPeople, "then: require_approval\n    approvals: 2", "then: deny", 1), ledger.Failed, "policy_denied"},
		"asked anew":     {strings.Replace(twoPeople, "two people", "both people", 1), ledger.NeedsReview, ""},
		"no longer asks": {"", ledger.Succeeded, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := apptest.New(t, apptest.Options{Policies: policyOf("1", twoPeople)})
			r := w.Start(t, nil)
			op := w.AskIn(t, r, apptest.Refund("ch_1", 5000, "run_1"), needsReview).GetOperation()
			setSwitch(t, w, r, true)
			approve(t, r, w.Reviewer, op.GetReview())
			approve(t, r, w.SecondReviewer, op.GetReview())
			w.WaitFor(t, "acme", op.GetId(), ledger.Pending)
			w.WritePolicy(t, "acme.yaml", policyOf("2", c.rest)["acme.yaml"])
			inForce(t, w, r, "2")
			setSwitch(t, w, r, false)
			w.Database.Exec(t, `UPDATE operations SET next_attempt_at = clock_timestamp(), revision = revision + 1 WHERE status = 'pending'`)
			got := w.WaitFor(t, "acme", op.GetId(), c.state)
			if c.code != "" && got.Failure.Code != c.code {
				t.Errorf("failed with %v", got.Failure)
			}
			want := 0
			if c.state == ledger.Succeeded {
				want = 1
			}
			w.WantEffects(t, want)
		})
	}
}

func setSwitch(t testing.TB, w *apptest.World, r *apptest.Replica, stopped bool) {
	t.Helper()
	_, err := r.Policy.SetKillSwitch(apptest.As(t.Context(), w.Admin), &oncewardv1.SetKillSwitchRequest{Provider: "fakepay", Stopped: stopped, Reason: "looking into it"})
	if err != nil {
		t.Fatal(err)
	}
}

// A kill switch on one replica stops all, keeps nobody from what is done, and
// leaves doubt to be resolved without sending.
func TestKillSwitchHoldsOnEveryReplica(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{Policies: policyOf("1", "")})
	a, b := w.Start(t, withoutReconciler), w.Start(t, withoutReconciler)
	done := w.AskIn(t, a, apptest.Refund("ch_1", 500, "run_1"), succeeded).GetOperation()
	forRequest(w, "doubt", fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying})
	doubt := w.Ask(t, a, apptest.Waiting(apptest.Refund("doubt", 500, "run_2"), time.Second)).GetOperation()
	setSwitch(t, w, a, true)
	for _, r := range []*apptest.Replica{a, b} {
		_, err := w.Try(t.Context(), r, apptest.Refund("ch_3", 500, "run_3"))
		st := apptest.WantReason(t, err, codes.FailedPrecondition, "STOPPED")
		if !strings.Contains(st.Message(), "looking into it") {
			t.Errorf("the refusal does not say why: %s", st.Message())
		}
		if again := w.AskIn(t, r, apptest.Refund("ch_1", 500, "run_1"), succeeded); !again.GetReplayed() || again.GetOperation().GetId() != done.GetId() {
			t.Errorf("a duplicate of what is done: %v", again)
		}
		if p := preview(t, w, r, apptest.Refund("ch_3", 500, "run_3")); p.GetOutcome() != oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_STOPPED {
			t.Errorf("preview: %v", p)
		}
	}
	sent := writes(w, "doubt")
	w.Start(t, nil)
	w.WaitFor(t, "acme", doubt.GetId(), ledger.Succeeded)
	if n := writes(w, "doubt"); n != sent {
		t.Errorf("%d writes were sent for what was in doubt while its provider is stopped", n-sent)
	}
	setSwitch(t, w, b, false)
	w.AskIn(t, a, apptest.Refund("ch_3", 500, "run_3"), succeeded)
}

// In the stage protect doubt goes to a person at once.
func TestProtectAsksAPerson(t *testing.T) {
	t.Parallel()
	policies := policyOf("1", "")
	policies["acme.yaml"] = strings.Replace(policies["acme.yaml"], "default: reconcile", "default: protect", 1)
	w := apptest.New(t, apptest.Options{Policies: policies})
	r := w.Start(t, nil)
	forRequest(w, "doubt", fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying})
	op := w.Ask(t, r, apptest.Refund("doubt", 500, "run_1")).GetOperation()
	held := w.WaitFor(t, "acme", op.GetId(), ledger.NeedsReview)
	if held.Review.Reason != ledger.Inconclusive || held.Stage != ledger.StageProtect {
		t.Errorf("got %+v", held.Review)
	}
	if n := requests(w, "GET", "doubt"); n != 0 || writes(w, "doubt") != 1 {
		t.Errorf("%d look-ups and %d writes for an operation that a person is to find out about", n, writes(w, "doubt"))
	}
}

// What a reviewer lets go on is judged by the policy that is in force then.
func TestReleasedWriteIsJudgedAgain(t *testing.T) {
	t.Parallel()
	policies := policyOf("1", "")
	policies["acme.yaml"] = strings.Replace(policies["acme.yaml"], "default: reconcile", "default: protect", 1)
	w := apptest.New(t, apptest.Options{Policies: policies})
	r := w.Start(t, nil)
	forRequest(w, "doubt", fakeprovider.Fault{Kind: fakeprovider.DropBeforeReading})
	op := w.Ask(t, r, apptest.Refund("doubt", 5000, "run_1")).GetOperation()
	review := w.WaitFor(t, "acme", op.GetId(), ledger.NeedsReview).Review
	w.WritePolicy(t, "acme.yaml", policyOf("2", strings.Replace(twoPeople, "then: require_approval\n    approvals: 2", "then: deny", 1))["acme.yaml"])
	inForce(t, w, r, "2")
	sent := writes(w, "doubt")
	if _, err := r.Reviews.ResolveReview(apptest.As(t.Context(), w.Reviewer), &oncewardv1.ResolveReviewRequest{
		ReviewId: review.ID, Note: "the provider has nothing",
		Decision: &oncewardv1.ResolveReviewRequest_NotApplied{NotApplied: &oncewardv1.NotApplied{Then: oncewardv1.NotAppliedThen_NOT_APPLIED_THEN_RETRY}},
	}); err != nil {
		t.Fatal(err)
	}
	if held := w.WaitFor(t, "acme", op.GetId(), ledger.Failed); held.Failure.Code != "policy_denied" || held.Effect != ledger.EffectNotApplied {
		t.Errorf("got %+v", held)
	}
	if n := writes(w, "doubt"); n != sent {
		t.Errorf("%d more writes were sent", n-sent)
	}
	w.WantEffects(t, 0)
}

// In the stage observe nothing is sent, reserved or refused.
func TestObserveTouchesNothing(t *testing.T) {
	t.Parallel()
	policies := policyOf("1", twoPeople+`budgets:
  - {id: refunds, of: calls, limit: 1, window: {sliding: 24h}}
`)
	policies["acme.yaml"] = strings.Replace(policies["acme.yaml"], "default: reconcile", "default: observe", 1)
	w := apptest.New(t, apptest.Options{Policies: policies})
	r := w.Start(t, nil)
	for _, c := range []struct {
		req  *oncewardv1.RequestActionRequest
		want oncewardv1.ObservedOutcome
	}{
		{apptest.Refund("ch_1", 500, "run_1"), oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_EXECUTE},
		{apptest.Refund("ch_1", 500, "run_1"), oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_DUPLICATE},
		{apptest.Refund("ch_1", 501, "run_1"), oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_MISMATCH},
		{apptest.Refund("ch_2", 5000, "run_2"), oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_REQUIRE_APPROVAL},
		{apptest.Contact("li@example.test"), oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_REFUSED},
		{apptest.Refund("ch_3", -1, "run_3"), oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_INVALID},
	} {
		resp := w.Ask(t, r, c.req)
		if resp.GetDisposition() != oncewardv1.Disposition_DISPOSITION_OBSERVED || resp.GetObservation().GetOutcome() != c.want || resp.GetOperation() != nil ||
			resp.GetNextStep().GetKind() != oncewardv1.NextStepKind_NEXT_STEP_KIND_PROCEED {
			t.Errorf("%v: got %v, want %s", c.req, resp, c.want)
		}
	}
	if n := w.Database.Count(t, `SELECT (SELECT count(*) FROM operations) + (SELECT count(*) FROM budget_counters) + (SELECT count(*) FROM reviews) + (SELECT count(*) FROM audit_events)`); n != 0 || len(w.Provider.Requests()) != 0 {
		t.Errorf("%d rows and %d requests to the provider", n, len(w.Provider.Requests()))
	}
	if p := preview(t, w, r, apptest.Refund("ch_1", 500, "run_9")); p.GetOutcome() != oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_OBSERVE || p.GetStage() != oncewardv1.Stage_STAGE_OBSERVE {
		t.Errorf("preview: %v", p)
	}
}

// Who goes back to observing is not told to do again what was done.
func TestBackInObserveWhatWasDoneAnswers(t *testing.T) {
	t.Parallel()
	policies := policyOf("1", "")
	w := apptest.New(t, apptest.Options{Policies: policies})
	r := w.Start(t, nil)
	done := w.AskIn(t, r, apptest.Refund("ch_1", 500, "run_1"), succeeded).GetOperation()
	w.WritePolicy(t, "acme.yaml", strings.Replace(policyOf("2", "")["acme.yaml"], "default: reconcile", "default: observe", 1))
	inForce(t, w, r, "2")
	if again := w.AskIn(t, r, apptest.Refund("ch_1", 500, "run_1"), succeeded); !again.GetReplayed() || again.GetOperation().GetId() != done.GetId() {
		t.Errorf("got %v", again)
	}
	_, err := w.Try(t.Context(), r, apptest.Refund("ch_1", 501, "run_1"))
	apptest.WantReason(t, err, codes.FailedPrecondition, "IDEMPOTENCY_KEY_REUSED")
	if other := w.Ask(t, r, apptest.Refund("ch_2", 500, "run_2")); other.GetDisposition() != oncewardv1.Disposition_DISPOSITION_OBSERVED {
		t.Errorf("got %v", other)
	}
	w.WantEffects(t, 1)
}

// After a success a second one under the intent must say that it is meant.
func TestQuietIntentWantsDistinct(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{Policies: policyOf("1", `intents:
  - {name: order, quiet: 1h, actions: {payments.refund.create: {order: args.charge_id}}}
`)})
	r := w.Start(t, nil)
	first := w.AskIn(t, r, apptest.Refund("ch_1", 500, "run_1"), succeeded).GetOperation()
	second := apptest.Refund("ch_1", 500, "run_2")
	_, err := w.Try(t.Context(), r, second)
	apptest.WantReason(t, err, codes.FailedPrecondition, "INTENT_QUIET")
	second.DistinctFromOperationId = first.GetId()
	meant := w.AskIn(t, r, second, succeeded).GetOperation()
	if again := w.AskIn(t, r, second, succeeded); again.GetOperation().GetId() != meant.GetId() || !again.GetReplayed() {
		t.Errorf("the deliberate second one again: %v", again)
	}
	if meant.GetDistinctFromOperationId() != first.GetId() {
		t.Errorf("it is not on record: %v", meant)
	}
	w.WantEffects(t, 2)
}

// The caller's own word for its goal is a fence, too.
func TestCallersIntentIsAFence(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, withoutReconciler)
	forRequest(w, "doubt", fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying})
	req := apptest.Waiting(apptest.Refund("doubt", 500, "run_1"), time.Second)
	req.IntentId = "refund-order-14"
	first := w.Ask(t, r, req).GetOperation()
	other := apptest.Keyed(apptest.Refund("doubt", 500, "run_2"), "k-9f02")
	other.IntentId = req.GetIntentId()
	_, err := w.Try(t.Context(), r, other)
	apptest.WantReason(t, err, codes.FailedPrecondition, "INTENT_OPEN")
	w.Start(t, nil)
	w.WaitFor(t, "acme", first.GetId(), ledger.Succeeded)
	_, err = w.Try(t.Context(), r, other) // the goal is met
	apptest.WantReason(t, err, codes.FailedPrecondition, "INTENT_QUIET")
	other.DistinctFromOperationId = first.GetId()
	w.AskIn(t, r, other, succeeded)
}
