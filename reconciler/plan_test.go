package reconciler

import (
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/ledger"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func unknown(change func(*ledger.Operation)) ledger.Operation {
	op := ledger.Operation{
		State: ledger.Unknown, Effect: ledger.EffectUnknown, Reason: dispatch.ReasonAmbiguous, InDoubt: true,
		Attempt: 1, Resolves: 1, KeyHorizon: now.Add(time.Hour), DoubtedAt: now.Add(-time.Minute),
	}
	if change != nil {
		change(&op)
	}
	return op
}

func keyed() actions.Spec {
	s := actions.Spec{}
	s.Contract.Keys = actions.KeyRules{Honoured: true, Window: 24 * time.Hour}
	return s.WithDefaults()
}

// slow is a provider that may not know a key while its first request is worked on.
func slow() actions.Spec {
	s := keyed()
	s.Contract.Keys.InFlight = time.Minute
	return s
}

// afterRestore is a doubt that a restore left.
func afterRestore(o *ledger.Operation) { o.Reason = ledger.ReasonRestored }

func TestNextStep(t *testing.T) {
	bare := actions.Spec{}.WithDefaults()
	tests := []struct {
		name   string
		op     ledger.Operation
		spec   actions.Spec
		looker bool
		want   stepKind
		reason ledger.ReviewReason
	}{
		{"key inside its horizon", unknown(nil), keyed(), false, replay, ""},
		{"key inside its horizon, with look-up", unknown(nil), keyed(), true, replay, ""},
		{"key that protects late, first request under way", unknown(func(o *ledger.Operation) { o.DoubtedAt = now.Add(-59 * time.Second) }), slow(), false, wait, ""},
		{"key that protects late, look-up meanwhile", unknown(func(o *ledger.Operation) { o.DoubtedAt = now.Add(-59 * time.Second) }), slow(), true, lookUp, ""},
		{"key that protects late, looks used up", unknown(func(o *ledger.Operation) {
			o.DoubtedAt, o.Resolves = now.Add(-59*time.Second), actions.DefaultMaxResolves
		}), slow(), true, wait, ""},
		{"key that protects late, first request over", unknown(func(o *ledger.Operation) { o.DoubtedAt = now.Add(-time.Minute) }), slow(), true, replay, ""},
		{"stored reference first", unknown(func(o *ledger.Operation) { o.ProviderReference = "re_1" }), keyed(), true, lookUp, ""},
		{"key past its horizon", unknown(func(o *ledger.Operation) { o.KeyHorizon = now }), keyed(), true, lookUp, ""},
		{"key near its horizon", unknown(func(o *ledger.Operation) { o.KeyHorizon = now.Add(time.Minute) }), keyed(), true, lookUp, ""},
		{"key past its horizon, no look-up", unknown(func(o *ledger.Operation) { o.KeyHorizon = now }), keyed(), false, escalate, ledger.Inconclusive},
		{"attempts used up", unknown(func(o *ledger.Operation) { o.Attempt = actions.DefaultMaxAttempts }), keyed(), true, lookUp, ""},
		{"attempts turned away by a rate limit", unknown(func(o *ledger.Operation) {
			o.Attempt = actions.DefaultMaxAttempts
			o.Attempts = []ledger.Attempt{{Number: 1, EndedAt: now, Outcome: "rate_limited"}}
		}), keyed(), true, replay, ""},
		{"known to be applied", unknown(func(o *ledger.Operation) {
			o.Effect, o.Reason = ledger.EffectApplied, dispatch.ReasonAppliedNoReceipt
		}), keyed(), true, lookUp, ""},
		{"known to be applied, no look-up", unknown(func(o *ledger.Operation) {
			o.Effect, o.Reason = ledger.EffectApplied, dispatch.ReasonAppliedNoReceipt
		}), keyed(), false, escalate, ledger.Inconclusive},
		{"provider will finish", unknown(func(o *ledger.Operation) { o.Reason = dispatch.ReasonAwaitingProvider }), keyed(), true, lookUp, ""},
		{"maybe ours", unknown(func(o *ledger.Operation) { o.Reason = dispatch.ReasonMaybeOurs }), keyed(), true, lookUp, ""},
		{"same key refused after doubt", unknown(func(o *ledger.Operation) { o.Reason = dispatch.ReasonRejectedAfterDoubt }), keyed(), false, escalate, ledger.Inconclusive},
		{"restored, with key and look-up", unknown(afterRestore), keyed(), true, lookUp, ""},
		{"restored, key inside its horizon, no look-up", unknown(afterRestore), keyed(), false, escalate, ledger.Inconclusive},
		{"restored, every look was taken", unknown(func(o *ledger.Operation) {
			afterRestore(o)
			o.Resolves = actions.DefaultMaxResolves + 1
		}), keyed(), true, escalate, ledger.Inconclusive},
		{"restored, in the stage protect", unknown(func(o *ledger.Operation) {
			afterRestore(o)
			o.Stage = ledger.StageProtect
		}), keyed(), true, escalate, ledger.Inconclusive},
		{"in progress", unknown(func(o *ledger.Operation) { o.Reason = dispatch.ReasonInProgress }), keyed(), false, replay, ""},
		{"attempts of the policy used up", unknown(func(o *ledger.Operation) { o.MaxAttempts = 1 }), keyed(), true, lookUp, ""},
		{"time of the policy over", unknown(func(o *ledger.Operation) { o.GiveUpAt = now }), keyed(), true, lookUp, ""},
		{"time of the policy nearly over", unknown(func(o *ledger.Operation) { o.GiveUpAt = now.Add(time.Second) }), keyed(), true, replay, ""},
		{"no keys, look-up", unknown(nil), bare, true, lookUp, ""},
		{"no keys, no look-up", unknown(nil), bare, false, escalate, ledger.Inconclusive},
		{"key mismatch", unknown(func(o *ledger.Operation) { o.Reason = dispatch.ReasonKeyMismatch }), keyed(), true, escalate, ledger.Contradicted},
		{"two receipts", unknown(func(o *ledger.Operation) { o.Reason = dispatch.ReasonContradicted }), keyed(), true, escalate, ledger.Contradicted},
		{"tried often enough", unknown(func(o *ledger.Operation) { o.Resolves = actions.DefaultMaxResolves + 1 }), keyed(), true, escalate, ledger.Inconclusive},
	}
	for _, test := range tests {
		got := nextStep(test.op, test.spec, test.looker, now, time.Minute)
		if got.kind != test.want || got.reason != test.reason || (got.kind == escalate) == (got.detail == "") {
			t.Errorf("%s: got %+v", test.name, got)
		}
	}
}

