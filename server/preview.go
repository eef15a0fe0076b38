package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// PreviewAction decides everything, and records and sends nothing.
func (s *Server) PreviewAction(ctx context.Context, req *oncewardv1.PreviewActionRequest) (*oncewardv1.PreviewActionResponse, error) {
	p := principalOf(ctx)
	if err := want(p, policy.Agent); err != nil {
		return nil, err
	}
	a, err := s.screen(&admission{}, p, req.GetRequest())
	var r *refusal
	if a != nil && errors.As(err, &r) && r.reason == reasonPolicyDenied {
		resp := &oncewardv1.PreviewActionResponse{}
		explainPolicy(resp, a)
		return resp, nil
	}
	if err != nil {
		return nil, err
	}
	if err := s.admitArguments(ctx, a, req.GetRequest()); err != nil {
		return nil, err
	}
	resp := &oncewardv1.PreviewActionResponse{
		IdempotencyKey: a.key.Text, KeySource: toKeySource(a.key.Source.String()), ArgumentsHash: hex.EncodeToString(a.hash[:]),
	}
	decided, err := s.previewExisting(ctx, a, resp)
	if err != nil {
		return nil, err
	}
	if err := s.judge(ctx, a, req.GetRequest()); err != nil && (!errors.As(err, &r) || r.reason != reasonPolicyDenied) {
		return nil, err
	}
	if a.decision.Effect != policy.Deny {
		if _, _, err := s.opening(a, req.GetRequest()); err != nil {
			return nil, err // it could not be rendered
		}
	}
	switch {
	case decided:
		outcome, explanation := resp.Outcome, resp.Explanation
		explainPolicy(resp, a)
		resp.Outcome, resp.Explanation = outcome, explanation
		return resp, nil
	case resp.Existing != nil: // it would be corrected
		if a.decision.Effect != policy.Deny {
			if err := correctable(*a.corrects, a); err != nil {
				return nil, err
			}
		}
	}
	explainPolicy(resp, a)
	if err := s.previewRestored(ctx, a, resp); err != nil {
		return nil, err
	}
	if resp.Existing != nil && resp.Outcome == oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_EXECUTE {
		resp.Explanation = "It would be sent: the failed operation would be corrected."
	}
	return resp, s.previewHolds(ctx, a, req.GetRequest(), resp)
}

// explainPolicy says what policy decides.
func explainPolicy(resp *oncewardv1.PreviewActionResponse, a *admission) {
	d := a.decision
	resp.Rule, resp.RuleReason, resp.PolicyVersion, resp.Stage = d.Rule, d.Reason, a.policy.Version(), toStage(d.Stage)
	resp.Amount, resp.Currency = d.Amount, d.Currency
	for _, f := range d.Holds.Fences {
		resp.Intents = append(resp.Intents, f.Intent)
	}
	switch {
	case d.Stage == ledger.StageObserve:
		resp.Outcome = oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_OBSERVE
		resp.Explanation = fmt.Sprintf("It would only be recorded, since the stage is observe. In a later stage rule %s would decide: %s (%s).", d.Rule, d.Effect, d.Reason)
	case d.Effect == policy.Allow:
		resp.Outcome = oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_EXECUTE
		resp.Explanation = "It would be sent: " + d.Reason + "."
	case d.Effect == policy.RequireApproval:
		resp.Outcome, resp.RequiredApprovals = oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_REQUIRE_APPROVAL, int32(max(d.Approvals, 1))
		resp.Explanation = "It would wait for a reviewer: " + d.Reason + "."
		if d.Approvals > 1 {
			resp.Explanation = fmt.Sprintf("It would wait for %d reviewers: %s.", d.Approvals, d.Reason)
		}
	default:
		resp.Outcome = oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_DENY
		resp.Explanation = fmt.Sprintf("It would be refused by rule %s: %s.", d.Rule, d.Reason)
	}
}

// previewExisting completes a preview with the operation that holds the key. It
// reports whether that operation would be the answer.
func (s *Server) previewExisting(ctx context.Context, a *admission, resp *oncewardv1.PreviewActionResponse) (bool, error) {
	if a.decision.Stage == ledger.StageObserve {
		return false, nil
	}
	existing, err := s.existing(ctx, a)
	var reused *ledger.KeyReusedError
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return false, nil
	case errors.As(err, &reused) && a.corrects != nil && a.corrects.ID == reused.Existing.ID:
		resp.Existing = toOperation(&reused.Existing)
		return false, nil
	case err != nil:
		return false, err
	}
	resp.Existing = toOperation(&existing)
	resp.Outcome, resp.Explanation = oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_JOIN, "It would join the operation that holds its key, which is not finished."
	if existing.State.Final() {
		resp.Outcome, resp.Explanation = oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_REPLAY, "It would be answered from the operation that holds its key; nothing would be sent."
	}
	return true, nil
}

