package server

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// nextStep tells a planner what to do about an operation, in a sentence that is
// safe to pass on to a user: it names no provider, no error text, no key.
func nextStep(op *ledger.Operation, now time.Time) *oncewardv1.NextStep {
	kind, message := nextStepOf(op)
	step := &oncewardv1.NextStep{Kind: kind, Message: message}
	if kind == oncewardv1.NextStepKind_NEXT_STEP_KIND_WAIT {
		step.RetryAfter = durationpb.New(max(op.NextAttemptAt.Sub(now), time.Second).Round(time.Second))
	}
	return step
}

func nextStepOf(op *ledger.Operation) (oncewardv1.NextStepKind, string) {
	switch op.State {
	case ledger.Succeeded:
		return oncewardv1.NextStepKind_NEXT_STEP_KIND_DONE, "The action was performed."
	case ledger.Failed:
		if op.Failure != nil && op.Failure.Correctable {
			return oncewardv1.NextStepKind_NEXT_STEP_KIND_CORRECT_ARGUMENTS, "The action was refused because of its details and did not happen; it can be requested again with corrected details."
		}
		return oncewardv1.NextStepKind_NEXT_STEP_KIND_STOP, "The action did not happen and will not be tried again."
	case ledger.NeedsReview:
		if op.Review != nil && op.Review.Reason == ledger.ApprovalRequired {
			return oncewardv1.NextStepKind_NEXT_STEP_KIND_ASK_HUMAN, "The action waits for a person's approval; nothing has happened yet."
		}
		return oncewardv1.NextStepKind_NEXT_STEP_KIND_ASK_HUMAN, "It is not certain whether the action happened; a person is looking into it. It must not be requested in another way."
	case ledger.Unknown:
		if op.Reason == ledger.ReasonRestored {
			return oncewardv1.NextStepKind_NEXT_STEP_KIND_WAIT, "The records were restored from a backup, and the action may have happened in the time that is missing; this is being established. It must not be requested in another way."
		}
		return oncewardv1.NextStepKind_NEXT_STEP_KIND_WAIT, "It is not known yet whether the action happened; this is being established. It must not be requested in another way."
	default:
		return oncewardv1.NextStepKind_NEXT_STEP_KIND_WAIT, "The action is under way."
	}
}
