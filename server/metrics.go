package server

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	grpccodes "google.golang.org/grpc/codes"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/optrace"
	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// Metrics is told what is done with requests. It must be safe for concurrent use
// and not block. Tenants are those of a credential, action types those of the
// registry, or empty where a request named none of them.
type Metrics interface {
	// Answered is told of each request of an action that came to its end: the name
	// of its disposition ("executed"), or "refused" or "failed".
	Answered(tenant, actionType, disposition string, took time.Duration)
	// Duplicate is told of each duplicate that was served; cause is empty where it
	// is not known.
	Duplicate(tenant, actionType, cause string)
	// Refused is told of each request that ended with an error, by its ErrorInfo
	// reason. Of some it is told more:
	Refused(tenant, actionType, reason string)
	KeyMismatch(tenant, actionType string)
	BudgetRefused(tenant, budget string)
	IntentRefused(tenant, actionType string)
	// Unauthenticated is told of each call without a valid credential, and why.
	Unauthenticated(reason string)
}

// Why a call has no valid credential. Those who call are told less.
const (
	noCredential   = "missing"
	badCredential  = "bad"
	badCertificate = "certificate" // that TLS refused
	tenantInactive = "tenant_inactive"
)

// whyUnauthenticated is why a credential was refused.
func whyUnauthenticated(err error) string {
	switch {
	case errors.Is(err, ErrTenantInactive):
		return tenantInactive
	case errors.Is(err, errNoCredential):
		return noCredential
	case errors.Is(err, errUntrusted):
		return badCertificate
	default:
		return badCredential
	}
}

// unmeasured is nobody who measures.
type unmeasured struct{}

func (unmeasured) Answered(string, string, string, time.Duration) {}
func (unmeasured) Duplicate(string, string, string)               {}
func (unmeasured) Refused(string, string, string)                 {}
func (unmeasured) KeyMismatch(string, string)                     {}
func (unmeasured) BudgetRefused(string, string)                   {}
func (unmeasured) IntentRefused(string, string)                   {}
func (unmeasured) Unauthenticated(string)                         {}

// What became of a request that ended with an error.
const (
	answeredRefused = "refused" // a decision, or something that the caller can mend
	answeredFailed  = "failed"  // the same request may be answered at another time
)

// dispositionName is a disposition as metrics and spans have it.
func dispositionName(d oncewardv1.Disposition) string {
	switch d {
	case oncewardv1.Disposition_DISPOSITION_EXECUTED:
		return "executed"
	case oncewardv1.Disposition_DISPOSITION_REPLAYED:
		return "replayed"
	case oncewardv1.Disposition_DISPOSITION_JOINED:
		return "joined"
	case oncewardv1.Disposition_DISPOSITION_ACCEPTED:
		return "accepted"
	case oncewardv1.Disposition_DISPOSITION_OBSERVED:
		return "observed"
	case oncewardv1.Disposition_DISPOSITION_UNSPECIFIED:
	}
	return "unspecified"
}

// measureAnswer tells of a request that was answered.
func (s *Server) measureAnswer(ctx context.Context, p policy.Principal, a *admission, answer *oncewardv1.RequestActionResponse, began time.Time) {
	disposition := dispositionName(answer.GetDisposition())
	s.Metrics.Answered(p.Tenant, actionTypeOf(a), disposition, time.Since(began))
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(
			optrace.TenantKey.String(p.Tenant), optrace.ActionTypeKey.String(actionTypeOf(a)), optrace.OperationKey.String(answer.GetOperation().GetId()),
			optrace.DispositionKey.String(disposition), optrace.StateKey.String(stateName(answer.GetOperation().GetState())))
	}
}

// measureRefusal tells of a request that ended with an error.
func (s *Server) measureRefusal(ctx context.Context, p policy.Principal, a *admission, err error, began time.Time) {
	r, actionType, disposition := toRefusal(ctx, err), actionTypeOf(a), answeredFailed
	if forRecord(r) || r.code == grpccodes.NotFound {
		disposition = answeredRefused
	}
	s.Metrics.Answered(p.Tenant, actionType, disposition, time.Since(began))
	s.Metrics.Refused(p.Tenant, actionType, r.reason)
	var exhausted *ledger.BudgetExhaustedError
	switch {
	case r.reason == reasonKeyReused:
		s.Metrics.KeyMismatch(p.Tenant, actionType)
	case r.reason == reasonIntentOpen, r.reason == reasonIntentQuiet:
		s.Metrics.IntentRefused(p.Tenant, actionType)
	case errors.As(err, &exhausted):
		s.Metrics.BudgetRefused(p.Tenant, exhausted.Use.Budget)
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(optrace.TenantKey.String(p.Tenant), optrace.ActionTypeKey.String(actionType),
			optrace.DispositionKey.String(disposition), optrace.ReasonKey.String(r.reason))
	}
}

// actionTypeOf is the action type of a request, where it is one that is known.
func actionTypeOf(a *admission) string {
	if a == nil {
		return ""
	}
	return a.action.Spec.Type
}

// stateName is a state as spans have it; empty where there is no operation.
func stateName(state oncewardv1.OperationState) string {
	known, _ := fromState(state)
	return string(known)
}

// endSpan ends a span of a step. What an error says may repeat what the caller
// sent: the span says only that there was one.
func endSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}
