package server

import (
	"context"
	"encoding/base64"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// everyone may read within their tenant.
func everyone() []policy.Role {
	return []policy.Role{policy.Agent, policy.Reviewer, policy.Auditor, policy.Admin}
}

// GetOperation returns one operation with its attempts.
func (s *Server) GetOperation(ctx context.Context, req *oncewardv1.GetOperationRequest) (*oncewardv1.GetOperationResponse, error) {
	p := principalOf(ctx)
	if err := want(p, everyone()...); err != nil {
		return nil, err
	}
	id := req.GetOperationId()
	switch selector := req.GetSelector().(type) {
	case *oncewardv1.GetOperationRequest_OperationId:
		if err := checkID("operation_id", id); err != nil {
			return nil, err
		}
	case *oncewardv1.GetOperationRequest_IdempotencyKey:
		if err := actions.CheckKey(selector.IdempotencyKey); err != nil {
			return nil, keyRefusal(err)
		}
		op, err := s.Ledger.GetByKey(ctx, p.Tenant, selector.IdempotencyKey)
		if err != nil {
			return nil, err
		}
		id = op.ID
	default:
		return nil, invalid(actions.Violation{Field: "operation_id", Reason: actions.ReasonRequired, Message: "name the operation by operation_id or idempotency_key"})
	}
	op, err := s.Ledger.Get(ctx, p.Tenant, id)
	if err != nil {
		return nil, err
	}
	resp := &oncewardv1.GetOperationResponse{Operation: toOperation(&op), NextStep: nextStep(&op, time.Now())}
	if op.State == ledger.Succeeded && s.SignReceipt != nil {
		if resp.SignedReceipt, err = s.SignReceipt(op); err != nil {
			return nil, err
		}
	}
	return resp, nil
}

// Page sizes.
const (
	defaultPage = 50
	maxPage     = 200
)

// ListOperations returns the tenant's operations, newest first.
func (s *Server) ListOperations(ctx context.Context, req *oncewardv1.ListOperationsRequest) (*oncewardv1.ListOperationsResponse, error) {
	p := principalOf(ctx)
	if err := want(p, everyone()...); err != nil {
		return nil, err
	}
	size, err := pageSize(req.GetPageSize())
	if err != nil {
		return nil, err
	}
	filter, err := readFilter(req.GetFilter())
	if err != nil {
		return nil, err
	}
	bound := markOf(req.GetFilter())
	before, err := pageStart(req.GetPageToken(), bound)
	if err != nil {
		return nil, err
	}
	ops, err := s.Ledger.List(ctx, p.Tenant, filter, before, size+1)
	if err != nil {
		return nil, err
	}
	resp := &oncewardv1.ListOperationsResponse{}
	if len(ops) > size {
		ops = ops[:size]
		resp.NextPageToken = pageToken(ops[size-1].ID, bound)
	}
	for i := range ops {
		resp.Operations = append(resp.Operations, toOperation(&ops[i]))
	}
	return resp, nil
}

// readFilter checks a filter and turns it into the ledger's.
func readFilter(f *oncewardv1.OperationFilter) (ledger.Filter, error) {
	var bad []actions.Violation
	for field, text := range map[string]string{"filter.action_type": f.GetActionType(), "filter.run_id": f.GetRunId()} {
		if v, ok := checkName(field, text); !ok {
			bad = append(bad, v)
		}
	}
	filter := ledger.Filter{ActionType: f.GetActionType(), RunID: f.GetRunId()}
	for _, state := range f.GetStates() {
		s, ok := fromState(state)
		if !ok {
			bad = append(bad, actions.Violation{Field: "filter.states", Reason: actions.ReasonEnum, Message: "is not a state of an operation"})
			break
		}
		filter.States = append(filter.States, s)
	}
	for field, t := range map[string]struct {
		from *timestamppb.Timestamp
		to   *time.Time
	}{"filter.created_after": {f.GetCreatedAfter(), &filter.CreatedAfter}, "filter.created_before": {f.GetCreatedBefore(), &filter.CreatedBefore}} {
		switch {
		case t.from == nil:
		case !t.from.IsValid():
			bad = append(bad, actions.Violation{Field: field, Reason: actions.ReasonRange, Message: "is not a time of the years 1 to 9999"})
		default:
			*t.to = t.from.AsTime()
		}
	}
	if len(bad) > 0 {
		return ledger.Filter{}, invalid(bad...)
	}
	return filter, nil
}

func pageSize(asked int32) (int, error) {
	switch {
	case asked == 0:
		return defaultPage, nil
	case asked < 0 || asked > maxPage:
		return 0, invalid(actions.Violation{Field: "page_size", Reason: actions.ReasonRange, Message: "wants 1 to 200, or nothing for 50"})
	}
	return int(asked), nil
}

// A page token is the id of the last item and a mark of the filter: it works
// with the filter that it was made for only.
func pageToken(id, mark string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(id + "/" + mark))
}

