package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// approvalReview is the question of a decision that wants reviewers.
func approvalReview(d policy.Decision) *ledger.ReviewOpening {
	return &ledger.ReviewOpening{
		ID: dispatch.NewID(), Reason: ledger.ApprovalRequired, ExpiresIn: d.ApprovalTTL,
		RequiredApprovals: max(d.Approvals, 1), PolicyVersion: d.Version, Detail: approvalDetail(d),
	}
}

func approvalDetail(d policy.Decision) string { return "Rule " + d.Rule + ": " + d.Reason + "." }

// seenByApprover refuses an approval of something else than the reviewer saw.
func seenByApprover(review ledger.Review, op ledger.Operation, approve *oncewardv1.Approve) error {
	if seen := approve.GetArgumentsHash(); seen != "" && seen != hex.EncodeToString(op.ArgsHash[:]) {
		return refuse(codes.FailedPrecondition, reasonArgumentsChanged, "operation %s has other arguments than those that were approved; nothing was decided: look at it again", op.ID)
	}
	if seen := approve.GetPolicyVersion(); seen != "" && seen != review.PolicyVersion {
		return refuse(codes.FailedPrecondition, reasonPolicyChanged, "policy %s asks, not %s; nothing was decided: look at it again", review.PolicyVersion, seen)
	}
	return nil
}

// stillAsked makes sure that an approval is for the policy that is in force. A
// review that another version asked is bound to the present one, without the
// approvals that it had, and the reviewer is told.
func (s *Server) stillAsked(ctx context.Context, review ledger.Review, op ledger.Operation) error {
	now := s.Policies(op.Tenant).Version()
	if now == review.PolicyVersion {
		return nil
	}
	action, ok := s.actionOf(op)
	if !ok {
		return refuse(codes.FailedPrecondition, reasonNotApplicable, "this server does not know %s %s any more, so that it cannot tell what would be sent", op.ActionType, op.AdapterVersion)
	}
	args, err := s.Dispatcher.StoredArguments(ctx, op)
	if err != nil {
		return err
	}
	d, err := s.decideAgain(ctx, op, action, args)
	if err != nil {
		return err
	}
	r := refuse(codes.FailedPrecondition, reasonPolicyChanged, "")
	r.metadata = map[string]string{"policy_version": d.Version, "rule": d.Rule}
	if d.Effect == policy.Deny {
		r.message = fmt.Sprintf("the policy was %s when this was asked and is %s now, which refuses it by rule %s (%s); nothing was decided: reject it, or let it lapse", review.PolicyVersion, d.Version, d.Rule, d.Reason)
		return r
	}
	detail := approvalDetail(d)
	if d.Effect == policy.Allow {
		detail = "The policy that asked is no longer in force, and the present one would not ask; it was asked, and is not sent without a yes."
	}
	if len(review.Approvals) > 0 {
		// They are gone then; the record has them.
		detail += " Approvals under policy " + review.PolicyVersion + " do not count: " + approvers(review) + "."
	}
	if _, err := s.Ledger.Rebind(ctx, op.Tenant, review.ID, d.Version, max(d.Approvals, 1), detail); err != nil {
		return err
	}
	r.message = fmt.Sprintf("the policy was %s when this was asked and is %s now; nothing was decided, and approvals that were given do not count: look at it again, then approve it", review.PolicyVersion, d.Version)
	return r
}

// approve counts one reviewer's yes. It returns the names of all when there are
// enough, so that the operation may move; else nothing.
func (s *Server) approve(ctx context.Context, p policy.Principal, review ledger.Review, op ledger.Operation, req *oncewardv1.ResolveReviewRequest) (names string, err error) {
	if err := seenByApprover(review, op, req.GetApprove()); err != nil {
		return "", err
	}
	if err := s.stillAsked(ctx, review, op); err != nil {
		return "", err
	}
	voted, err := s.Ledger.AddApproval(ctx, op.Tenant, review.ID, ledger.Approval{By: p.Actor, Note: req.GetNote(), PolicyVersion: review.PolicyVersion})
	if err != nil && !errors.Is(err, ledger.ErrAlreadyVoted) {
		return "", err
	}
	if len(voted.Approvals) < max(voted.RequiredApprovals, 1) {
		return "", nil
	}
	return approvers(voted), nil
}

// approvers are those who said yes.
func approvers(r ledger.Review) string {
	names := make([]string, len(r.Approvals))
	for i, a := range r.Approvals {
		names[i] = a.By
	}
	return strings.Join(names, ", ")
}
