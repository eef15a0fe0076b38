package dispatch

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

func kinds() []actions.Kind {
	return []actions.Kind{
		actions.Ambiguous, actions.Applied, actions.AppliedNoReceipt, actions.Accepted, actions.InProgress,
		actions.MaybeOurs, actions.KeyMismatch, actions.Rejected, actions.NotApplied, actions.RateLimited, actions.Kind(99),
	}
}

func running(attempt int, inDoubt bool) ledger.Operation {
	return ledger.Operation{Tenant: "acme", ID: "op", State: ledger.Running, Attempt: attempt, Effect: ledger.EffectUnknown, InDoubt: inDoubt}
}

func outcome(kind actions.Kind) actions.Outcome {
	o := actions.Outcome{Kind: kind, Failure: actions.Failure{Evidence: "seen"}}
	if kind == actions.Applied {
		o.Receipt = actions.Receipt{Reference: "re_1", JSON: json.RawMessage(`{"id":"re_1"}`)}
	}
	return o
}

func spec() actions.Spec { return actions.Spec{Type: "a.b", MaxAttempts: 3}.WithDefaults() }

func TestSettle(t *testing.T) {
	tests := []struct {
		kind          actions.Kind
		event, doubts ledger.Event // without and with an earlier doubt
		reason        string
		effect        ledger.Effect
	}{
		{actions.Applied, ledger.Confirm, ledger.Confirm, "", ledger.EffectApplied},
		{actions.AppliedNoReceipt, ledger.Doubt, ledger.Doubt, ReasonAppliedNoReceipt, ledger.EffectApplied},
		{actions.Accepted, ledger.Doubt, ledger.Doubt, ReasonAwaitingProvider, ledger.EffectUnknown},
		{actions.InProgress, ledger.Doubt, ledger.Doubt, ReasonInProgress, ledger.EffectUnknown},
		{actions.MaybeOurs, ledger.Doubt, ledger.Doubt, ReasonMaybeOurs, ledger.EffectUnknown},
		{actions.KeyMismatch, ledger.Doubt, ledger.Doubt, ReasonKeyMismatch, ledger.EffectUnknown},
		{actions.Rejected, ledger.Refuse, ledger.Doubt, "", ledger.EffectNotApplied},
		{actions.NotApplied, ledger.Defer, ledger.Doubt, "not_applied", ledger.EffectNotApplied},
		{actions.RateLimited, ledger.Defer, ledger.Doubt, "rate_limited", ledger.EffectNotApplied},
		{actions.Ambiguous, ledger.Doubt, ledger.Doubt, ReasonAmbiguous, ledger.EffectUnknown},
		{actions.Kind(99), ledger.Doubt, ledger.Doubt, ReasonAmbiguous, ledger.EffectUnknown},
	}
	if len(tests) != len(kinds()) {
		t.Fatal("a kind of outcome has no row")
	}
	for _, test := range tests {
		c := decide(running(1, false), 1, spec(), outcome(test.kind)).change
		if c == nil || c.Event != test.event || c.Reason != test.reason || c.Effect != test.effect {
			t.Errorf("%s: got %+v", test.kind, c)
		}
		c = decide(running(2, true), 2, spec(), outcome(test.kind)).change
		if c == nil || c.Event != test.doubts {
			t.Errorf("%s after doubt: got %+v, want %s", test.kind, c, test.doubts)
		}
		if c != nil && c.Event == ledger.Doubt && !c.InDoubt {
			t.Errorf("%s after doubt: the doubt was dropped", test.kind)
		}
	}
}

// What an outcome leads to is legal from every state, and never ends an
// operation without proof.
func TestVerdictsAreLegalAndCareful(t *testing.T) {
	for _, state := range ledger.States() {
		for _, kind := range kinds() {
			for _, inDoubt := range []bool{false, true} {
				for _, known := range []string{"", "re_1", "re_other"} {
					for _, attempt := range []int{1, 2} {
						cur := running(2, inDoubt)
						cur.State, cur.ProviderReference = state, known
						v := decide(cur, attempt, spec(), outcome(kind))
						if v.change != nil && v.evidence != nil {
							t.Fatalf("%s %s: both a change and evidence", state, kind)
						}
						if v.change == nil {
							continue
						}
						to, ok := ledger.Next(state, v.change.Event)
						if !ok {
							t.Fatalf("%s %s: %s is illegal", state, kind, v.change.Event)
						}
						if v.then != nil {
							if _, ok := ledger.Next(to, v.then.Event); !ok {
								t.Errorf("%s %s: %s then %s is illegal", state, kind, v.change.Event, v.then.Event)
							}
						}
						current := state == ledger.Running && attempt == 2
						switch {
						case to == ledger.Succeeded && (kind != actions.Applied || v.change.ProviderReference == ""):
							t.Errorf("%s %s: confirmed without a receipt", state, kind)
						case to == ledger.Succeeded && known == "re_other":
							t.Errorf("%s %s: a second receipt overwrote the first", state, kind)
						case (to == ledger.Failed || to == ledger.Pending) && (!current || inDoubt):
							t.Errorf("%s %s: moved to %s by an attempt that proves nothing about others", state, kind, to)
						}
					}
				}
			}
		}
	}
}

