package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// An approved operation holds its budget already, and is not judged as if it
// wanted it twice: not by who approves it under a new policy, nor when it starts.
func TestApprovedOperationDoesNotCountAgainstItself(t *testing.T) {
	t.Parallel()
	rest := twoPeople + `  - id: nearly_used_up
    reason: what is left is kept for emergencies
    action_types: [payments.*]
    when: budgets["money"].after < 40
    then: deny
budgets:
  - {id: money, of: spend, currency: USD, limit: "100.00", action_types: [payments.*], window: {sliding: 24h}}
`
	w := apptest.New(t, apptest.Options{Policies: policyOf("1", rest)})
	r := w.Start(t, nil)
	op := w.AskIn(t, r, apptest.Refund("ch_1", 5000, "run_1"), needsReview).GetOperation()
	w.WritePolicy(t, "acme.yaml", policyOf("2", rest)["acme.yaml"])
	inForce(t, w, r, "2")
	_, err := tryApprove(t, r, w.Reviewer, op.GetReview().GetId(), &oncewardv1.Approve{})
	if st := apptest.WantReason(t, err, codes.FailedPrecondition, "POLICY_CHANGED"); strings.Contains(st.Message(), "refuses it") {
		t.Errorf("the reviewer is told: %s", st.Message())
	}
	approve(t, r, w.Reviewer, op.GetReview())
	approve(t, r, w.SecondReviewer, op.GetReview())
	w.WaitFor(t, "acme", op.GetId(), ledger.Succeeded)
	w.WantOneEffect(t, op.GetId())
	// Against the others it counts.
	_, err = w.Try(t.Context(), r, apptest.Refund("ch_2", 1001, "run_2"))
	apptest.WantReason(t, err, codes.PermissionDenied, "POLICY_DENIED")
}

// The record names everybody who said yes, and who tried to approve their own.
func TestApproversAreOnRecord(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{Policies: policyOf("1", twoPeople)})
	r := w.Start(t, nil)
	op := w.AskIn(t, r, apptest.Refund("ch_1", 5000, "run_1"), needsReview).GetOperation()
	own := w.Key(t, "acme", "planner", "reviewer")
	_, err := tryApprove(t, r, own, op.GetReview().GetId(), &oncewardv1.Approve{})
	apptest.WantReason(t, err, codes.PermissionDenied, "REQUESTER_CANNOT_REVIEW")
	if got := denials(t, w, r); len(got) != 1 || got[0].GetContext().GetReason() != "REQUESTER_CANNOT_REVIEW" ||
		got[0].GetActor() != "planner" || !strings.Contains(got[0].GetDetail(), op.GetId()) {
		t.Errorf("the record of it: %v", got)
	}
	approve(t, r, w.Reviewer, op.GetReview())
	approve(t, r, w.SecondReviewer, op.GetReview())
	w.WaitFor(t, "acme", op.GetId(), ledger.Succeeded)
	for _, e := range events(t, w, r, &oncewardv1.EventFilter{OperationId: op.GetId()}) {
		if e.GetEvent() == "approve" && (!strings.Contains(e.GetDetail(), "rita") || !strings.Contains(e.GetDetail(), "sam")) {
			t.Errorf("approved by whom? %v", e)
		}
	}
}

// A new version of the policy drops the approvals that were given, and the record
// keeps whose they were; who looks again is told by which rule it is asked now.
func TestDroppedApprovalIsOnRecord(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{Policies: policyOf("1", twoPeople)})
	r := w.Start(t, nil)
	op := w.AskIn(t, r, apptest.Refund("ch_1", 5000, "run_1"), needsReview).GetOperation()
	approve(t, r, w.Reviewer, op.GetReview())
	w.WritePolicy(t, "acme.yaml", policyOf("2", strings.Replace(twoPeople, "id: large", "id: november", 1))["acme.yaml"])
	inForce(t, w, r, "2")
	_, err := tryApprove(t, r, w.SecondReviewer, op.GetReview().GetId(), &oncewardv1.Approve{})
	apptest.WantReason(t, err, codes.FailedPrecondition, "POLICY_CHANGED")
	trail := events(t, w, r, &oncewardv1.EventFilter{OperationId: op.GetId()})
	if last := trail[len(trail)-1]; last.GetEvent() != "evidence" || !strings.Contains(last.GetDetail(), "rita") {
		t.Errorf("the record says %v", last)
	}
	if now := w.Held(t, op.GetId()).Review; !strings.Contains(now.Detail, "november") {
		t.Errorf("the reviewer is told %q", now.Detail)
	}
}

