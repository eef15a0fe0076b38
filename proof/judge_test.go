package proof

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	good := Request{Write: true, Key: "k", Digest: "d", Effect: true}
	lost := Request{Write: true, Key: "k", Digest: "d"}
	look := Request{}
	held := []Effect{{Reference: "re_1"}}
	op := func(change func(*ledger.Operation)) *ledger.Operation {
		o := ledger.Operation{
			State: ledger.Succeeded, Effect: ledger.EffectApplied, ProviderReference: "re_1", Receipt: []byte(`{}`),
			Attempts: make([]ledger.Attempt, 2),
		}
		change(&o)
		return &o
	}
	state := func(s ledger.State, e ledger.Effect) *ledger.Operation {
		return op(func(o *ledger.Operation) {
			o.State, o.Effect, o.Receipt, o.ProviderReference = s, e, nil, ""
		})
	}
	same := func(*ledger.Operation) {}
	for name, tt := range map[string]struct {
		keyless bool
		e       evidence
		want    Verdict
		says    string
	}{
		"one effect":                      {false, evidence{op: op(same), effects: held, requests: []Request{lost, good, look, look, look}}, Safe, ""},
		"two effects":                     {false, evidence{op: op(same), effects: append(held, held...), requests: []Request{good, good}}, Unsafe, "holds 2 effects"},
		"more writes than attempts":       {false, evidence{op: op(same), effects: held, requests: []Request{good, lost, lost}}, Unsafe, "3 writes for 2 attempts"},
		"sent again after it was applied": {true, evidence{op: op(same), effects: held, requests: []Request{good, lost}}, Unsafe, "write 2 was sent after write 1"},
		"sent again after it was lost":    {true, evidence{op: op(same), effects: held, requests: []Request{lost, good}}, Safe, ""},
		"with the key sent again":         {false, evidence{op: op(same), effects: held, requests: []Request{good, lost}}, Safe, ""},
		"another key":                     {false, evidence{op: op(same), effects: held, requests: []Request{lost, {Write: true, Key: "l", Digest: "d", Effect: true}}}, Unsafe, "another idempotency key"},
		"another key in another epoch": {false, evidence{op: op(func(o *ledger.Operation) { o.Epoch = 1 }), effects: held,
			requests: []Request{lost, {Write: true, Key: "l", Digest: "e", Effect: true}}}, Safe, ""},
		"no key":              {false, evidence{op: op(same), effects: held, requests: []Request{{Write: true, Digest: "d", Effect: true}}}, Unsafe, "no idempotency key"},
		"other bytes":         {false, evidence{op: op(same), effects: held, requests: []Request{lost, {Write: true, Key: "k", Digest: "e", Effect: true}}}, Unsafe, "byte for byte"},
		"unknown to the book": {false, evidence{effects: held, requests: []Request{good}}, Unsafe, "the ledger does not know"},
		"nothing at all":      {false, evidence{}, Stuck, "no operation"},
		"success of nothing":  {false, evidence{op: op(same)}, Lie, "holds nothing"},
		"another reference":   {false, evidence{op: op(func(o *ledger.Operation) { o.ProviderReference = "re_2" }), effects: held}, Lie, `"re_2"`},
		"a target that cannot tell": {false, evidence{op: op(func(o *ledger.Operation) { o.ProviderReference = "re_2" }),
			effects: []Effect{{}}}, Safe, ""},
		"no reference":           {false, evidence{op: op(func(o *ledger.Operation) { o.ProviderReference = "" }), effects: held}, Lie, "without a provider reference"},
		"no receipt":             {false, evidence{op: op(func(o *ledger.Operation) { o.Receipt = nil }), effects: held}, Lie, "no JSON"},
		"failed and applied":     {false, evidence{op: state(ledger.Failed, ledger.EffectNotApplied), effects: held}, Lie, "failed with effect not_applied"},
		"failed before sending":  {false, evidence{op: state(ledger.Failed, ledger.EffectNone), effects: held}, Lie, "failed with effect none"},
		"failed":                 {false, evidence{op: state(ledger.Failed, ledger.EffectNotApplied), requests: []Request{lost}}, Safe, ""},
		"review of one":          {false, evidence{op: state(ledger.NeedsReview, ledger.EffectUnknown), effects: held}, Safe, ""},
		"review of none":         {false, evidence{op: state(ledger.NeedsReview, ledger.EffectUnknown)}, Safe, ""},
		"review, said to be one": {false, evidence{op: state(ledger.NeedsReview, ledger.EffectApplied)}, Lie, "needs_review with effect applied"},
		"unknown":                {false, evidence{op: state(ledger.Unknown, ledger.EffectUnknown), effects: held}, Stuck, "still unknown"},
		"running":                {false, evidence{op: state(ledger.Running, ledger.EffectUnknown)}, Stuck, "still running"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stage{sample: &sample{spec: actions.Spec{Contract: actions.Contract{Keys: actions.KeyRules{Honoured: !tt.keyless}}}}}
			got := s.judge(tt.e)
			if got.verdict != tt.want || !strings.Contains(got.detail, tt.says) || (got.detail == "") != (got.verdict == Safe) {
				t.Errorf("got %s: %q, want %s: %q", got.verdict, got.detail, tt.want, tt.says)
			}
		})
	}
}

// TestHorizonIsNoKey: once the window has ended a second write is wrong, whatever
// key it carries.
func TestHorizonIsNoKey(t *testing.T) {
	t.Parallel()
	s := &stage{sample: &sample{spec: actions.Spec{Contract: actions.Contract{Keys: actions.KeyRules{Honoured: true}}}}, horizonPassed: true}
	write := Request{Write: true, Key: "k", Digest: "d", Effect: true}
	got := s.judgeRequests(evidence{op: &ledger.Operation{Attempts: make([]ledger.Attempt, 2)}, requests: []Request{write, write}})
	if got.verdict != Unsafe {
		t.Errorf("got %+v", got)
	}
}