// The provider's own event is waited for where nothing else can find out, and as
// long as the contract says.
func TestNextStepWaitsForAnEvent(t *testing.T) {
	t.Parallel()
	hearing := actions.Spec{}.WithDefaults()
	hearing.Contract.EventWait = time.Hour
	deafened := keyed()
	deafened.Contract.EventWait = time.Hour
	tests := []struct {
		name   string
		op     ledger.Operation
		spec   actions.Spec
		looker bool
		want   stepKind
	}{
		{"no keys, no look-up", unknown(nil), hearing, false, wait},
		{"the wait is over", unknown(func(o *ledger.Operation) { o.DoubtedAt = now.Add(-time.Hour) }), hearing, false, escalate},
		{"a look-up is better", unknown(nil), hearing, true, lookUp},
		{"every look was taken", unknown(func(o *ledger.Operation) { o.Resolves = actions.DefaultMaxResolves + 1 }), hearing, true, wait},
		{"a replay is better", unknown(nil), deafened, false, replay},
		{"key past its horizon", unknown(func(o *ledger.Operation) { o.KeyHorizon = now }), deafened, false, wait},
		{"accepted", unknown(func(o *ledger.Operation) { o.Reason = dispatch.ReasonAwaitingProvider }), deafened, false, wait},
		{"a contradiction does not wait", unknown(func(o *ledger.Operation) { o.Reason = dispatch.ReasonContradicted }), hearing, false, escalate},
		{"key mismatch does not wait", unknown(func(o *ledger.Operation) { o.Reason = dispatch.ReasonKeyMismatch }), hearing, false, escalate},
	}
	for _, test := range tests {
		got := nextStep(test.op, test.spec, test.looker, now, time.Minute)
		if got.kind != test.want || (got.kind == wait) != (got.delay > 0) || got.delay > time.Hour {
			t.Errorf("%s: got %+v", test.name, got)
		}
	}
}