// denials are the refused requests that are on record.
func denials(t testing.TB, w *apptest.World, r *apptest.Replica) []*oncewardv1.AuditEvent {
	t.Helper()
	return events(t, w, r, &oncewardv1.EventFilter{DeniedOnly: true})
}

func events(t testing.TB, w *apptest.World, r *apptest.Replica, filter *oncewardv1.EventFilter) []*oncewardv1.AuditEvent {
	t.Helper()
	resp, err := r.Audit.ListEvents(apptest.As(t.Context(), w.Admin), &oncewardv1.ListEventsRequest{Filter: filter, PageSize: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetEvents()
}

// Whatever refuses a request, it is on record once, with the reason that the
// caller was told; what is answered is not.
func TestEachRefusalIsOnRecordOnce(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{Policies: policyOf("1", `rules:
  - {id: huge, reason: nobody refunds so much, action_types: [payments.*], when: amount > 1000, then: deny}
budgets:
  - {id: money, of: spend, currency: USD, limit: "50.00", action_types: [payments.*], window: {sliding: 24h}}
intents:
  - {name: order, quiet: 1h, actions: {payments.refund.create: {order: args.charge_id}}}
`)})
	r := w.Start(t, nil)
	first := w.AskIn(t, r, apptest.Refund("ch_1", 500, "run_1"), succeeded).GetOperation()
	unnamed := apptest.Refund("ch_1", 500, "run_1")
	unnamed.ActionType = "pay\x00ments"
	missing := apptest.Refund("ch_9", 500, "run_9")
	missing.DistinctFromOperationId = "018f2d9e-0000-7000-8000-000000000000"
	for i, c := range []struct {
		req    *oncewardv1.RequestActionRequest
		key    string
		code   codes.Code
		reason string
	}{
		{apptest.Refund("ch_2", 500, "run_2"), w.Reviewer, codes.PermissionDenied, "ROLE_REQUIRED"},
		{apptest.Contact("li@example.test"), w.Agent, codes.PermissionDenied, "POLICY_DENIED"},
		{apptest.Refund("ch_2", 100_001, "run_2"), w.Agent, codes.PermissionDenied, "POLICY_DENIED"},
		{apptest.Refund("ch_2", 4501, "run_2"), w.Agent, codes.ResourceExhausted, "BUDGET_EXHAUSTED"},
		{apptest.Refund("ch_1", 500, "run_2"), w.Agent, codes.FailedPrecondition, "INTENT_QUIET"},
		{apptest.Refund("ch_1", 501, "run_1"), w.Agent, codes.FailedPrecondition, "IDEMPOTENCY_KEY_REUSED"},
		{apptest.Refund("ch_2", -1, "run_2"), w.Agent, codes.InvalidArgument, "INVALID_ARGUMENTS"},
		{unnamed, w.Agent, codes.NotFound, "UNKNOWN_ACTION_TYPE"},
		{missing, w.Agent, codes.NotFound, ""}, // decides nothing
		{apptest.Refund("ch_1", 500, "run_1"), w.Agent, codes.OK, ""},
	} {
		before := len(denials(t, w, r))
		_, err := r.Actions.RequestAction(apptest.As(t.Context(), c.key), c.req)
		got := denials(t, w, r)
		switch {
		case c.reason == "" && len(got) != before:
			t.Errorf("%d: is on record: %v", i, got[len(got)-1])
		case c.reason == "":
		case len(got) != before+1 || got[before].GetContext().GetReason() != c.reason:
			t.Errorf("%d: %s is on record as %v", i, c.reason, got[before:])
		}
		if c.reason != "" {
			apptest.WantReason(t, err, c.code, c.reason)
		}
	}
	// A name that cannot be read again hides nothing.
	if got := events(t, w, r, &oncewardv1.EventFilter{ActionType: first.GetActionType()}); len(got) == 0 {
		t.Error("no events of the action type")
	}
	r.Stop() // writes what was counted
	if n := w.Database.Count(t, `SELECT coalesce(sum(count), 0)::bigint FROM tallies WHERE what = 'refused'`); n != 8 {
		t.Errorf("%d refusals are counted, want 8", n)
	}
	if n := w.Database.Count(t, `SELECT count(*) FROM tallies WHERE action_type LIKE 'pay_ments'`); n != 0 {
		t.Error("a name that the caller made up is counted by itself")
	}
	w.WantEffects(t, 1)
}

// A correction is judged like any other request, and one that is refused leaves
// the operation as it is and holds nothing.
func TestCorrectionMeetsPolicyBudgetAndSwitch(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{Policies: policyOf("1", twoPeople+`  - {id: huge, reason: nobody refunds so much, action_types: [payments.*], when: amount > 1000, then: deny}
budgets:
  - {id: money, of: spend, currency: USD, limit: "9.00", action_types: [payments.*], window: {sliding: 24h}}
intents:
  - {name: order, actions: {payments.refund.create: {order: args.charge_id}}}
`)})
	r := w.Start(t, nil)
	forRequest(w, "wrong", fakeprovider.Fault{Kind: fakeprovider.Reject})
	refused := w.AskIn(t, r, apptest.Refund("wrong", 500, "run_1"), failed).GetOperation()
	w.AskIn(t, r, apptest.Refund("ch_2", 500, "run_2"), succeeded) // what the refusal gave back
	correction := func(charge string, cents int) *oncewardv1.RequestActionRequest {
		req := apptest.Refund(charge, cents, "run_1")
		req.CorrectsOperationId = refused.GetId()
		return req
	}
	for reason, c := range map[string]struct {
		cents int
		code  codes.Code
	}{
		"BUDGET_EXHAUSTED": {401, codes.ResourceExhausted},
		"POLICY_DENIED":    {100_100, codes.PermissionDenied},
		"NOT_CORRECTABLE":  {1001, codes.FailedPrecondition}, // it wants a yes
	} {
		_, err := w.Try(t.Context(), r, correction("right", c.cents))
		apptest.WantReason(t, err, c.code, reason)
	}
	if now := w.Held(t, refused.GetId()); now.State != ledger.Failed || fmt.Sprintf("%x", now.ArgsHash) != refused.GetArgumentsHash() {
		t.Errorf("a correction that was refused left %s %x", now.State, now.ArgsHash)
	}
	if used := usedOf(preview(t, w, r, apptest.Refund("more", 1, "run_5")), "money"); used != "5.00" {
		t.Errorf("%s is used, want 5.00", used)
	}
	// The switch keeps it from being sent, and what it holds is held.
	setSwitch(t, w, r, true)
	if waiting := w.Ask(t, r, apptest.Waiting(correction("right", 400), 0)); waiting.GetOperation().GetState() != oncewardv1.OperationState_OPERATION_STATE_PENDING {
		t.Errorf("while it is stopped: %v", waiting)
	}
	if writes(w, "right") != 0 {
		t.Error("it was sent to a provider that is stopped")
	}
	setSwitch(t, w, r, false)
	w.Database.Exec(t, `UPDATE operations SET next_attempt_at = clock_timestamp(), revision = revision + 1 WHERE status = 'pending'`)
	w.WaitFor(t, "acme", refused.GetId(), ledger.Succeeded)
	w.WantOneEffect(t, refused.GetId())
	if used := usedOf(preview(t, w, r, apptest.Refund("more", 1, "run_5")), "money"); used != "9.00" {
		t.Errorf("%s is used, want 9.00", used)
	}
}

