package server

import (
	"context"
	"errors"
	"time"

	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// Observer is what the server needs of the store in the stage observe.
type Observer interface {
	// Observe records a request, and returns what would have been done with it.
	// It touches no operation, budget or intent.
	Observe(ctx context.Context, o ledger.Observation) (ledger.ObservedOutcome, error)
}

// observeTimeout bounds how long a request waits to be recorded. The planner
// performs the action by itself afterwards, and does not wait for statistics.
const observeTimeout = time.Second

// observed is a request in the stage observe, as far as its admission came.
type observed struct {
	principal  policy.Principal
	actionType string
	run        ledger.Run
	decision   policy.Decision
	// Where the arguments and the key are good:
	key  string
	hash ledger.Hash // of the identifying arguments
	// refusal is why they are not: the error that the request would have ended
	// with. Nil where they are, whatever the decision is. Violations of the
	// decision are such a refusal, too.
	refusal error
}

// observe records a request that the policy only watches, and answers it: the
// planner performs the action itself, as before. It sends nothing and reserves
// nothing. It never fails: a request that cannot be recorded is logged, and the
// answer says so, because a product that runs must not break because it is
// watched. It does not end with the caller, who may have left.
func (s *Server) observe(ctx context.Context, o observed) *oncewardv1.RequestActionResponse {
	d := o.decision
	if o.refusal == nil && len(d.Violations) > 0 {
		o.refusal = &refusal{reason: reasonInvalidArguments, message: summary(d.Violations)}
	}
	var bad *refusal
	if o.refusal != nil && !errors.As(o.refusal, &bad) {
		// Not the request's fault: a look into the ledger failed. To record it as
		// invalid would be held against the caller by the report.
		s.notObserved(o, o.refusal)
		return observedAnswer(&oncewardv1.Observation{
			IdempotencyKey: o.key, Rule: d.Rule, Explanation: "What would be done with it is not known, because it could not be looked up. It was not recorded.",
		})
	}
	outcome, explanation := outcomeOf(o)
	record := ledger.Observation{
		ID: dispatch.NewID(), Tenant: o.principal.Tenant, Actor: o.principal.Actor, ActionType: o.actionType,
		Key: o.key, ArgsHash: o.hash, Run: o.run, Outcome: outcome,
		Verdict: ledger.Verdict{Decision: d.Effect.String(), Rule: d.Rule, PolicyVersion: d.Version},
		Amount:  d.Amount, Currency: d.Currency, Charges: d.Holds.Charges, Fences: d.Holds.Fences,
	}
	if d.Effect == policy.Deny {
		record.Verdict.Reason = reasonPolicyDenied
	}
	if bad != nil {
		record.Verdict.Reason = bad.reason
	}
	recording, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeTimeout)
	defer cancel()
	found, err := s.Ledger.Observe(recording, record)
	switch {
	case err != nil:
		s.notObserved(o, err)
		explanation += " It could not be recorded, and whether it repeats another one is not known."
	case found != outcome:
		outcome, explanation = found, explanationOf(found)
	}
	return observedAnswer(&oncewardv1.Observation{
		Outcome: toObservedOutcome(outcome), IdempotencyKey: o.key, Rule: d.Rule, Explanation: explanation,
	})
}

func (s *Server) notObserved(o observed, why error) {
	s.Log.Error("a request was not observed", "tenant", o.principal.Tenant, "action_type", o.actionType, "run", o.run.RunID, "step", o.run.StepID, "error", why)
}

// observedAnswer lets the planner go on as before, whatever was observed.
func observedAnswer(what *oncewardv1.Observation) *oncewardv1.RequestActionResponse {
	return &oncewardv1.RequestActionResponse{
		Disposition: oncewardv1.Disposition_DISPOSITION_OBSERVED,
		NextStep: &oncewardv1.NextStep{
			Kind:    oncewardv1.NextStepKind_NEXT_STEP_KIND_PROCEED,
			Message: "This action is only watched: perform it as before. Nothing was done for this request.",
		},
		Observation: what,
	}
}

// outcomeOf is what would be done with a request if no key had been seen before.
func outcomeOf(o observed) (ledger.ObservedOutcome, string) {
	switch {
	case o.refusal != nil:
		var bad *refusal
		if errors.As(o.refusal, &bad) {
			return ledger.ObservedInvalid, "It would be refused (" + bad.reason + "): " + bad.message + "."
		}
		return ledger.ObservedInvalid, explanationOf(ledger.ObservedInvalid)
	case o.decision.Effect == policy.Allow:
		return ledger.ObservedExecute, explanationOf(ledger.ObservedExecute)
	case o.decision.Effect == policy.RequireApproval:
		return ledger.ObservedRequireApproval, "It would wait for a reviewer, by rule " + o.decision.Rule + ": " + o.decision.Reason + "."
	default:
		return ledger.ObservedRefused, "It would be refused by rule " + o.decision.Rule + ": " + o.decision.Reason + "."
	}
}

func explanationOf(outcome ledger.ObservedOutcome) string {
	switch outcome {
	case ledger.ObservedExecute:
		return "It would be sent, if its budgets and intents are free."
	case ledger.ObservedDuplicate:
		return "It repeats a request that was observed before, and would be answered with the result of that one."
	case ledger.ObservedMismatch:
		return "It has the key of a request that was observed before, and other arguments or another action type: it would be refused (" + reasonKeyReused + ")."
	case ledger.ObservedRequireApproval:
		return "It would wait for a reviewer."
	case ledger.ObservedRefused:
		return "It would be refused by policy."
	case ledger.ObservedInvalid:
		return "Its arguments or its key would be refused."
	default:
		return ""
	}
}

func toObservedOutcome(o ledger.ObservedOutcome) oncewardv1.ObservedOutcome {
	switch o {
	case ledger.ObservedExecute:
		return oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_EXECUTE
	case ledger.ObservedDuplicate:
		return oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_DUPLICATE
	case ledger.ObservedMismatch:
		return oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_MISMATCH
	case ledger.ObservedRequireApproval:
		return oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_REQUIRE_APPROVAL
	case ledger.ObservedRefused:
		return oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_REFUSED
	case ledger.ObservedInvalid:
		return oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_INVALID
	default:
		return oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_UNSPECIFIED
	}
}
