package doctor

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/dispatch"
)

// Retries is how long attempts and callers go on.
type Retries struct {
	// LeaseGrace is how much longer a lease is than its attempt may take.
	LeaseGrace time.Duration
	// Callers is how long a planner or a queue in front of it may send the same
	// request again.
	Callers time.Duration
}

// Contracts looks for windows that are shorter than the retries that rely on them,
// and for doubts that nothing but a person can end. One finding for each action
// type, and several where several things are wrong.
func Contracts(specs []actions.Spec, r Retries) []Finding {
	if len(specs) == 0 {
		return []Finding{warn("action types", "there are none", "give --config as serve does")}
	}
	var findings []Finding
	for _, spec := range specs {
		found := contract(spec, r)
		if len(found) == 0 {
			found = []Finding{good("action "+spec.Type, "%s", knownBy(spec))}
		}
		findings = append(findings, found...)
	}
	return findings
}

func contract(spec actions.Spec, r Retries) []Finding {
	var findings []Finding
	check := "action " + spec.Type
	keys, lookup := spec.Contract.Keys, spec.Contract.Lookup
	lease := spec.Timeout + r.LeaseGrace

	if spec.Window < r.Callers {
		seen := fmt.Sprintf("a finished operation answers for its key for %s, and callers may retry for %s", spec.Window, r.Callers)
		if spec.ExpiredKey == actions.Reuse {
			findings = append(findings, fail(check, seen+": a late retry is executed again", "make window longer than any retry, or expired_key: reject"))
		} else {
			findings = append(findings, warn(check, seen+": a late retry is refused and does not get its receipt", "make window longer than any retry"))
		}
	}
	if wait := max(spec.Contract.LateLanding, spec.Contract.EventWait); spec.Window < wait {
		findings = append(findings, fail(check, fmt.Sprintf("a finished operation is forgotten after %s, and its provider may still act on it for %s", spec.Window, wait), "make window longer than late_landing and event_wait"))
	}
	if keys.Honoured {
		// A replay must have arrived before the provider forgets the key; the first
		// one comes when the first lease has run out, and may take as long again.
		if first := 2 * lease; keys.Horizon() <= first {
			findings = append(findings, warn(check, fmt.Sprintf("the provider knows a key for %s, and after a crash the same request is sent again up to %s later: by then it may not be", keys.Horizon(), first),
				"shorten the timeout, or the margin of the key window if the provider's is longer"))
		} else if all := dispatch.LongestTries(spec) + lease; keys.Horizon() < all && !lookup.Authoritative {
			findings = append(findings, warn(check, fmt.Sprintf("the provider knows a key for %s, and all attempts may take %s: a doubt about a late one goes to a person", keys.Horizon(), all.Round(time.Second)),
				"fewer max_attempts, a shorter timeout, or a look-up"))
		}
	}
	if !keys.Honoured && !lookup.Authoritative && spec.Contract.EventWait == 0 {
		findings = append(findings, warn(check, "no key that its provider honours, no authoritative look-up, no event: every doubt goes to a person", "declare what the provider has (docs/contracts.md), or staff the reviews"))
	}
	return findings
}

// knownBy says how a doubt about an action is ended.
func knownBy(spec actions.Spec) string {
	switch keys, lookup := spec.Contract.Keys, spec.Contract.Lookup; {
	case keys.Honoured && lookup.Authoritative:
		return fmt.Sprintf("doubts end by the same key (%s) or a look-up", keys.Horizon())
	case keys.Honoured:
		return fmt.Sprintf("doubts end by the same key (%s)", keys.Horizon())
	case lookup.Authoritative:
		return fmt.Sprintf("doubts end by a look-up, %s after the attempt at the soonest", lookup.SettleTime)
	default:
		return fmt.Sprintf("doubts end by the provider's event within %s", spec.Contract.EventWait)
	}
}