func TestWeighAbsence(t *testing.T) {
	spec := actions.Spec{}
	spec.Contract.Lookup = actions.LookupRules{Authoritative: true, SettleTime: time.Minute, NegativeReads: 3}
	spec = spec.WithDefaults()
	hearsay := spec
	hearsay.Contract.Lookup.Authoritative = false

	early := unknown(func(o *ledger.Operation) { o.DoubtedAt = now.Add(-59 * time.Second); o.NegativeReads = 99 })
	if got := weighAbsence(early, spec, now); got.proved || got.negativeReads != 0 || got.delay > time.Second {
		t.Errorf("inside the settle time: %+v", got)
	}
	settled := unknown(nil)
	for reads := range 3 {
		settled.NegativeReads = reads
		got := weighAbsence(settled, spec, now)
		if got.proved != (reads == 2) || got.negativeReads != reads+1 {
			t.Errorf("read %d: %+v", reads+1, got)
		}
	}
	settled.NegativeReads = 99
	if got := weighAbsence(settled, hearsay, now); got.proved || got.delay <= 0 {
		t.Errorf("a look-up that is not authoritative proved absence: %+v", got)
	}
	applied := unknown(func(o *ledger.Operation) { o.Effect, o.NegativeReads = ledger.EffectApplied, 99 })
	if got := weighAbsence(applied, spec, now); got.proved {
		t.Errorf("absence of what is known to be applied: %+v", got)
	}
	known := unknown(func(o *ledger.Operation) { o.ProviderReference, o.NegativeReads = "re_1", 99 })
	if got := weighAbsence(known, spec, now); got.proved {
		t.Errorf("absence of what the provider has named: %+v", got)
	}
	accepted := unknown(func(o *ledger.Operation) { o.Reason, o.NegativeReads = dispatch.ReasonAwaitingProvider, 99 })
	if got := weighAbsence(accepted, spec, now); got.proved {
		t.Errorf("absence of what the provider accepted: %+v", got)
	}
}

// After a restore a look-up that finds nothing proves nothing, whatever its contract
// says; a person is asked when it would have.
func TestWeighAbsenceAfterARestore(t *testing.T) {
	spec := actions.Spec{}
	spec.Contract.Lookup = actions.LookupRules{Authoritative: true, SettleTime: time.Minute, NegativeReads: 3}
	spec = spec.WithDefaults()
	hearsay := spec
	hearsay.Contract.Lookup.Authoritative = false
	for _, s := range []actions.Spec{spec, hearsay} {
		early := unknown(func(o *ledger.Operation) {
			afterRestore(o)
			o.DoubtedAt, o.NegativeReads = now.Add(-59*time.Second), 99
		})
		if got := weighAbsence(early, s, now); got.proved || got.ask || got.delay > time.Second {
			t.Errorf("inside the settle time: %+v", got)
		}
		settled := unknown(afterRestore)
		for reads := range 3 {
			settled.NegativeReads = reads
			if got := weighAbsence(settled, s, now); got.proved || got.ask != (reads == 2) || got.negativeReads != reads+1 {
				t.Errorf("read %d: %+v", reads+1, got)
			}
		}
	}
}

// A settle time longer than all growing gaps together still leaves the reads
// that count.
func TestLooksLastUntilTheSettleTime(t *testing.T) {
	spec := actions.Spec{}
	spec.Contract.Lookup = actions.LookupRules{Authoritative: true, SettleTime: 6 * time.Hour}
	spec = spec.WithDefaults()
	op := unknown(func(o *ledger.Operation) { o.DoubtedAt, o.Resolves = now, 0 })
	clock := now
	for {
		op.Resolves++
		if nextStep(op, spec, true, clock, time.Minute).kind != lookUp {
			t.Fatalf("a person was asked after %d looks and %s", op.Resolves, clock.Sub(now))
		}
		got := weighAbsence(op, spec, clock)
		if got.proved {
			break
		}
		op.NegativeReads = got.negativeReads
		clock = clock.Add(got.delay)
	}
	if clock.Sub(now) < 6*time.Hour {
		t.Errorf("absence was believed after %s", clock.Sub(now))
	}
}
