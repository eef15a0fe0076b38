package main

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/onceward/onceward/actions"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

const (
	actionType = "loyalty.points.grant"
	// version is of the rendering in loyalty.go, contractVersion of the promises
	// in description. A change of either means another number here.
	version, contractVersion = "1", "1"

	// tokenAudience is what the provider knows itself by.
	tokenAudience = "https://loyalty.internal"

	attemptTimeout = 20 * time.Second
	// answerTime is kept of a call's time, but never more than a tenth of it, for
	// the answer to travel: what is known here should not become a doubt on its
	// way.
	answerTime = 250 * time.Millisecond
)

const schema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "required": ["member_id", "order_id", "order_total", "points"],
  "properties": {
    "member_id": {"type": "string", "pattern": "^mb_[a-z0-9]{1,40}$", "description": "Member who gets the points."},
    "order_id": {"type": "string", "pattern": "^or_[a-z0-9]{1,40}$", "description": "Order that they are for; one grant for each."},
    "order_total": {"type": "integer", "minimum": 1, "description": "What the order cost, in minor units (cents)."},
    "points": {"type": "integer", "minimum": 1, "description": "At most one for each whole unit of the total."},
    "note": {"type": "string", "maxLength": 500, "description": "Why; it does not identify the grant."}
  }
}`

// service is the adapter. It keeps nothing about single operations, and is safe
// for concurrent use.
type service struct {
	oncewardv1.UnimplementedAdapterServiceServer

	loyalty *loyalty
}

var _ oncewardv1.AdapterServiceServer = (*service)(nil)

// Describe says what the adapter can do, and what its provider promises.
func (*service) Describe(context.Context, *oncewardv1.DescribeRequest) (*oncewardv1.DescribeResponse, error) {
	return &oncewardv1.DescribeResponse{ActionTypes: []*oncewardv1.ActionTypeDescription{{
		Name: actionType, Version: version,
		Description:         "Grant loyalty points for an order.",
		Owner:               "loyalty",
		Risk:                oncewardv1.Risk_RISK_MEDIUM,
		ArgumentsSchemaJson: schema,
		// Whoever asks, in whatever run: an order is rewarded once.
		KeyRecipe: []*oncewardv1.KeyPart{
			{Name: "tenant", From: "tenant"},
			{Name: "order", From: "arguments.order_id"},
		},
		AdvisoryArguments: []string{"note"},
		// Under whatever key: while one grant for an order is open, no second one.
		Intents: []*oncewardv1.Intent{{
			Name: "order_points", Parts: []*oncewardv1.KeyPart{{Name: "order", From: "arguments.order_id"}},
		}},
		SensitiveArguments: []string{"note"},
		// The provider is a service of ours: it may ask for our operation tokens.
		TokenAudience:  tokenAudience,
		AttemptTimeout: durationpb.New(attemptTimeout),
		CanLookUp:      true,
		Contract: &oncewardv1.AdapterContract{
			Provider: "loyalty", Version: contractVersion,
			Keys: &oncewardv1.KeyRules{
				Honoured: true, MaxLength: 64,
				Window: durationpb.New(48 * time.Hour), Margin: durationpb.New(time.Hour), // for clocks that disagree
			},
			LookUp: &oncewardv1.LookupRules{Authoritative: true, SettleTime: durationpb.New(time.Minute), NegativeReads: 3},
			// A request that was held up on its way.
			LateLanding: durationpb.New(10 * time.Minute),
		},
	}}}, nil
}

// Execute makes one attempt. It answers with an outcome and never with an error:
// an error says nothing about the effect.
func (s *service) Execute(ctx context.Context, r *oncewardv1.ExecuteRequest) (*oncewardv1.ExecuteResponse, error) {
	if r.GetActionType() != actionType || r.GetVersion() != version || r.GetContractVersion() != contractVersion {
		// While a release rolls out, another process may have that version.
		return unsent(oncewardv1.OutcomeKind_OUTCOME_KIND_NOT_APPLIED, &oncewardv1.Failure{
			Code: "version_not_served", Message: "This process of the adapter does not serve that version.",
		}), nil
	}
	g, refusal := readGrant(r.GetArgumentsJson())
	if refusal != nil {
		return unsent(oncewardv1.OutcomeKind_OUTCOME_KIND_REJECTED, refusal), nil
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-min(answerTime, time.Until(deadline)/10)))
		defer cancel()
	}
	// With no time left nothing is sent, and the provider's client says so.
	ctx = withOperationToken(ctx, r.GetOperationToken())
	outcome := s.loyalty.grant(ctx, g, r.GetOperationId(), r.GetProviderKey())
	return &oncewardv1.ExecuteResponse{Outcome: toOutcome(outcome)}, nil
}

// Lookup searches for the effect of one operation.
func (s *service) Lookup(ctx context.Context, r *oncewardv1.LookupRequest) (*oncewardv1.LookupResponse, error) {
	return &oncewardv1.LookupResponse{Finding: s.loyalty.find(ctx, r.GetOperationId())}, nil
}

// grant is what the arguments say.
type grant struct {
	MemberID   string `json:"member_id"`
	OrderID    string `json:"order_id"`
	OrderTotal int64  `json:"order_total"`
	Points     int64  `json:"points"`
	Note       string `json:"note,omitempty"`
}

// readGrant reads arguments, which the schema has let pass, without rounding a
// number, and checks what a schema cannot say.
func readGrant(text string) (grant, *oncewardv1.Failure) {
	var g grant
	args, err := actions.ParseArguments([]byte(text))
	if err == nil {
		err = args.Decode(&g)
	}
	if err != nil {
		return g, &oncewardv1.Failure{Code: "arguments_unreadable", Message: "The arguments cannot be read as a grant.", Correctable: true}
	}
	if g.Points > g.OrderTotal/100 {
		return g, &oncewardv1.Failure{
			Code: "too_many_points", Message: "At most one point for each whole unit of the order's total.", Correctable: true,
			Violations: []*oncewardv1.FieldViolation{{
				Field: "arguments.points", Reason: actions.ReasonRange,
				Message: fmt.Sprintf("must be at most %d", g.OrderTotal/100),
			}},
		}
	}
	return g, nil
}

// unsent is the answer when nothing was sent to the provider.
func unsent(kind oncewardv1.OutcomeKind, f *oncewardv1.Failure) *oncewardv1.ExecuteResponse {
	return &oncewardv1.ExecuteResponse{Outcome: &oncewardv1.Outcome{Kind: kind, Failure: f, Evidence: "nothing was sent to the provider"}}
}

// toOutcome puts what the provider's client established into the words of the
// contract.
func toOutcome(o actions.Outcome) *oncewardv1.Outcome {
	out := &oncewardv1.Outcome{
		Kind: toKind(o.Kind), Evidence: o.Failure.Evidence,
		Failure: &oncewardv1.Failure{Code: o.Failure.Code, Message: o.Failure.Message, Correctable: o.Failure.Correctable},
	}
	if o.Receipt.Reference != "" {
		out.Receipt = &oncewardv1.Receipt{ProviderReference: o.Receipt.Reference, Json: string(o.Receipt.JSON)}
	}
	if o.RetryAfter > 0 {
		out.RetryAfter = durationpb.New(o.RetryAfter)
	}
	return out
}

func toKind(k actions.Kind) oncewardv1.OutcomeKind {
	switch k {
	case actions.Applied:
		return oncewardv1.OutcomeKind_OUTCOME_KIND_APPLIED
	case actions.AppliedNoReceipt:
		return oncewardv1.OutcomeKind_OUTCOME_KIND_APPLIED_NO_RECEIPT
	case actions.Accepted:
		return oncewardv1.OutcomeKind_OUTCOME_KIND_ACCEPTED
	case actions.InProgress:
		return oncewardv1.OutcomeKind_OUTCOME_KIND_IN_PROGRESS
	case actions.MaybeOurs:
		return oncewardv1.OutcomeKind_OUTCOME_KIND_MAYBE_OURS
	case actions.KeyMismatch:
		return oncewardv1.OutcomeKind_OUTCOME_KIND_KEY_MISMATCH
	case actions.Rejected:
		return oncewardv1.OutcomeKind_OUTCOME_KIND_REJECTED
	case actions.NotApplied:
		return oncewardv1.OutcomeKind_OUTCOME_KIND_NOT_APPLIED
	case actions.RateLimited:
		return oncewardv1.OutcomeKind_OUTCOME_KIND_RATE_LIMITED
	default: // what is not proved
		return oncewardv1.OutcomeKind_OUTCOME_KIND_AMBIGUOUS
	}
}
