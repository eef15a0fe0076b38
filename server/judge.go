package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/optrace"
	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// judge decides a request that would make a new operation, or correct one. A
// duplicate is not judged again: it costs nothing and nothing is sent for it.
func (s *Server) judge(ctx context.Context, a *admission, req *oncewardv1.RequestActionRequest) error {
	var err error
	deciding, span := s.spans.Within(ctx, "policy")
	a.decision, err = s.decide(deciding, a.policy, &policy.Request{
		Principal: a.principal, Action: a.terms, Args: a.args, Run: fromRun(req.GetRun()), IntentID: req.GetIntentId(), At: time.Now(),
	}, "")
	if span.IsRecording() {
		span.SetAttributes(optrace.DecisionKey.String(a.decision.Effect.String()), optrace.RuleKey.String(a.decision.Rule))
	}
	endSpan(span, err)
	if err != nil {
		return err
	}
	return refusalOf(&a.decision)
}

// decide asks the policy, with the budgets as they are where it looks at them, but
// for what the operation recorded holds itself (empty: nothing).
func (s *Server) decide(ctx context.Context, p *policy.Policy, r *policy.Request, recorded string) (policy.Decision, error) {
	if p.ReadsBudgets() {
		if charges := p.Charges(r); len(charges) > 0 {
			var err error
			if r.Use, err = s.Ledger.BudgetUse(ctx, r.Principal.Tenant, charges, recorded); err != nil {
				return policy.Decision{}, err
			}
		}
	}
	d := p.Decide(r)
	if d.Err != nil {
		// The caller is told the rule; what its expression stumbled on may be in
		// the arguments.
		s.Log.WarnContext(ctx, "a rule could not be evaluated, and refuses", "tenant", r.Principal.Tenant, "rule", d.Rule, "policy_version", d.Version, "error", d.Err)
	}
	return d, nil
}

// refusalOf is the refusal of a decision that denies, or nil.
func refusalOf(d *policy.Decision) error {
	switch {
	case d.Effect != policy.Deny:
		return nil
	case len(d.Violations) > 0:
		r := invalid(d.Violations...)
		r.reason = reasonInvalidArguments
		return r
	}
	r := refuse(codes.PermissionDenied, reasonPolicyDenied, "refused by rule %s: %s", d.Rule, d.Reason)
	if d.Rule == "role" {
		r.reason = reasonRoleRequired
	}
	r.metadata = map[string]string{"rule": d.Rule, "policy_version": d.Version}
	return r
}

// decideAgain asks the policy that is in force now about an operation that is
// recorded, for who requested it.
func (s *Server) decideAgain(ctx context.Context, op ledger.Operation, action *actions.Action, args actions.Arguments) (policy.Decision, error) {
	terms, err := s.terms.of(action)
	if err != nil {
		return policy.Decision{}, err
	}
	return s.decide(ctx, s.Policies(op.Tenant), &policy.Request{
		Principal: policy.Principal{Tenant: op.Tenant, Actor: op.RequestedBy, Roles: []policy.Role{policy.Agent}},
		Action:    terms, Args: args, Run: op.Run, IntentID: op.IntentID, At: time.Now(),
	}, op.ID)
}

// Recheck asks the policy again when the write of an operation that a reviewer let
// go on is about to start: a yes is for the policy that asked. It returns what to do
// instead of starting, or nil. Its errors mean that nothing may be sent.
func (s *Server) Recheck(ctx context.Context, op ledger.Operation, action *actions.Action, args actions.Arguments) (*ledger.Change, error) {
	full, err := s.Ledger.Get(ctx, op.Tenant, op.ID)
	if err != nil {
		return nil, err
	}
	d, err := s.decideAgain(ctx, op, action, args)
	if err != nil {
		return nil, err
	}
	change := &ledger.Change{Operation: op, Actor: "worker", Effect: op.Effect, Reason: op.Reason, Failure: op.Failure}
	switch {
	case d.Effect == policy.Deny:
		reason := d.Reason
		if len(d.Violations) > 0 {
			reason = d.Violations[0].Message
		}
		change.Event = ledger.Reject
		change.Detail = fmt.Sprintf("the policy %s refuses it now, by rule %s", d.Version, d.Rule)
		change.Failure = &ledger.Failure{Code: "policy_denied", Message: fmt.Sprintf("A reviewer let it go on, and the policy has changed before it was sent: refused by rule %s: %s. Nothing was sent.", d.Rule, reason)}
		return change, nil
	case wasApproved(full) && d.Effect == policy.RequireApproval && approvedUnder(full) != d.Version:
		change.Event = ledger.Escalate
		change.Detail = fmt.Sprintf("approved under policy %s; the policy is %s now", approvedUnder(full), d.Version)
		change.Review = approvalReview(d)
		return change, nil
	case op.LastEvent == ledger.Release && op.Attempt == 0 && d.Effect == policy.RequireApproval && !wasApproved(full):
		// In doubt since a restore, and found not to have happened: to find that out was
		// no approval.
		change.Event = ledger.Escalate
		change.Detail = fmt.Sprintf("released, and never approved; the policy %s wants that", d.Version)
		change.Review = approvalReview(d)
		return change, nil
	default:
		return nil, nil
	}
}

