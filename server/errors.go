package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/ledger"
)

// domain is the ErrorInfo domain of every error.
const domain = "onceward"

// Reasons of errors, as in the contract.
const (
	reasonInvalidArguments   = "INVALID_ARGUMENTS"
	reasonInvalidRequest     = "INVALID_REQUEST"
	reasonUnknownActionType  = "UNKNOWN_ACTION_TYPE"
	reasonOperationNotFound  = "OPERATION_NOT_FOUND"
	reasonReviewNotFound     = "REVIEW_NOT_FOUND"
	reasonUnauthenticated    = "UNAUTHENTICATED"
	reasonRoleRequired       = "ROLE_REQUIRED"
	reasonTenantInactive     = "TENANT_INACTIVE"
	reasonPolicyDenied       = "POLICY_DENIED"
	reasonRequesterCannot    = "REQUESTER_CANNOT_REVIEW"
	reasonKeyReused          = "IDEMPOTENCY_KEY_REUSED"
	reasonKeyExpired         = "KEY_EXPIRED"
	reasonNotCorrectable     = "NOT_CORRECTABLE"
	reasonNotCancellable     = "NOT_CANCELLABLE"
	reasonReviewDecided      = "REVIEW_DECIDED"
	reasonNotApplicable      = "DECISION_NOT_APPLICABLE"
	reasonBudgetExhausted    = "BUDGET_EXHAUSTED"
	reasonRateLimited        = "RATE_LIMITED"
	reasonIntentOpen         = "INTENT_OPEN"
	reasonIntentQuiet        = "INTENT_QUIET"
	reasonStopped            = "STOPPED"
	reasonRestored           = "LEDGER_RESTORED"
	reasonPolicyChanged      = "POLICY_CHANGED"
	reasonArgumentsChanged   = "ARGUMENTS_CHANGED"
	reasonOverloaded         = "OVERLOADED"
	reasonLedgerUnavailable  = "LEDGER_UNAVAILABLE"
	reasonProviderAway       = "PROVIDER_UNAVAILABLE"
	reasonIdentityAway       = "IDENTITY_UNAVAILABLE"
	reasonConcurrentlyMoved  = "CONCURRENT_CHANGE"
	reasonGoingAway          = "GOING_AWAY"
	reasonInternal           = "INTERNAL"
	retryAfterOverload       = time.Second
	retryAfterLedgerIsAway   = 2 * time.Second
	retryAfterConcurrentMove = 200 * time.Millisecond
)

// refusal is a request that is not served, with everything the caller is told.
type refusal struct {
	code       codes.Code
	reason     string
	message    string
	violations []actions.Violation
	metadata   map[string]string
	retryAfter time.Duration
	quota      string // whose, of a budget that is used up
}

func (r *refusal) Error() string { return r.reason + ": " + r.message }

func refuse(code codes.Code, reason, format string, args ...any) *refusal {
	return &refusal{code: code, reason: reason, message: fmt.Sprintf(format, args...)}
}

// invalid refuses a request for its fields.
func invalid(violations ...actions.Violation) *refusal {
	slices.SortStableFunc(violations, func(a, b actions.Violation) int { return strings.Compare(a.Field, b.Field) })
	return &refusal{code: codes.InvalidArgument, reason: reasonInvalidRequest, message: summary(violations), violations: violations}
}

func summary(violations []actions.Violation) string {
	if len(violations) == 0 {
		return "the request is invalid"
	}
	first := violations[0].Field + ": " + violations[0].Message
	if n := len(violations) - 1; n > 0 {
		return fmt.Sprintf("%s (and %d more)", first, n)
	}
	return first
}

