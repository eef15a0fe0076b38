package server

import (
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

func TestNextStep(t *testing.T) {
	correctable := &ledger.Failure{Code: "x", Correctable: true}
	approval := &ledger.Review{Reason: ledger.ApprovalRequired}
	tests := []struct {
		name string
		op   ledger.Operation
		want oncewardv1.NextStepKind
	}{
		{"pending", ledger.Operation{State: ledger.Pending}, oncewardv1.NextStepKind_NEXT_STEP_KIND_WAIT},
		{"running", ledger.Operation{State: ledger.Running}, oncewardv1.NextStepKind_NEXT_STEP_KIND_WAIT},
		{"succeeded", ledger.Operation{State: ledger.Succeeded}, oncewardv1.NextStepKind_NEXT_STEP_KIND_DONE},
		{"unknown", ledger.Operation{State: ledger.Unknown}, oncewardv1.NextStepKind_NEXT_STEP_KIND_WAIT},
		{"restored", ledger.Operation{State: ledger.Unknown, Reason: ledger.ReasonRestored}, oncewardv1.NextStepKind_NEXT_STEP_KIND_WAIT},
		{"failed", ledger.Operation{State: ledger.Failed, Failure: &ledger.Failure{}}, oncewardv1.NextStepKind_NEXT_STEP_KIND_STOP},
		{"failed, correctable", ledger.Operation{State: ledger.Failed, Failure: correctable}, oncewardv1.NextStepKind_NEXT_STEP_KIND_CORRECT_ARGUMENTS},
		{"approval", ledger.Operation{State: ledger.NeedsReview, Review: approval}, oncewardv1.NextStepKind_NEXT_STEP_KIND_ASK_HUMAN},
		{"inconclusive", ledger.Operation{State: ledger.NeedsReview}, oncewardv1.NextStepKind_NEXT_STEP_KIND_ASK_HUMAN},
	}
	now := time.Now()
	messages := map[string]string{}
	for _, test := range tests {
		step := nextStep(&test.op, now)
		if step.GetKind() != test.want || step.GetMessage() == "" {
			t.Errorf("%s: got %v", test.name, step)
		}
		waits := test.want == oncewardv1.NextStepKind_NEXT_STEP_KIND_WAIT
		if waits != (step.GetRetryAfter() != nil) {
			t.Errorf("%s: retry_after %v", test.name, step.GetRetryAfter())
		}
		messages[test.name] = step.GetMessage()
	}
	if messages["unknown"] == messages["running"] || messages["unknown"] == messages["restored"] || messages["approval"] == messages["inconclusive"] {
		t.Error("different situations are told alike")
	}
	later := nextStep(&ledger.Operation{State: ledger.Pending, NextAttemptAt: now.Add(90 * time.Second)}, now)
	if later.GetRetryAfter().AsDuration() != 90*time.Second {
		t.Errorf("retry_after %v, want the time of the next attempt", later.GetRetryAfter())
	}
}
