package proof

import (
	"encoding/json"
	"fmt"

	"github.com/onceward/onceward/ledger"
)

// evidence is what a path left behind.
type evidence struct {
	op       *ledger.Operation // as the ledger has it; nil: none was recorded
	effects  []Effect
	requests []Request
	pending  int // faults that nobody took
}

func (e evidence) writes() []Request {
	var out []Request
	for _, r := range e.requests {
		if r.Write {
			out = append(out, r)
		}
	}
	return out
}

// judgement is a verdict with its reason.
type judgement struct {
	verdict Verdict
	detail  string
}

func verdictf(v Verdict, format string, args ...any) judgement {
	return judgement{v, fmt.Sprintf(format, args...)}
}

// judge says what the evidence comes to. Everything that is claimed is compared
// with what the target holds; the worst comes first.
func (s *stage) judge(e evidence) judgement {
	if len(e.effects) > 1 {
		return verdictf(Unsafe, "the target holds %d effects of one operation", len(e.effects))
	}
	if j := s.judgeRequests(e); j.verdict != Safe {
		return j
	}
	if e.op == nil {
		if len(e.effects) > 0 || len(e.writes()) > 0 {
			return verdictf(Unsafe, "something was sent that the ledger does not know")
		}
		return verdictf(Stuck, "no operation was recorded")
	}
	if j := judgeClaims(*e.op, e.effects); j.verdict != Safe {
		return j
	}
	if !e.op.State.Final() && e.op.State != ledger.NeedsReview {
		return verdictf(Stuck, "still %s (%s): neither settled nor before a person", e.op.State, e.op.Reason)
	}
	return judgement{verdict: Safe}
}

// judgeRequests looks for requests that the contract does not allow, whether or
// not they did harm this time.
func (s *stage) judgeRequests(e evidence) judgement {
	writes := e.writes()
	if e.op != nil && len(writes) > len(e.op.Attempts) {
		return verdictf(Unsafe, "%d writes for %d attempts: something below the ledger sends again", len(writes), len(e.op.Attempts))
	}
	honoured := s.honoured() && !s.horizonPassed
	applied := false
	for i, w := range writes {
		if applied && !honoured {
			return verdictf(Unsafe, "write %d was sent after write %d was applied, and the provider recognises no key", i+1, i)
		}
		applied = applied || w.Effect
	}
	if !s.honoured() || e.op == nil {
		return judgement{verdict: Safe}
	}
	for i, w := range writes {
		switch {
		case w.Key == "":
			return verdictf(Unsafe, "write %d carries no idempotency key", i+1)
		case e.op.Epoch > 0:
			// The provider stores failures: a new key after proof of not-applied.
		case w.Key != writes[0].Key:
			return verdictf(Unsafe, "write %d carries another idempotency key than the first", i+1)
		case w.Digest != writes[0].Digest:
			return verdictf(Unsafe, "write %d is not byte for byte the first", i+1)
		}
	}
	return judgement{verdict: Safe}
}

// judgeClaims compares what the ledger says with what the target holds.
func judgeClaims(op ledger.Operation, effects []Effect) judgement {
	held := len(effects)
	claim := func(format string, args ...any) judgement {
		return verdictf(Lie, "%s, and %s", fmt.Sprintf(format, args...), holds(held))
	}
	switch op.Effect {
	case ledger.EffectApplied:
		if held == 0 {
			return claim("%s with effect applied", op.State)
		}
	case ledger.EffectNone, ledger.EffectNotApplied:
		if held > 0 {
			return claim("%s with effect %s", op.State, op.Effect)
		}
	case ledger.EffectUnknown:
	}
	if op.State != ledger.Succeeded {
		return judgement{verdict: Safe}
	}
	switch {
	case op.ProviderReference == "":
		return verdictf(Lie, "succeeded without a provider reference")
	case effects[0].Reference != "" && effects[0].Reference != op.ProviderReference:
		return verdictf(Lie, "succeeded with reference %q, and the target's is %q", op.ProviderReference, effects[0].Reference)
	case !json.Valid(op.Receipt):
		return verdictf(Lie, "succeeded with a receipt that is no JSON")
	}
	return judgement{verdict: Safe}
}

func holds(n int) string {
	if n == 0 {
		return "the target holds nothing"
	}
	return fmt.Sprintf("the target holds %d", n)
}