// wasApproved reports whether an operation goes on because reviewers approved it.
// One whose review is not there was not approved by anybody that we know.
func wasApproved(op ledger.Operation) bool {
	return op.LastEvent == ledger.Approve ||
		op.Review != nil && op.Review.Reason == ledger.ApprovalRequired && op.Review.Decision == ledger.Approved
}

// approvedUnder is the version of the policy that the last review of an operation
// asked for, or empty: no policy has that.
func approvedUnder(op ledger.Operation) string {
	if op.Review == nil {
		return ""
	}
	return op.Review.PolicyVersion
}

// terms are the compiled expressions of the action types in use.
type terms struct {
	mu   sync.RWMutex
	byID map[*actions.Action]*policy.Action
}

// keptTerms is how many are kept before those of versions that are gone are
// dropped, with all others: they are compiled again in a moment.
const keptTerms = 4096

func (t *terms) of(action *actions.Action) (*policy.Action, error) {
	t.mu.RLock()
	known := t.byID[action]
	t.mu.RUnlock()
	if known != nil {
		return known, nil
	}
	compiled, err := policy.Compile(action.Spec)
	if err != nil {
		return nil, fmt.Errorf("server: action type %s: %w", action.Spec.Type, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byID) >= keptTerms {
		t.byID = nil
	}
	if t.byID == nil {
		t.byID = map[*actions.Action]*policy.Action{}
	}
	t.byID[action] = compiled
	return compiled, nil
}

// Check compiles the expressions of every action type that is registered. An
// action type whose own are wrong is refused at the start, not at its first
// request.
func (s *Server) Check() error {
	var errs []error
	for _, action := range s.Registry.All() {
		if _, err := s.terms.of(action); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// budgetRefusal says which budget is used up.
func budgetRefusal(e *ledger.BudgetExhaustedError) *refusal {
	use := e.Use
	r := refuse(codes.ResourceExhausted, reasonBudgetExhausted,
		"budget %s of %s: %s of %s are used and %s are wanted; nothing was recorded or sent", use.Budget, use.Subject, use.Used, use.Limit, use.Amount)
	switch use.Kind {
	case ledger.ChargeRate:
		r.reason = reasonRateLimited
		r.message = fmt.Sprintf("rate %s of %s: %s requests are the most in its window; nothing was recorded or sent", use.Budget, use.Subject, use.Limit)
	case ledger.ChargeOpen:
		r.message = fmt.Sprintf("budget %s of %s: %s operations are the most that may be open at once; nothing was recorded or sent", use.Budget, use.Subject, use.Limit)
	case ledger.ChargeUse:
	}
	r.metadata = map[string]string{"budget": use.Budget, "subject": use.Subject, "limit": use.Limit, "used": use.Used, "wanted": use.Amount}
	r.quota = use.Subject
	if !use.FreeAt.IsZero() {
		r.retryAfter = max(time.Until(use.FreeAt), time.Second)
		r.metadata["free_at"] = use.FreeAt.UTC().Format(time.RFC3339)
	}
	return r
}

// intentRefusal points a planner at the operation that holds its intent.
func intentRefusal(e *ledger.IntentHeldError) *refusal {
	step := nextStep(&e.Holder, time.Now())
	r := refuse(codes.FailedPrecondition, reasonIntentOpen,
		"operation %s (%s, %s) is open under the same intent %s; nothing was recorded or sent: ask for that operation, do not request the action in another way",
		e.Holder.ID, e.Holder.ActionType, e.Holder.State, e.Intent)
	if !e.QuietUntil.IsZero() {
		r.reason = reasonIntentQuiet
		r.message = fmt.Sprintf("operation %s (%s) has succeeded under the same intent %s; nothing was recorded or sent: where a second one is meant, name it in distinct_from_operation_id",
			e.Holder.ID, e.Holder.ActionType, e.Intent)
	}
	r.metadata = map[string]string{
		"intent": e.Intent, "operation_id": e.Holder.ID, "action_type": e.Holder.ActionType, "state": string(e.Holder.State),
		"next_step": step.GetKind().String(), "next_step_message": step.GetMessage(),
	}
	if !e.QuietUntil.IsZero() {
		r.metadata["quiet_until"] = e.QuietUntil.UTC().Format(time.RFC3339)
	}
	return r
}

// stopRefusal says what is stopped, and why.
func stopRefusal(e *ledger.StoppedError) *refusal {
	what := "every action"
	r := refuse(codes.FailedPrecondition, reasonStopped, "")
	r.metadata = map[string]string{"reason": e.Switch.Reason}
	switch k := e.Switch; {
	case k.ActionType != "":
		what = k.ActionType
		r.metadata["action_type"] = k.ActionType
	case k.Provider != "":
		what = "every action of provider " + k.Provider
		r.metadata["provider"] = k.Provider
	}
	r.message = what + " is stopped by a kill switch: " + e.Switch.Reason + "; nothing was recorded or sent"
	return r
}