// previewRestored says what becomes of what would be sent or asked for, in a ledger
// that was restored. A correction that may be among what was lost fails as it would be
// refused.
func (s *Server) previewRestored(ctx context.Context, a *admission, resp *oncewardv1.PreviewActionResponse) error {
	if o := resp.Outcome; o != oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_EXECUTE && o != oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_REQUIRE_APPROVAL {
		return nil
	}
	restored, err := s.Ledger.RestoreOf(ctx, a.principal.Tenant, a.action.Spec.Type)
	switch {
	case err != nil || restored == nil:
		return err
	case resp.Existing == nil:
		resp.Outcome = oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_IN_DOUBT
		resp.Explanation = "It would be recorded in doubt, not sent, and looked for: the records were restored from a backup, and it may have happened in the time that is missing."
	case restored.Forgot(*a.corrects):
		return &ledger.RestoredError{Restore: *restored}
	}
	return nil
}

// previewHolds completes a preview with the budgets as they are, and refuses by
// what a claim would be refused by now: kill switches, budgets, intents.
func (s *Server) previewHolds(ctx context.Context, a *admission, req *oncewardv1.RequestActionRequest, resp *oncewardv1.PreviewActionResponse) error {
	holds := a.decision.Holds
	use, err := s.Ledger.BudgetUse(ctx, a.principal.Tenant, holds.Charges, "")
	if err != nil {
		return err
	}
	var full *ledger.BudgetUse
	for i, u := range use {
		line := &oncewardv1.BudgetUse{Budget: u.Budget, Subject: u.Subject, Limit: u.Limit, Used: u.Used, Wanted: u.Amount, FreeAt: toTime(u.FreeAt)}
		resp.Budgets = append(resp.Budgets, line)
		if full == nil && exceeds(u) {
			full = &use[i]
		}
	}
	switch resp.Outcome {
	case oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_EXECUTE, oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_REQUIRE_APPROVAL,
		oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_IN_DOUBT:
	default:
		return nil
	}
	stopped, err := s.stoppedBy(ctx, a)
	if err != nil {
		return err
	}
	// What is in doubt is recorded although it is stopped: it sends nothing.
	if stopped != nil && resp.Outcome != oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_IN_DOUBT {
		resp.Outcome, resp.Explanation = oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_STOPPED, sentence(stopRefusal(stopped).message)
		return nil
	}
	if full != nil {
		resp.Outcome = oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_BUDGET_EXHAUSTED
		resp.Explanation = fmt.Sprintf("Budget %s of %s would refuse it: %s of %s are used, and %s are wanted.", full.Budget, full.Subject, full.Used, full.Limit, full.Amount)
		return nil
	}
	held, err := s.Ledger.IntentHolder(ctx, a.principal.Tenant, holds.Fences, req.GetDistinctFromOperationId())
	if err != nil {
		return err
	}
	if held != nil && (a.corrects == nil || held.Holder.ID != a.corrects.ID) {
		resp.Outcome = oncewardv1.PreviewOutcome_PREVIEW_OUTCOME_INTENT_OPEN
		resp.Explanation = fmt.Sprintf("Operation %s (%s, %s) holds its intent %s.", held.Holder.ID, held.Holder.ActionType, held.Holder.State, held.Intent)
	}
	return nil
}

// stoppedBy returns the kill switch that would refuse a claim, or nil.
func (s *Server) stoppedBy(ctx context.Context, a *admission) (*ledger.StoppedError, error) {
	switches, err := s.Ledger.KillSwitches(ctx, a.principal.Tenant)
	if err != nil {
		return nil, err
	}
	for _, k := range switches {
		if (k.ActionType == "" || k.ActionType == a.action.Spec.Type) && (k.Provider == "" || k.Provider == a.action.Spec.Contract.Provider) {
			return &ledger.StoppedError{Switch: k}, nil
		}
	}
	return nil, nil
}

// exceeds reports whether a charge does not fit into its counter now.
func exceeds(u ledger.BudgetUse) bool {
	used, ok1 := new(big.Rat).SetString(u.Used)
	wanted, ok2 := new(big.Rat).SetString(u.Amount)
	limit, ok3 := new(big.Rat).SetString(u.Limit)
	return !ok1 || !ok2 || !ok3 || used.Add(used, wanted).Cmp(limit) > 0
}

// sentence is a message as a sentence.
func sentence(message string) string {
	return strings.ToUpper(message[:1]) + message[1:] + "."
}