func TestSuccessWithoutReferenceIsNoReceipt(t *testing.T) {
	o := outcome(actions.Applied)
	o.Receipt.Reference = ""
	c := decide(running(1, false), 1, spec(), o).change
	if c.Event != ledger.Doubt || c.Reason != ReasonAppliedNoReceipt || c.Effect != ledger.EffectApplied {
		t.Errorf("got %+v", c)
	}
}

func TestAttemptsRunOut(t *testing.T) {
	c := decide(running(3, false), 3, spec(), outcome(actions.NotApplied)).change
	if c.Event != ledger.Refuse || c.Effect != ledger.EffectNotApplied || c.Failure.Code != "attempts_exhausted" {
		t.Errorf("got %+v", c)
	}
}

func TestRateLimitWaitsAsTheProviderAsks(t *testing.T) {
	o := outcome(actions.RateLimited)
	o.RetryAfter = 2 * time.Minute
	if c := decide(running(1, false), 1, spec(), o).change; c.Delay != 2*time.Minute || c.BumpEpoch {
		t.Errorf("got delay %s, bump %t", c.Delay, c.BumpEpoch)
	}
}

func TestEpochGrowsOnlyWhereFailuresAreStored(t *testing.T) {
	s := spec()
	if decide(running(1, false), 1, s, outcome(actions.NotApplied)).change.BumpEpoch {
		t.Error("the key changed although the provider does not store failures")
	}
	s.Contract.Keys.StoresFailures = true
	if !decide(running(1, false), 1, s, outcome(actions.NotApplied)).change.BumpEpoch {
		t.Error("the key stayed although the provider would replay the failure")
	}
}

func TestLateReceipt(t *testing.T) {
	tests := []struct {
		name     string
		state    ledger.State
		attempt  int // of the operation; the receipt is of attempt 1
		known    string
		event    ledger.Event
		evidence bool
		incident bool
	}{
		{"unknown, same attempt", ledger.Unknown, 1, "", ledger.Confirm, false, false},
		{"unknown, newer attempt", ledger.Unknown, 2, "", "", true, false},
		{"unknown, other reference", ledger.Unknown, 1, "re_other", "", true, true},
		{"running again, other reference", ledger.Running, 2, "re_other", "", true, true},
		{"in review, other reference", ledger.NeedsReview, 1, "re_other", "", true, true},
		{"failed, other reference", ledger.Failed, 1, "re_other", ledger.Contradict, false, false},
		{"running again", ledger.Running, 2, "", "", true, false},
		{"pending again", ledger.Pending, 1, "", ledger.Escalate, false, false},
		{"failed", ledger.Failed, 1, "", ledger.Contradict, false, false},
		{"in review", ledger.NeedsReview, 1, "", "", true, false},
		{"succeeded with it", ledger.Succeeded, 2, "re_1", "", false, false},
		{"succeeded with another", ledger.Succeeded, 2, "re_other", "", true, true},
	}
	for _, test := range tests {
		cur := running(test.attempt, true)
		cur.State, cur.ProviderReference = test.state, test.known
		v := decide(cur, 1, spec(), outcome(actions.Applied))
		var event ledger.Event
		if v.change != nil {
			event = v.change.Event
		}
		if event != test.event || (v.evidence != nil) != test.evidence {
			t.Errorf("%s: got change %+v, evidence %+v", test.name, v.change, v.evidence)
		}
		if v.evidence != nil && (v.evidence.Incident != "") != test.incident {
			t.Errorf("%s: incident %q", test.name, v.evidence.Incident)
		}
	}
}

func TestProviderKey(t *testing.T) {
	keys := newProviderKeys([]byte("0123456789abcdef0123456789abcdef"))
	key := keys.of("acme", "op", 0)
	if len(key) != actions.ProviderKeyLength {
		t.Errorf("length %d", len(key))
	}
	if key != "vqafvs3j7go4srnosrp864en9c" {
		t.Errorf("is %s: operations that are under way would get other keys", key)
	}
	seen := map[string]string{}
	for name, k := range map[string]string{
		"itself": key, "other tenant": keys.of("acm", "eop", 0), "other operation": keys.of("acme", "op2", 0),
		"other epoch": keys.of("acme", "op", 1), "other secret": newProviderKeys([]byte("other")).of("acme", "op", 0),
	} {
		if other, taken := seen[k]; taken {
			t.Errorf("%s and %s have one key", name, other)
		}
		seen[k] = name
	}
	if keys.of("acme", "op", 0) != key {
		t.Error("not stable")
	}
}

func TestBackoffGrowsAndIsBounded(t *testing.T) {
	last := time.Duration(0)
	for attempt := range 100 {
		d := backoff(attempt)
		if d < last || d > maxBackoff || d <= 0 {
			t.Fatalf("attempt %d: %s after %s", attempt, d, last)
		}
		last = d
	}
	if last != maxBackoff {
		t.Errorf("ends at %s", last)
	}
}
