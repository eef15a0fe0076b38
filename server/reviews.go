package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/optrace"
	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// ListReviews returns the open reviews, oldest first, with what reviewers must
// see.
func (s *Server) ListReviews(ctx context.Context, req *oncewardv1.ListReviewsRequest) (*oncewardv1.ListReviewsResponse, error) {
	p := principalOf(ctx)
	if err := want(p, policy.Reviewer, policy.Auditor, policy.Admin); err != nil {
		return nil, err
	}
	size, err := pageSize(req.GetPageSize())
	if err != nil {
		return nil, err
	}
	after, err := pageStart(req.GetPageToken(), "reviews")
	if err != nil {
		return nil, err
	}
	open, err := s.Ledger.OpenReviews(ctx, p.Tenant, after, size+1)
	if err != nil {
		return nil, err
	}
	resp := &oncewardv1.ListReviewsResponse{}
	if len(open) > size {
		open = open[:size]
		resp.NextPageToken = pageToken(open[size-1].ReviewID, "reviews")
	}
	for _, review := range open {
		op, err := s.Ledger.Get(ctx, p.Tenant, review.OperationID)
		if err != nil {
			return nil, err
		}
		item := &oncewardv1.ReviewItem{Operation: toOperation(&op)}
		args, err := s.Dispatcher.StoredArguments(ctx, op)
		switch {
		case err == nil:
			item.ArgumentsJson, item.SensitiveArguments = s.shown(p, op, args.JSON())
		case errors.Is(err, ledger.ErrUnavailable):
			return nil, err
		case !errors.Is(err, ledger.ErrNotFound):
			// One operation whose arguments cannot be opened must not hide the others.
			s.Log.Error("arguments of a review cannot be read", "tenant", op.Tenant, "operation", op.ID, "error", err)
		}
		resp.Reviews = append(resp.Reviews, item)
	}
	return resp, nil
}

// shown are the arguments of an operation as a principal may see them, and the
// paths of those that are sensitive. Reviewers see what would be sent, all of it.
func (s *Server) shown(p policy.Principal, op ledger.Operation, args []byte) (string, []string) {
	action, ok := s.actionOf(op)
	switch {
	case p.Has(policy.Reviewer) && ok:
		return string(args), action.Spec.SensitiveArgs
	case p.Has(policy.Reviewer):
		return string(args), nil
	case !ok: // nobody here knows what is sensitive
		return "", nil
	default:
		return string(actions.Redact(args, action.Spec.SensitiveArgs)), action.Spec.SensitiveArgs
	}
}

// ResolveReview decides a review. The first decision wins; the same one again
// is harmless.
func (s *Server) ResolveReview(ctx context.Context, req *oncewardv1.ResolveReviewRequest) (*oncewardv1.ResolveReviewResponse, error) {
	p := principalOf(ctx)
	if err := want(p, policy.Reviewer); err != nil {
		return nil, err
	}
	decision, err := readDecision(req)
	if err != nil {
		return nil, err
	}
	// The second round is for a decision that somebody else made while this one
	// read or wrote.
	for range 2 {
		resp, err := s.resolve(ctx, p, decision, req)
		if !errors.Is(err, ledger.ErrFenced) {
			return resp, err
		}
	}
	return nil, ledger.ErrFenced
}