// What the policy refuses now and did once is still answered, to who may request
// the action type at all; with other arguments it is no key to what happened.
func TestDuplicateOfWhatIsDeniedNow(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{Policies: policyOf("1", "")})
	r, other := w.Start(t, nil), w.Start(t, nil)
	first := w.AskIn(t, r, apptest.Refund("ch_1", 500, "run_1"), succeeded).GetOperation()
	w.WritePolicy(t, "acme.yaml", policyOf("2", "rules:\n  - {id: frozen, reason: refunds are frozen, action_types: [payments.*], then: deny}\n")["acme.yaml"])
	for _, replica := range []*apptest.Replica{r, other} { // from memory, and from the ledger
		inForce(t, w, replica, "2")
		again := w.AskIn(t, replica, apptest.Refund("ch_1", 500, "run_1"), succeeded)
		if !again.GetReplayed() || again.GetOperation().GetReceipt().GetJson() != first.GetReceipt().GetJson() {
			t.Errorf("a duplicate of what is denied now: %v", again)
		}
		_, err := w.Try(t.Context(), replica, apptest.Refund("ch_1", 501, "run_1"))
		apptest.WantReason(t, err, codes.FailedPrecondition, "IDEMPOTENCY_KEY_REUSED")
		_, err = w.Try(t.Context(), replica, apptest.Refund("ch_2", 500, "run_2"))
		apptest.WantReason(t, err, codes.PermissionDenied, "POLICY_DENIED")
	}
	// Who may not request it at all, and who is of another tenant, get nothing.
	stranger := w.Key(t, "acme", "mallory", "agent")
	for i := range 2 { // the second could come from memory
		_, err := r.Actions.RequestAction(apptest.As(t.Context(), stranger), apptest.Refund("ch_1", 500, "run_1"))
		apptest.WantReason(t, err, codes.PermissionDenied, "POLICY_DENIED")
		_, err = r.Actions.RequestAction(apptest.As(t.Context(), w.Globex), apptest.Keyed(apptest.Refund("ch_1", 500, "run_1"), first.GetIdempotencyKey()))
		st := apptest.WantReason(t, err, codes.PermissionDenied, "POLICY_DENIED")
		if strings.Contains(st.Message(), first.GetId()) {
			t.Errorf("%d: another tenant is told %s", i, st.Message())
		}
	}
	w.WantEffects(t, 1)
}