// toStatus turns any error into what the caller sees. What is not meant for
// callers is logged and hidden.
func toStatus(ctx context.Context, log *slog.Logger, err error) error {
	if err == nil {
		return nil
	}
	r := toRefusal(ctx, err)
	if r.reason == reasonInternal || r.reason == reasonLedgerUnavailable {
		log.Error("request failed", "reason", r.reason, "error", err)
	}
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: r.reason, Domain: domain, Metadata: r.metadata}}
	if len(r.violations) > 0 {
		bad := &errdetails.BadRequest{}
		for _, v := range r.violations {
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
				Field: v.Field, Reason: v.Reason, Description: v.Message,
			})
		}
		details = append(details, bad)
	}
	if r.quota != "" {
		details = append(details, &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: r.quota, Description: r.message}}})
	}
	if r.retryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(r.retryAfter)})
	}
	st := status.New(r.code, r.message)
	if detailed, err := st.WithDetails(details...); err == nil {
		st = detailed
	}
	return st.Err()
}

func toRefusal(ctx context.Context, err error) *refusal {
	var r *refusal
	var reused *ledger.KeyReusedError
	var exhausted *ledger.BudgetExhaustedError
	var held *ledger.IntentHeldError
	var stopped *ledger.StoppedError
	var open *dispatch.ProviderOpenError
	var restored *ledger.RestoredError
	switch {
	case errors.As(err, &r):
		return r
	case errors.As(err, &reused):
		r := refuse(codes.FailedPrecondition, reasonKeyReused,
			"this idempotency key belongs to operation %s (%s, %s), which has other arguments; a correction names it in corrects_operation_id, and another action needs another key",
			reused.Existing.ID, reused.Existing.ActionType, reused.Existing.State)
		r.metadata = map[string]string{"operation_id": reused.Existing.ID, "state": string(reused.Existing.State)}
		return r
	case errors.As(err, &exhausted):
		return budgetRefusal(exhausted)
	case errors.As(err, &held):
		return intentRefusal(held)
	case errors.As(err, &stopped):
		return stopRefusal(stopped)
	case errors.As(err, &open):
		r := refuse(codes.Unavailable, reasonProviderAway, "provider %s does not answer others, and nothing is sent to it for a while; nothing was recorded or sent: ask again later", open.Provider)
		r.retryAfter = max(open.RetryAfter, time.Second)
		r.metadata = map[string]string{"provider": open.Provider}
		return r
	case errors.As(err, &restored):
		return refuse(codes.FailedPrecondition, reasonRestored,
			"the records were restored from a backup, and this correction may have been made in the time that is missing; nothing was sent: a person has to find out, and corrections are taken again when the recovery has ended")
	case errors.Is(err, ledger.ErrKeyExpired):
		return refuse(codes.FailedPrecondition, reasonKeyExpired,
			"this idempotency key was used, and its operation is past its window; the action type refuses such keys for ever: use a new key for a new action")
	case errors.Is(err, ledger.ErrNotFound):
		return refuse(codes.NotFound, reasonOperationNotFound, "no such operation")
	case errors.Is(err, ledger.ErrFenced):
		r := refuse(codes.Aborted, reasonConcurrentlyMoved, "the operation, or what refuses it, changed at the same moment; nothing was sent by this request: read it, or ask again with the same key")
		r.retryAfter = retryAfterConcurrentMove
		return r
	case errors.Is(err, dispatch.ErrBusy), errors.Is(err, ledger.ErrOverloaded):
		r := refuse(codes.ResourceExhausted, reasonOverloaded, "as many actions are under way as this server takes; nothing was recorded or sent: ask again later")
		r.retryAfter = retryAfterOverload
		return r
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return &refusal{code: status.FromContextError(ctx.Err()).Code(), reason: "CALLER_LEFT", message: "the caller left before the answer"}
	case errors.Is(err, ledger.ErrUnavailable), errors.Is(err, ledger.ErrUnsafeCommit):
		r := refuse(codes.Unavailable, reasonLedgerUnavailable, "the ledger does not answer; nothing was sent: ask again with the same key")
		r.retryAfter = retryAfterLedgerIsAway
		return r
	case errors.Is(err, ErrCannotAuthenticate):
		r := refuse(codes.Unavailable, reasonIdentityAway, "the credential cannot be checked now; nothing was sent: ask again with the same key")
		r.retryAfter = retryAfterLedgerIsAway
		return r
	default:
		return refuse(codes.Internal, reasonInternal, "internal error; nothing was sent by this request unless the operation says so")
	}
}
