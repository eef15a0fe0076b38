package server

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
)

// correct brings the request's arguments under the key of the failed operation
// that it names, when that is why the ledger refused it. Any other error is
// passed on.
func (s *Server) correct(ctx context.Context, a *admission, opening ledger.Opening, cause error) (ledger.Operation, error) {
	var reused *ledger.KeyReusedError
	if a.corrects == nil || !errors.As(cause, &reused) || reused.Existing.ID != a.corrects.ID {
		return ledger.Operation{}, cause
	}
	existing := reused.Existing
	if err := correctable(existing, a); err != nil {
		return ledger.Operation{}, err
	}
	// Stored arguments are bound to the operation that they are for.
	sealed, err := s.Sealer.Seal(a.args.JSON(), existing.Tenant, existing.ID)
	if err != nil {
		return ledger.Operation{}, err
	}
	opening.Sealed = sealed
	s.spans.Link(ctx, &existing)
	correcting, span := s.spans.Operation(ctx, &existing, "correct")
	op, err := s.Ledger.Correct(correcting, existing, opening)
	endSpan(span, err)
	if err != nil {
		return ledger.Operation{}, err
	}
	s.Dispatcher.Hasten(op)
	return op, nil
}

// correctable refuses a correction of an operation that must keep its
// arguments.
func correctable(existing ledger.Operation, a *admission) error {
	switch {
	case existing.State != ledger.Failed || existing.Effect != ledger.EffectNotApplied:
		return refuse(codes.FailedPrecondition, reasonNotCorrectable,
			"operation %s is %s with effect %s; only one that failed with effect not_applied can be corrected", existing.ID, existing.State, existing.Effect)
	case a.decision.Effect == policy.RequireApproval:
		return refuse(codes.FailedPrecondition, reasonNotCorrectable,
			"%s wants a reviewer's yes, which is for the arguments that were shown: request the corrected action under a new key", existing.ActionType)
	default:
		return nil
	}
}