// What is withdrawn while it waits for people gives back what it holds, and a yes
// that comes afterwards moves nothing.
func TestCancelGivesBack(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{Policies: policyOf("1", twoPeople+`budgets:
  - {id: money, of: spend, currency: USD, limit: "50.00", action_types: [payments.*], window: {sliding: 24h}}
intents:
  - {name: order, quiet: 1h, actions: {payments.refund.create: {order: args.charge_id}}}
`)})
	r := w.Start(t, nil)
	op := w.AskIn(t, r, apptest.Refund("ch_1", 5000, "run_1"), needsReview).GetOperation()
	approve(t, r, w.Reviewer, op.GetReview())
	_, err := w.Try(t.Context(), r, apptest.Refund("ch_2", 1, "run_2"))
	apptest.WantReason(t, err, codes.ResourceExhausted, "BUDGET_EXHAUSTED")
	for range 2 { // twice is harmless
		if _, err := r.Actions.CancelOperation(apptest.As(t.Context(), w.Agent), &oncewardv1.CancelOperationRequest{OperationId: op.GetId()}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = tryApprove(t, r, w.SecondReviewer, op.GetReview().GetId(), &oncewardv1.Approve{})
	apptest.WantReason(t, err, codes.FailedPrecondition, "REVIEW_DECIDED")
	w.AskIn(t, r, apptest.Refund("ch_1", 500, "run_3"), succeeded) // its budget and its intent
	w.WantEffects(t, 1)
	w.WantTrail(t, op.GetId(), "escalate cancel")
}

// A tenant that was switched off after the yes sends nothing until it is on again.
func TestApprovedOperationOfATenantThatIsOff(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{Policies: policyOf("1", twoPeople)})
	r := w.Start(t, nil)
	op := w.AskIn(t, r, apptest.Refund("ch_1", 5000, "run_1"), needsReview).GetOperation()
	setSwitch(t, w, r, true)
	approve(t, r, w.Reviewer, op.GetReview())
	approve(t, r, w.SecondReviewer, op.GetReview())
	w.WaitFor(t, "acme", op.GetId(), ledger.Pending)
	if err := w.Owner().SetTenantActive(t.Context(), "acme", false); err != nil {
		t.Fatal(err)
	}
	if err := w.Owner().ClearKillSwitch(t.Context(), ledger.KillSwitch{Tenant: "acme", Provider: "fakepay", Reason: "it is off as a whole", SetBy: "test"}); err != nil {
		t.Fatal(err)
	}
	due := `UPDATE operations SET next_attempt_at = clock_timestamp(), revision = revision + 1 WHERE status = 'pending'`
	w.Database.Exec(t, due)
	var err error
	apptest.Eventually(t, func() bool { // what was read of a credential counts for a second
		_, err = tryApprove(t, r, w.Reviewer, op.GetReview().GetId(), &oncewardv1.Approve{})
		return status.Code(err) == codes.PermissionDenied
	}, func() string { return fmt.Sprint("the reviewer gets ", err) })
	apptest.WantReason(t, err, codes.PermissionDenied, "TENANT_INACTIVE")
	if got := w.Held(t, op.GetId()); got.State != ledger.Pending || got.Attempt != 0 {
		t.Errorf("a tenant that is off: %s, attempt %d", got.State, got.Attempt)
	}
	w.WantEffects(t, 0)
	if err := w.Owner().SetTenantActive(t.Context(), "acme", true); err != nil {
		t.Fatal(err)
	}
	w.Database.Exec(t, due)
	w.WaitFor(t, "acme", op.GetId(), ledger.Succeeded)
	w.WantOneEffect(t, op.GetId())
}