// resolve makes one try at a decision. ErrFenced means that the review or its
// operation moved meanwhile.
func (s *Server) resolve(ctx context.Context, p policy.Principal, decision ledger.Decision, req *oncewardv1.ResolveReviewRequest) (resp *oncewardv1.ResolveReviewResponse, err error) {
	review, operationID, err := s.Ledger.Review(ctx, p.Tenant, req.GetReviewId())
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, refuse(codes.NotFound, reasonReviewNotFound, "no such review: want the id of a review, not of its operation; ListReviews has those that are open")
	}
	if err != nil {
		return nil, err
	}
	op, err := s.Ledger.Get(ctx, p.Tenant, operationID)
	if err != nil {
		return nil, err
	}
	s.spans.Link(ctx, &op)
	ctx, span := s.spans.Operation(ctx, &op, "review")
	defer func() {
		if span.IsRecording() {
			span.SetAttributes(optrace.DecisionKey.String(string(decision)), optrace.StateKey.String(stateName(resp.GetOperation().GetState())))
		}
		endSpan(span, err)
	}()
	if may := policy.MayDecide(p, op.RequestedBy); may.Effect != policy.Allow {
		return nil, s.deny(ctx, refuse(codes.PermissionDenied, reasonRequesterCannot, "%s", may.Reason), ledger.Denial{
			Tenant: p.Tenant, Actor: p.Actor, ActionType: op.ActionType, Key: op.Key, ArgsHash: &op.ArgsHash, Run: op.Run,
			Verdict: ledger.Verdict{Rule: may.Rule}, Detail: fmt.Sprintf("review %s of operation %s: %s", review.ID, op.ID, may.Reason),
		})
	}
	switch {
	case !review.Open():
		return s.decided(review, op, decision, req)
	case op.State != ledger.NeedsReview:
		return nil, ledger.ErrFenced
	}
	if err := s.applicable(ctx, review, op, decision); err != nil {
		return nil, err
	}
	change := decisionChange(p, op, review, decision, req)
	if decision == ledger.Approved {
		by, err := s.approve(ctx, p, review, op, req)
		if err != nil {
			return nil, err
		}
		if by == "" { // more must say yes
			full, err := s.Ledger.Get(ctx, op.Tenant, op.ID)
			if err != nil {
				return nil, err
			}
			return &oncewardv1.ResolveReviewResponse{Operation: toOperation(&full)}, nil
		}
		change.Decision.By = by
		if by != p.Actor { // the record has everybody's name
			change.Detail = "approved by " + by + ": " + req.GetNote()
		}
		// Approvals are counted with the operation as it is now.
		if op, err = s.Ledger.Get(ctx, op.Tenant, op.ID); err != nil {
			return nil, err
		}
		if op.State != ledger.NeedsReview { // decided since the vote
			return nil, ledger.ErrFenced
		}
		change.Operation = op
	}
	if action, ok := s.actionOf(op); ok {
		change.Receipt = actions.Redact(change.Receipt, action.Spec.SensitiveReceipt)
	}
	if action, ok := s.actionOf(op); ok && change.Effect == ledger.EffectNotApplied && op.Attempt > 0 {
		// A person can be wrong, too: look for a late landing.
		change.Watch = action.Spec.Contract.LateLanding
	}
	if decision == ledger.NotAppliedRetry {
		if change, err = s.released(ctx, op, change); err != nil {
			return nil, err
		}
	}
	moved, err := s.Ledger.Apply(ctx, change)
	if err != nil {
		return nil, err
	}
	s.Changed(moved)
	if moved.State == ledger.Pending {
		s.Dispatcher.Hasten(moved)
	}
	return &oncewardv1.ResolveReviewResponse{Operation: toOperation(&moved)}, nil
}

// decided answers a decision on a review that was decided before.
func (s *Server) decided(review ledger.Review, op ledger.Operation, decision ledger.Decision, req *oncewardv1.ResolveReviewRequest) (*oncewardv1.ResolveReviewResponse, error) {
	same := decision != ledger.Confirmed || op.ProviderReference == req.GetConfirm().GetProviderReference()
	if review.Decision == decision && same {
		return &oncewardv1.ResolveReviewResponse{Operation: toOperation(&op)}, nil
	}
	r := refuse(codes.FailedPrecondition, reasonReviewDecided, "%s decided before: %s; the operation is %s", review.DecidedBy, review.Decision, op.State)
	r.metadata = map[string]string{"decision": string(review.Decision), "decided_by": review.DecidedBy, "state": string(op.State)}
	return nil, r
}

// readDecision checks the form of a decision.
func readDecision(req *oncewardv1.ResolveReviewRequest) (ledger.Decision, error) {
	if err := checkID("review_id", req.GetReviewId()); err != nil {
		return "", err
	}
	if v, ok := checkText("note", req.GetNote(), maxNote); !ok {
		return "", invalid(v)
	}
	needsNote := func(d ledger.Decision) (ledger.Decision, error) {
		if req.GetNote() == "" {
			return "", invalid(actions.Violation{Field: "note", Reason: actions.ReasonRequired, Message: "say how it was established"})
		}
		return d, nil
	}
	switch d := req.GetDecision().(type) {
	case *oncewardv1.ResolveReviewRequest_Approve:
		return ledger.Approved, nil
	case *oncewardv1.ResolveReviewRequest_Reject:
		return ledger.Rejected, nil
	case *oncewardv1.ResolveReviewRequest_Confirm:
		if v, ok := checkText("confirm.provider_reference", d.Confirm.GetProviderReference(), maxContextText); !ok {
			return "", invalid(v)
		}
		if d.Confirm.GetProviderReference() == "" {
			return "", invalid(actions.Violation{Field: "confirm.provider_reference", Reason: actions.ReasonRequired, Message: "a success needs the provider's id of the effect"})
		}
		if receipt := d.Confirm.GetReceiptJson(); receipt != "" && !isObject(receipt) {
			return "", invalid(actions.Violation{Field: "confirm.receipt_json", Reason: actions.ReasonSyntax, Message: "is not a JSON object of at most 64 KiB"})
		}
		return needsNote(ledger.Confirmed)
	case *oncewardv1.ResolveReviewRequest_NotApplied:
		switch d.NotApplied.GetThen() {
		case oncewardv1.NotAppliedThen_NOT_APPLIED_THEN_RETRY:
			return needsNote(ledger.NotAppliedRetry)
		case oncewardv1.NotAppliedThen_NOT_APPLIED_THEN_CLOSE:
			return needsNote(ledger.NotAppliedClose)
		case oncewardv1.NotAppliedThen_NOT_APPLIED_THEN_UNSPECIFIED:
		}
		return "", invalid(actions.Violation{Field: "not_applied.then", Reason: actions.ReasonRequired, Message: "say NOT_APPLIED_THEN_RETRY or NOT_APPLIED_THEN_CLOSE"})
	default:
		return "", invalid(actions.Violation{Field: "decision", Reason: actions.ReasonRequired, Message: "say approve, reject, confirm or not_applied"})
	}
}

