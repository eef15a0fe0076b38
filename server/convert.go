package server

import (
	"encoding/hex"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// operationMessage is a message with the parts that nearly every one has: together
// they are one allocation.
type operationMessage struct {
	operation                                oncewardv1.Operation
	run                                      oncewardv1.RunContext
	receipt                                  oncewardv1.Receipt
	created, updated, nextAttempt, windowEnd timestamppb.Timestamp
}

// toOperation is the one place where the ledger's row becomes the contract's
// message.
func toOperation(op *ledger.Operation) *oncewardv1.Operation {
	var hash [2 * len(op.ArgsHash)]byte
	hex.Encode(hash[:], op.ArgsHash[:])
	whole := &operationMessage{operation: oncewardv1.Operation{
		Id: op.ID, Tenant: op.Tenant, ActionType: op.ActionType,
		IdempotencyKey: op.Key, KeySource: toKeySource(op.KeySource),
		ArgumentsHash: string(hash[:]),
		State:         toState(op.State), Effect: toEffect(op.Effect),
		Failure: toFailure(op.Failure), Review: toReview(op.Review), Incident: op.Incident,
		RequestedBy: op.RequestedBy,
		IntentId:    op.IntentID, DistinctFromOperationId: op.DistinctFrom,
		ProviderReference: op.ProviderReference, Reason: op.Reason,
		Amount: op.Amount, Currency: op.Currency, Stage: toStage(op.Stage), PolicyVersion: op.PolicyVersion, Rule: op.Rule,
	}}
	out := &whole.operation
	out.Run = setRun(&whole.run, &op.Run)
	out.CreatedAt, out.UpdatedAt = setTime(&whole.created, op.CreatedAt), setTime(&whole.updated, op.UpdatedAt)
	out.NextAttemptAt, out.WindowEndsAt = setTime(&whole.nextAttempt, op.NextAttemptAt), setTime(&whole.windowEnd, op.WindowEndsAt)
	if op.State == ledger.Succeeded {
		out.Receipt = &whole.receipt
		out.Receipt.ProviderReference, out.Receipt.Json = op.ProviderReference, string(op.Receipt)
	}
	for _, a := range op.Attempts {
		out.Attempts = append(out.Attempts, &oncewardv1.Attempt{
			Number: int32(a.Number), StartedAt: toTime(a.StartedAt), EndedAt: toTime(a.EndedAt), Outcome: a.Outcome, Evidence: a.Evidence,
		})
	}
	return out
}

// setTime sets a message to a time and returns it, or nil where there is no time.
func setTime(m *timestamppb.Timestamp, t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	m.Seconds, m.Nanos = t.Unix(), int32(t.Nanosecond())
	return m
}

func toTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// setRun sets a message to a request's context and returns it, or nil where the
// request had none.
func setRun(m *oncewardv1.RunContext, r *ledger.Run) *oncewardv1.RunContext {
	if *r == (ledger.Run{TraceParent: r.TraceParent}) { // which is no caller's
		return nil
	}
	m.RunId, m.StepId, m.Attempt, m.Instance = r.RunID, r.StepID, int32(r.Attempt), r.Instance
	m.ToolCallId, m.ToolVersion, m.Agent = r.ToolCallID, r.ToolVersion, r.Agent
	return m
}

func fromRun(r *oncewardv1.RunContext) ledger.Run {
	return ledger.Run{
		RunID: r.GetRunId(), StepID: r.GetStepId(), Attempt: int(r.GetAttempt()),
		ToolCallID: r.GetToolCallId(), ToolVersion: r.GetToolVersion(), Agent: r.GetAgent(), Instance: r.GetInstance(),
	}
}

func toFailure(f *ledger.Failure) *oncewardv1.Failure {
	if f == nil {
		return nil
	}
	out := &oncewardv1.Failure{Code: f.Code, Message: f.Message, Correctable: f.Correctable}
	for _, v := range f.Violations {
		out.Violations = append(out.Violations, &oncewardv1.FieldViolation{Field: v.Field, Reason: v.Reason, Message: v.Message})
	}
	return out
}

func toReview(r *ledger.Review) *oncewardv1.Review {
	if r == nil {
		return nil
	}
	out := &oncewardv1.Review{
		Id: r.ID, Reason: toReviewReason(r.Reason), Detail: r.Detail, OpenedAt: toTime(r.OpenedAt), ExpiresAt: toTime(r.ExpiresAt),
		Decision: toDecision(r.Decision), DecidedBy: r.DecidedBy, DecidedAt: toTime(r.DecidedAt), Note: r.Note,
		PolicyVersion: r.PolicyVersion,
	}
	if r.Reason == ledger.ApprovalRequired {
		out.RequiredApprovals = int32(max(r.RequiredApprovals, 1))
	}
	for _, a := range r.Approvals {
		out.Approvals = append(out.Approvals, &oncewardv1.Approval{By: a.By, At: toTime(a.At), Note: a.Note})
	}
	return out
}

// toStage is the stage of an operation, or of a decision.
func toStage(s ledger.Stage) oncewardv1.Stage {
	switch s {
	case ledger.StageObserve:
		return oncewardv1.Stage_STAGE_OBSERVE
	case ledger.StageProtect:
		return oncewardv1.Stage_STAGE_PROTECT
	case ledger.StageReconcile:
		return oncewardv1.Stage_STAGE_RECONCILE
	case ledger.StageEnforce:
		return oncewardv1.Stage_STAGE_ENFORCE
	default:
		return oncewardv1.Stage_STAGE_UNSPECIFIED
	}
}

func toState(s ledger.State) oncewardv1.OperationState {
	switch s {
	case ledger.Pending:
		return oncewardv1.OperationState_OPERATION_STATE_PENDING
	case ledger.Running:
		return oncewardv1.OperationState_OPERATION_STATE_RUNNING
	case ledger.Succeeded:
		return oncewardv1.OperationState_OPERATION_STATE_SUCCEEDED
	case ledger.Unknown:
		return oncewardv1.OperationState_OPERATION_STATE_UNKNOWN
	case ledger.Failed:
		return oncewardv1.OperationState_OPERATION_STATE_FAILED
	case ledger.NeedsReview:
		return oncewardv1.OperationState_OPERATION_STATE_NEEDS_REVIEW
	default:
		return oncewardv1.OperationState_OPERATION_STATE_UNSPECIFIED
	}
}

func fromState(s oncewardv1.OperationState) (ledger.State, bool) {
	for _, state := range ledger.States() {
		if toState(state) == s {
			return state, true
		}
	}
	return "", false
}

func toEffect(e ledger.Effect) oncewardv1.Effect {
	switch e {
	case ledger.EffectNone:
		return oncewardv1.Effect_EFFECT_NONE
	case ledger.EffectApplied:
		return oncewardv1.Effect_EFFECT_APPLIED
	case ledger.EffectNotApplied:
		return oncewardv1.Effect_EFFECT_NOT_APPLIED
	default:
		return oncewardv1.Effect_EFFECT_UNKNOWN
	}
}

func toKeySource(s string) oncewardv1.KeySource {
	switch s {
	case actions.KeyFromCaller.String():
		return oncewardv1.KeySource_KEY_SOURCE_CALLER
	case actions.KeyFromRecipe.String():
		return oncewardv1.KeySource_KEY_SOURCE_RECIPE
	case actions.KeyFromRunStep.String():
		return oncewardv1.KeySource_KEY_SOURCE_RUN_STEP
	default:
		return oncewardv1.KeySource_KEY_SOURCE_UNSPECIFIED
	}
}

func toReviewReason(r ledger.ReviewReason) oncewardv1.ReviewReason {
	switch r {
	case ledger.ApprovalRequired:
		return oncewardv1.ReviewReason_REVIEW_REASON_APPROVAL_REQUIRED
	case ledger.Inconclusive:
		return oncewardv1.ReviewReason_REVIEW_REASON_INCONCLUSIVE
	case ledger.Contradicted:
		return oncewardv1.ReviewReason_REVIEW_REASON_CONTRADICTED
	case ledger.BudgetExhausted:
		return oncewardv1.ReviewReason_REVIEW_REASON_BUDGET_EXHAUSTED
	default:
		return oncewardv1.ReviewReason_REVIEW_REASON_UNSPECIFIED
	}
}

func toDecision(d ledger.Decision) oncewardv1.ReviewDecision {
	switch d {
	case ledger.Approved:
		return oncewardv1.ReviewDecision_REVIEW_DECISION_APPROVED
	case ledger.Rejected:
		return oncewardv1.ReviewDecision_REVIEW_DECISION_REJECTED
	case ledger.Confirmed:
		return oncewardv1.ReviewDecision_REVIEW_DECISION_CONFIRMED
	case ledger.NotAppliedRetry:
		return oncewardv1.ReviewDecision_REVIEW_DECISION_NOT_APPLIED_RETRY
	case ledger.NotAppliedClose:
		return oncewardv1.ReviewDecision_REVIEW_DECISION_NOT_APPLIED_CLOSE
	case ledger.Expired:
		return oncewardv1.ReviewDecision_REVIEW_DECISION_EXPIRED
	case ledger.Cancelled:
		return oncewardv1.ReviewDecision_REVIEW_DECISION_CANCELLED
	default:
		return oncewardv1.ReviewDecision_REVIEW_DECISION_UNSPECIFIED
	}
}

func toActionType(a *actions.Action) *oncewardv1.ActionType {
	spec := a.Spec
	_, canLookUp := a.Adapter.(actions.Looker)
	out := &oncewardv1.ActionType{
		Name: spec.Type, Description: spec.Description, Version: spec.Version, Owner: spec.Owner, Risk: toRisk(spec.Risk),
		ArgumentsSchemaJson: string(spec.Schema), AdvisoryArguments: spec.AdvisoryArgs, RequiresApproval: spec.RequiresApproval,
		Contract: &oncewardv1.ProviderContract{
			Provider: spec.Contract.Provider, Version: spec.Contract.Version,
			HonoursKeys: spec.Contract.Keys.Honoured, CanLookUp: canLookUp, LookUpAuthoritative: spec.Contract.Lookup.Authoritative,
			KeyWindow: toDuration(spec.Contract.Keys.Window), SettleTime: toDuration(spec.Contract.Lookup.SettleTime),
		},
		AttemptTimeout: toDuration(spec.Timeout), MaxAttempts: int32(spec.MaxAttempts), Window: toDuration(spec.Window),
		ExpiredKey: oncewardv1.ExpiredKey_EXPIRED_KEY_REJECT,
		Spending:   toSpending(spec.Spending), SensitiveArguments: spec.SensitiveArgs, SensitiveReceiptFields: spec.SensitiveReceipt,
	}
	if spec.ExpiredKey == actions.Reuse {
		out.ExpiredKey = oncewardv1.ExpiredKey_EXPIRED_KEY_REUSE
	}
	for _, part := range spec.Key {
		out.KeyRecipe = append(out.KeyRecipe, &oncewardv1.KeyPart{Name: part.Name, From: part.From})
	}
	for _, in := range spec.Intents {
		intent := &oncewardv1.Intent{Name: in.Name, Quiet: toDuration(in.Quiet)}
		for _, part := range in.Parts {
			intent.Parts = append(intent.Parts, &oncewardv1.KeyPart{Name: part.Name, From: part.From})
		}
		out.Intents = append(out.Intents, intent)
	}
	return out
}

func toSpending(s actions.Spending) *oncewardv1.Spending {
	if s == (actions.Spending{}) {
		return nil
	}
	return &oncewardv1.Spending{Amount: s.Amount, Currency: s.Currency, Counterparty: s.Counterparty}
}

func toDuration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

func toRisk(r actions.Risk) oncewardv1.Risk {
	switch r {
	case actions.RiskLow:
		return oncewardv1.Risk_RISK_LOW
	case actions.RiskMedium:
		return oncewardv1.Risk_RISK_MEDIUM
	case actions.RiskHigh:
		return oncewardv1.Risk_RISK_HIGH
	default:
		return oncewardv1.Risk_RISK_UNSPECIFIED
	}
}
