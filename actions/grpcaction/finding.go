package grpcaction

import (
	"fmt"
	"strings"

	"github.com/onceward/onceward/actions"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// findingOf returns what a look-up claims, after checking that it can be so.
func findingOf(f *oncewardv1.Finding) actions.Finding {
	out := actions.Finding{Detail: oneLine(f.GetDetail()), After: wait(f.GetRetryAfter())}
	contradiction := func(why string) actions.Finding {
		out.Detail = oneLine(fmt.Sprintf("adapter: %s, but %s; %s", strings.TrimPrefix(f.GetKind().String(), "FINDING_KIND_"), why, out.Detail))
		return out
	}
	claimsEffect := f.GetReceipt().GetProviderReference() != "" || f.GetReceipt().GetJson() != ""
	namesOthers := len(f.GetReferences()) > 0
	switch f.GetKind() {
	case oncewardv1.FindingKind_FINDING_KIND_FOUND:
		receipt, err := receiptOf(f.GetReceipt())
		if err != nil {
			return contradiction(err.Error())
		}
		if namesOthers {
			return contradiction("it names other effects too")
		}
		out.Kind, out.Receipt = actions.Found, receipt
	case oncewardv1.FindingKind_FINDING_KIND_ABSENT:
		if claimsEffect || namesOthers {
			return contradiction("it names an effect")
		}
		out.Kind = actions.Absent
	case oncewardv1.FindingKind_FINDING_KIND_FOREIGN:
		if claimsEffect || namesOthers {
			return contradiction("it names an effect of ours")
		}
		out.Kind = actions.Foreign
	case oncewardv1.FindingKind_FINDING_KIND_ENDED:
		if claimsEffect || namesOthers {
			return contradiction("it names an effect")
		}
		// Without a code and a message the reconciler has its own words.
		out.Kind, out.Failure = actions.Ended, actions.Failure{
			Code: snakeCode(f.GetFailure().GetCode()), Message: oneLine(f.GetFailure().GetMessage()),
			Correctable: f.GetFailure().GetCorrectable(), Violations: violationsOf(f.GetFailure()),
			Evidence: out.Detail,
		}
	case oncewardv1.FindingKind_FINDING_KIND_SEVERAL:
		// An incident also when it does not say of what.
		out.Kind = actions.Several
		for _, r := range f.GetReferences()[:min(len(f.GetReferences()), maxReferences)] {
			if r = reference(r); r != "" {
				out.References = append(out.References, r)
			}
		}
	case oncewardv1.FindingKind_FINDING_KIND_UNSPECIFIED, oncewardv1.FindingKind_FINDING_KIND_INCONCLUSIVE:
	default:
		return contradiction("that is a kind which this Onceward does not know")
	}
	return out
}