func isObject(text string) bool {
	var object map[string]json.RawMessage
	return len(text) <= ledger.MaxReceiptBytes && json.Unmarshal([]byte(text), &object) == nil && object != nil
}

// applicable refuses decisions that do not answer the question, and to try again
// what can no longer be sent: an operation that had ended has dropped its
// arguments.
func (s *Server) applicable(ctx context.Context, review ledger.Review, op ledger.Operation, decision ledger.Decision) error {
	approval := decision == ledger.Approved || decision == ledger.Rejected
	if approval != (review.Reason == ledger.ApprovalRequired) {
		return refuse(codes.FailedPrecondition, reasonNotApplicable, "a review of reason %s cannot be answered with %s", review.Reason, decision)
	}
	if decision == ledger.Approved && !review.ExpiresAt.IsZero() && review.ExpiresAt.Before(time.Now()) {
		return refuse(codes.FailedPrecondition, reasonNotApplicable, "the question lapsed at %s; the operation fails without being sent", review.ExpiresAt.Format(time.RFC3339))
	}
	if decision == ledger.Approved && dispatch.GivenUp(op, time.Now()) {
		return refuse(codes.FailedPrecondition, reasonNotApplicable, "the time that the policy gives the operation was over at %s; a yes would send nothing: reject it, or let it lapse", op.GiveUpAt.Format(time.RFC3339))
	}
	if decision != ledger.NotAppliedRetry {
		return nil
	}
	_, err := s.Dispatcher.StoredArguments(ctx, op)
	if err != nil && !errors.Is(err, ledger.ErrUnavailable) {
		return refuse(codes.FailedPrecondition, reasonNotApplicable,
			"the arguments of operation %s cannot be read any more: close it, and request the action again under a new key", op.ID)
	}
	return err
}

// released completes the release of an operation that a reviewer found not
// applied. It is sent under the same provider key, which guards against a late
// landing, unless that can no longer help: the provider replays stored failures,
// or the request would not be the one that was sent under it.
func (s *Server) released(ctx context.Context, op ledger.Operation, change ledger.Change) (ledger.Change, error) {
	action, ok := s.actionOf(op)
	if !ok {
		return change, nil
	}
	args, err := s.Dispatcher.StoredArguments(ctx, op)
	if err != nil {
		return change, err
	}
	prepared, err := s.Dispatcher.Prepare(action, op.Tenant, op.ID, op.Epoch, args)
	if err != nil {
		return change, refuse(codes.FailedPrecondition, reasonNotApplicable, "the arguments of operation %s make no request any more: close it", op.ID)
	}
	changed := op.RequestHash != nil && *op.RequestHash != prepared.RequestHash
	change.BumpEpoch = changed || action.Spec.Contract.Keys.StoresFailures
	return change, nil
}

// actionOf is the action that an operation goes on with: the version that it began
// with, where that is known here.
func (s *Server) actionOf(op ledger.Operation) (*actions.Action, bool) {
	return s.Registry.At(op.ActionType, op.AdapterVersion, op.ContractVersion)
}

// decisionChange is the move that a decision makes.
func decisionChange(p policy.Principal, op ledger.Operation, review ledger.Review, decision ledger.Decision, req *oncewardv1.ResolveReviewRequest) ledger.Change {
	change := ledger.Change{
		Operation: op, Actor: p.Actor, Detail: string(decision) + ": " + req.GetNote(), ResetResolves: true,
		Decision: &ledger.ReviewClosing{ReviewID: review.ID, Decision: decision, By: p.Actor, Note: req.GetNote()},
	}
	switch decision {
	case ledger.Approved:
		change.Event, change.Effect = ledger.Approve, op.Effect
	case ledger.Rejected:
		change.Event, change.Effect = ledger.Reject, op.Effect
		change.Failure = &ledger.Failure{Code: "rejected_by_reviewer", Message: "A reviewer did not allow the action; nothing was sent."}
	case ledger.Confirmed:
		change.Event, change.Effect = ledger.Confirm, ledger.EffectApplied
		change.ProviderReference, change.Receipt = req.GetConfirm().GetProviderReference(), []byte(req.GetConfirm().GetReceiptJson())
	case ledger.NotAppliedRetry:
		change.Event, change.Effect, change.Reason = ledger.Release, ledger.EffectNotApplied, "released_by_reviewer"
		if op.ProviderReference != "" {
			change.Detail += "; no longer taken for its effect: " + op.ProviderReference
		}
	default: // NotAppliedClose; the other decisions are no reviewer's
		change.Event, change.Effect = ledger.Refuse, ledger.EffectNotApplied
		change.Failure = &ledger.Failure{Code: "not_applied", Message: "A reviewer established that the action did not happen."}
	}
	return change
}