func pageStart(token, mark string) (string, error) {
	if token == "" {
		return "", nil
	}
	decoded, err := base64.RawURLEncoding.DecodeString(token)
	id, of, ok := strings.Cut(string(decoded), "/")
	if err != nil || !ok || checkID("page_token", id) != nil || of != mark {
		return "", invalid(actions.Violation{Field: "page_token", Reason: actions.ReasonFormat, Message: "is not from a previous page with the same filter"})
	}
	return id, nil
}

// WatchOperation sends the operation now and after each change.
func (s *Server) WatchOperation(req *oncewardv1.WatchOperationRequest, stream grpc.ServerStreamingServer[oncewardv1.WatchOperationResponse]) error {
	ctx := stream.Context()
	p := principalOf(ctx)
	if err := want(p, everyone()...); err != nil {
		return err
	}
	if err := checkID("operation_id", req.GetOperationId()); err != nil {
		return err
	}
	op, err := s.Ledger.Get(ctx, p.Tenant, req.GetOperationId())
	if err != nil {
		return err
	}
	news := s.waiters.subscribe(&op, time.Time{})
	defer s.waiters.unsubscribe(news)
	for {
		if err := stream.Send(&oncewardv1.WatchOperationResponse{Operation: toOperation(&op)}); err != nil {
			return err
		}
		if op.State.Final() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.draining.Done():
			return errGoingAway
		case <-news.news:
		}
		if op, err = s.Ledger.Get(ctx, p.Tenant, op.ID); err != nil {
			return err
		}
	}
}

var errGoingAway = refuse(codes.Unavailable, reasonGoingAway, "this server is going away; the operation goes on: watch it again")

// CancelOperation gives up an operation that has not been sent.
func (s *Server) CancelOperation(ctx context.Context, req *oncewardv1.CancelOperationRequest) (*oncewardv1.CancelOperationResponse, error) {
	p := principalOf(ctx)
	if err := want(p, policy.Agent); err != nil {
		return nil, err
	}
	if err := checkID("operation_id", req.GetOperationId()); err != nil {
		return nil, err
	}
	if v, ok := checkText("note", req.GetNote(), maxCancelNote); !ok {
		return nil, invalid(v)
	}
	op, err := s.Ledger.Get(ctx, p.Tenant, req.GetOperationId())
	if err != nil {
		return nil, err
	}
	if op.State == ledger.Failed && op.LastEvent == ledger.Cancel {
		return &oncewardv1.CancelOperationResponse{Operation: toOperation(&op)}, nil
	}
	waitsForApproval := op.State == ledger.NeedsReview && op.Review.Open() && op.Review.Reason == ledger.ApprovalRequired
	if op.State != ledger.Pending && !waitsForApproval {
		return nil, refuse(codes.FailedPrecondition, reasonNotCancellable,
			"operation %s is %s: what may have been sent cannot be cancelled", op.ID, op.State)
	}
	change := ledger.Change{
		Operation: op, Event: ledger.Cancel, Actor: p.Actor, Detail: req.GetNote(), Effect: op.Effect,
		Failure: &ledger.Failure{Code: "cancelled", Message: "Withdrawn before it was sent."},
	}
	if waitsForApproval {
		change.Decision = &ledger.ReviewClosing{ReviewID: op.Review.ID, Decision: ledger.Cancelled, By: p.Actor, Note: req.GetNote()}
	}
	s.spans.Link(ctx, &op)
	cancelling, span := s.spans.Operation(ctx, &op, "cancel")
	cancelled, err := s.Ledger.Apply(cancelling, change)
	endSpan(span, err)
	if err != nil {
		return nil, err
	}
	s.Changed(cancelled)
	return &oncewardv1.CancelOperationResponse{Operation: toOperation(&cancelled)}, nil
}