// A yes that would send nothing any more, because the policy's time for the
// operation is over, is not taken.
func TestApprovalAfterTheTimeOfAnOperation(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{Policies: policyOf("1", twoPeople+"per_operation: [{max_elapsed: 1h}]\n")})
	r := w.Start(t, nil)
	op := w.AskIn(t, r, apptest.Refund("ch_1", 5000, "run_1"), needsReview).GetOperation()
	review := op.GetReview()
	if ttl := review.GetExpiresAt().AsTime().Sub(review.GetOpenedAt().AsTime()).Round(time.Minute); ttl != time.Hour {
		t.Errorf("the question lapses after %s", ttl)
	}
	w.Database.Exec(t, `UPDATE operations SET give_up_at = clock_timestamp() - interval '1 second', revision = revision + 1`)
	_, err := tryApprove(t, r, w.Reviewer, review.GetId(), &oncewardv1.Approve{})
	apptest.WantReason(t, err, codes.FailedPrecondition, "DECISION_NOT_APPLICABLE")
	if now := w.Held(t, op.GetId()); now.State != ledger.NeedsReview || len(now.Review.Approvals) != 0 {
		t.Errorf("%s with %d approvals", now.State, len(now.Review.Approvals))
	}
}

// A tenant that nobody wrote a policy for is refused and on record, not told to go
// on by itself.
func TestTenantWithoutPolicyIsRefused(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{Policies: policyOf("1", "")})
	r := w.Start(t, nil)
	_, err := r.Actions.RequestAction(apptest.As(t.Context(), w.Globex), apptest.Refund("ch_1", 500, "run_1"))
	apptest.WantReason(t, err, codes.PermissionDenied, "POLICY_DENIED")
	if n := w.Database.Count(t, `SELECT count(*) FROM audit_events WHERE tenant_id = 'globex' AND event = 'deny' AND context->>'rule' = 'no_policy'`); n != 1 {
		t.Errorf("it is on record %d times", n)
	}
	w.WantEffects(t, 0)
}
