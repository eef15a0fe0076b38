package server

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// watching is a ledger that only observes: any other call of it panics.
type watching struct {
	Ledger
	found   ledger.ObservedOutcome // "": as told
	err     error
	hangs   bool
	records []ledger.Observation
}

func (w *watching) Observe(ctx context.Context, o ledger.Observation) (ledger.ObservedOutcome, error) {
	w.records = append(w.records, o)
	if w.hangs {
		<-ctx.Done()
		return "", ctx.Err()
	}
	if w.found == "" {
		return o.Outcome, w.err
	}
	return w.found, w.err
}

// watched is a request in the stage observe that policy allows.
func watched() observed {
	return observed{
		principal: policy.Principal{Tenant: "acme", Actor: "planner"}, actionType: "refund", run: ledger.Run{RunID: "run-1", StepID: "refund"},
		key: "key-1", hash: ledger.Hash{1},
		decision: policy.Decision{
			Effect: policy.Allow, Rule: "small", Reason: "it is small", Version: "v3", Stage: ledger.StageObserve, Amount: "49", Currency: "EUR",
			Holds: ledger.Holds{Charges: []ledger.Charge{{Budget: "daily"}}, Fences: []ledger.Fence{{Intent: "order:1"}}},
		},
	}
}

func TestObserveAnswersWhatWouldBeDone(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change      func(*observed)
		found       ledger.ObservedOutcome
		want        oncewardv1.ObservedOutcome
		explanation string
		recorded    ledger.ObservedOutcome
		reason      string
	}{
		"sent": {func(*observed) {}, "", oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_EXECUTE, "would be sent", ledger.ObservedExecute, ""},
		"duplicate": {func(*observed) {}, ledger.ObservedDuplicate, oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_DUPLICATE, "repeats a request",
			ledger.ObservedExecute, ""},
		"mismatch": {func(*observed) {}, ledger.ObservedMismatch, oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_MISMATCH, "IDEMPOTENCY_KEY_REUSED",
			ledger.ObservedExecute, ""},
		"approval": {func(o *observed) { o.decision.Effect = policy.RequireApproval }, "", oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_REQUIRE_APPROVAL,
			"reviewer, by rule small: it is small", ledger.ObservedRequireApproval, ""},
		"denied": {func(o *observed) { o.decision.Effect = policy.Deny }, "", oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_REFUSED,
			"by rule small: it is small", ledger.ObservedRefused, "POLICY_DENIED"},
		"invalid": {func(o *observed) { o.refusal = refuse(codes.InvalidArgument, "KEY_REQUIRED", "no key") }, "",
			oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_INVALID, "(KEY_REQUIRED): no key", ledger.ObservedInvalid, "KEY_REQUIRED"},
		"invalid for the policy": {func(o *observed) {
			o.decision.Effect, o.decision.Violations = policy.Deny, []actions.Violation{{Field: "arguments.amount", Message: "is negative"}}
		}, "", oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_INVALID, "(INVALID_ARGUMENTS): arguments.amount: is negative", ledger.ObservedInvalid, "INVALID_ARGUMENTS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			book := &watching{found: tt.found}
			s := &Server{Options: Options{Ledger: book, Log: quiet()}}
			request := watched()
			tt.change(&request)
			resp := s.observe(t.Context(), request)
			got := resp.GetObservation()
			if got.GetOutcome() != tt.want || got.GetRule() != "small" || got.GetIdempotencyKey() != "key-1" || !strings.Contains(got.GetExplanation(), tt.explanation) {
				t.Errorf("observation is %s, want %s because it %s", got, tt.want, tt.explanation)
			}
			if resp.GetDisposition() != oncewardv1.Disposition_DISPOSITION_OBSERVED || resp.GetOperation() != nil || resp.GetReplayed() ||
				resp.GetNextStep().GetKind() != oncewardv1.NextStepKind_NEXT_STEP_KIND_PROCEED {
				t.Errorf("answered %s", resp)
			}
			if len(book.records) != 1 {
				t.Fatalf("recorded %d times", len(book.records))
			}
			record := book.records[0]
			if record.ID == "" {
				t.Error("recorded without an id")
			}
			record.ID = ""
			want := ledger.Observation{
				Tenant: "acme", Actor: "planner", ActionType: "refund", Key: "key-1", ArgsHash: ledger.Hash{1}, Run: request.run, Outcome: tt.recorded,
				Verdict: ledger.Verdict{Decision: request.decision.Effect.String(), Reason: tt.reason, Rule: "small", PolicyVersion: "v3"},
				Amount:  "49", Currency: "EUR", Charges: request.decision.Holds.Charges, Fences: request.decision.Holds.Fences,
			}
			if !reflect.DeepEqual(record, want) {
				t.Errorf("recorded\n%+v\nwant\n%+v", record, want)
			}
		})
	}
}

// A product that is only watched goes on, whatever the ledger does; what was not
// recorded is not claimed to be.
func TestObserveBreaksNothing(t *testing.T) {
	t.Parallel()
	for name, book := range map[string]*watching{"ledger away": {err: ledger.ErrUnavailable}, "older schema": {err: ledger.ErrNoStatistics}, "ledger slow": {hangs: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &Server{Options: Options{Ledger: book, Log: quiet()}}
				begun := time.Now()
				resp := s.observe(t.Context(), watched())
				if took := time.Since(begun); took > observeTimeout {
					t.Errorf("it took %s", took)
				}
				if got := resp.GetObservation(); got.GetOutcome() != oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_EXECUTE || !strings.Contains(got.GetExplanation(), "could not be recorded") {
					t.Errorf("observation is %s", got)
				}
				if resp.GetNextStep().GetKind() != oncewardv1.NextStepKind_NEXT_STEP_KIND_PROCEED {
					t.Errorf("next step is %s", resp.GetNextStep())
				}
			})
		})
	}
}

// A look-up that fails is no fault of the request: it is not held against its caller.
func TestObserveDoesNotBlameTheCaller(t *testing.T) {
	t.Parallel()
	book := &watching{}
	s := &Server{Options: Options{Ledger: book, Log: quiet()}}
	request := watched()
	request.refusal = fmt.Errorf("budgets: %w", ledger.ErrUnavailable)
	resp := s.observe(t.Context(), request)
	if got := resp.GetObservation(); got.GetOutcome() != oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_UNSPECIFIED || !strings.Contains(got.GetExplanation(), "is not known") ||
		strings.Contains(got.GetExplanation(), "budgets") || got.GetIdempotencyKey() != "key-1" {
		t.Errorf("observation is %s", got)
	}
	if resp.GetNextStep().GetKind() != oncewardv1.NextStepKind_NEXT_STEP_KIND_PROCEED || resp.GetDisposition() != oncewardv1.Disposition_DISPOSITION_OBSERVED {
		t.Errorf("answered %s", resp)
	}
	if len(book.records) != 0 {
		t.Errorf("recorded %+v", book.records)
	}
}

// Who left is observed all the same.
func TestObserveOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	book := &watching{}
	s := &Server{Options: Options{Ledger: contextual{book}, Log: quiet()}}
	if got := s.observe(gone, watched()).GetObservation().GetExplanation(); strings.Contains(got, "could not be recorded") {
		t.Error(got)
	}
}

// contextual fails as a store does where the context has ended.
type contextual struct{ *watching }

func (c contextual) Observe(ctx context.Context, o ledger.Observation) (ledger.ObservedOutcome, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return c.watching.Observe(ctx, o)
}
