package grpcaction

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/onceward/onceward/actions"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

const (
	// maxRetryAfter caps what an adapter can make us wait.
	maxRetryAfter = 24 * time.Hour
	// maxViolations bounds what one refusal can make us keep.
	maxViolations = 32

	codeUnknown     = "outcome_unknown"
	codeUnreachable = "adapter_unreachable"
)

// outcomeOf returns what an answer claims, after checking that it can be so.
func outcomeOf(o *oncewardv1.Outcome) actions.Outcome {
	kind := kindOf(o.GetKind())
	out := actions.Outcome{Kind: kind, Failure: failureOf(kind, o)}
	switch kind {
	case actions.Applied:
		receipt, err := receiptOf(o.GetReceipt())
		if err != nil {
			out.Kind, out.Receipt.Reference = actions.AppliedNoReceipt, receipt.Reference
			out.Failure = actions.Failure{
				Code: "receipt_missing", Message: "The adapter reported success without a usable receipt.",
				Evidence: oneLine(fmt.Sprintf("adapter: APPLIED, but %v; %s", err, o.GetEvidence())),
			}
			return out
		}
		return actions.Outcome{Kind: kind, Receipt: receipt}
	case actions.AppliedNoReceipt:
		out.Receipt.Reference = reference(o.GetReceipt().GetProviderReference())
	case actions.Accepted:
		out.Receipt.Reference = reference(o.GetReceipt().GetProviderReference())
		out.RetryAfter = wait(o.GetRetryAfter())
	case actions.Rejected, actions.NotApplied, actions.RateLimited:
		if r := o.GetReceipt(); r.GetProviderReference() != "" || r.GetJson() != "" {
			return ambiguous(fmt.Sprintf("adapter: %s, but with a receipt: it contradicts itself", shown(o.GetKind())))
		}
		if kind == actions.Rejected {
			out.Failure.Correctable, out.Failure.Violations = o.GetFailure().GetCorrectable(), violationsOf(o.GetFailure())
		} else {
			out.RetryAfter = wait(o.GetRetryAfter())
		}
	case actions.InProgress:
		out.RetryAfter = wait(o.GetRetryAfter())
	case actions.Ambiguous, actions.MaybeOurs, actions.KeyMismatch:
		// doubt, which has nothing but its reason
	}
	return out
}

func kindOf(k oncewardv1.OutcomeKind) actions.Kind {
	switch k {
	case oncewardv1.OutcomeKind_OUTCOME_KIND_APPLIED:
		return actions.Applied
	case oncewardv1.OutcomeKind_OUTCOME_KIND_APPLIED_NO_RECEIPT:
		return actions.AppliedNoReceipt
	case oncewardv1.OutcomeKind_OUTCOME_KIND_ACCEPTED:
		return actions.Accepted
	case oncewardv1.OutcomeKind_OUTCOME_KIND_IN_PROGRESS:
		return actions.InProgress
	case oncewardv1.OutcomeKind_OUTCOME_KIND_MAYBE_OURS:
		return actions.MaybeOurs
	case oncewardv1.OutcomeKind_OUTCOME_KIND_KEY_MISMATCH:
		return actions.KeyMismatch
	case oncewardv1.OutcomeKind_OUTCOME_KIND_REJECTED:
		return actions.Rejected
	case oncewardv1.OutcomeKind_OUTCOME_KIND_NOT_APPLIED:
		return actions.NotApplied
	case oncewardv1.OutcomeKind_OUTCOME_KIND_RATE_LIMITED:
		return actions.RateLimited
	case oncewardv1.OutcomeKind_OUTCOME_KIND_UNSPECIFIED, oncewardv1.OutcomeKind_OUTCOME_KIND_AMBIGUOUS:
		return actions.Ambiguous
	default: // of a newer contract
		return actions.Ambiguous
	}
}

// failureOf explains an outcome in the adapter's words, cleaned, or in ours.
func failureOf(kind actions.Kind, o *oncewardv1.Outcome) actions.Failure {
	f := actions.Failure{
		Code: snakeCode(o.GetFailure().GetCode()), Message: oneLine(o.GetFailure().GetMessage()),
		Evidence: oneLine("adapter: " + shown(o.GetKind()) + " " + o.GetEvidence()),
	}
	// A code of its own for what comes from here: the circuit counts by it.
	if f.Code == "" || f.Code == codeUnreachable {
		f.Code = kind.String()
		if kind == actions.Ambiguous {
			f.Code = codeUnknown
		}
	}
	if f.Message == "" {
		f.Message = "The adapter answered " + shown(o.GetKind()) + " and gave no reason."
	}
	return f
}

func ambiguous(evidence string) actions.Outcome {
	return actions.Outcome{Failure: actions.Failure{
		Code: codeUnknown, Message: "The adapter's answer does not prove what happened.", Evidence: oneLine(evidence),
	}}
}

func violationsOf(f *oncewardv1.Failure) []actions.Violation {
	given := f.GetViolations()
	var out []actions.Violation
	for _, v := range given[:min(len(given), maxViolations)] {
		out = append(out, actions.Violation{
			Field: oneLine(v.GetField()), Reason: strings.ToUpper(snakeCode(v.GetReason())), Message: oneLine(v.GetMessage()),
		})
	}
	return out
}

// wait reads a retry_after: what is no sensible time leaves it to us.
func wait(d *durationpb.Duration) time.Duration {
	if d == nil || !d.IsValid() {
		return 0
	}
	return min(max(d.AsDuration(), 0), maxRetryAfter)
}

func shown(k oncewardv1.OutcomeKind) string {
	return strings.TrimPrefix(k.String(), "OUTCOME_KIND_")
}
