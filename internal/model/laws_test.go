package model

import (
	"testing"

	"github.com/onceward/onceward/ledger"
)

// TestEveryWorld checks each law in every world; these check that each law would
// be missed. They take a step that was made up and must be told that it breaks it.

// breach is a step that breaks a law. Both worlds are as after a request: attempt
// 1 of key 1 is claimed.
type breach struct {
	what   string
	step   Step
	change func(m *Model, before, after *Key)
	moved  []ledger.Event
}

func step(kind Kind) Step { return Step{Kind: uint8(kind)} }

// is makes a row what the ledger would call it.
func (m *Model) set(r *Row, state ledger.State, effect ledger.Effect) {
	r.State, r.Effect = m.names.number(string(state)), m.names.number(string(effect))
	r.InDoubt = state == ledger.Unknown
}

func sees(t *testing.T, name string, breaches ...breach) {
	t.Helper()
	var law Law
	for _, l := range Laws() {
		if l.Name == name {
			law = l
		}
	}
	if law.Check == nil {
		t.Fatalf("there is no law %q", name)
	}
	for _, b := range breaches {
		m := New(Scenario{Keys: 2, Provider: Provider{Flight: 1}})
		w := m.Begin()
		begun, _, err := m.Do(&w, step(Asks))
		if err != nil {
			t.Fatal(err)
		}
		before, after := *begun, *begun
		m.moved = b.moved
		if what := law.Check(m, &before, &after, step(Passes)); what != "" && b.moved == nil {
			t.Errorf("%s: %s where nothing happened: %s", name, b.what, what)
		}
		b.change(m, &before.Keys[0], &after.Keys[0])
		if what := law.Check(m, &before, &after, b.step); what == "" {
			t.Errorf("%s is blind to this: %s", name, b.what)
		}
	}
}

func TestLaw01_OneKeyOneEffect(t *testing.T) {
	t.Parallel()
	sees(t, "L1 one key, one effect", breach{"two effects", step(Lands), func(_ *Model, _, after *Key) { after.Provider.Effects = 2 }, nil})
}

func TestLaw01_OneIntentOneEffect(t *testing.T) {
	t.Parallel()
	const law = "L1 one intent, one effect"
	sees(t, law, breach{"two effects", step(Lands), func(_ *Model, _, after *Key) { after.Provider.Effects = 2 }, nil})
	m := New(Scenario{Keys: 2, Provider: Provider{Flight: 1}})
	w := m.Begin()
	m.open(&w, 0, 0)
	m.open(&w, 1, 0)
	if oneIntent(m, &w, &w, step(Asks)) == "" {
		t.Errorf("%s is blind to two operations under it", law)
	}
}

func TestLaw02_LedgerFirst(t *testing.T) {
	t.Parallel()
	sees(t, "L2 the ledger first",
		breach{"an attempt that nobody claimed is sent", step(Sends), func(_ *Model, _, after *Key) { after.Requests[1].UnderWay = true }, nil},
		breach{"an effect without an attempt", step(Lands), func(_ *Model, _, after *Key) { after.Started, after.Provider.Effects = 0, 1 }, nil})
}

func TestLaw03_DoubtIsAState(t *testing.T) {
	t.Parallel()
	made := func(state ledger.State, effect ledger.Effect) func(*Model, *Key, *Key) {
		return func(m *Model, _, after *Key) {
			m.set(&after.Row, state, effect)
			after.Provider.Effects = 1
		}
	}
	sees(t, "L3 doubt is a state",
		breach{"failed, and made", step(Settles), made(ledger.Failed, ledger.EffectNotApplied), nil},
		breach{"pending, and made", step(Settles), made(ledger.Pending, ledger.EffectUnknown), nil},
		breach{"not applied, and made", step(Acts), made(ledger.NeedsReview, ledger.EffectNotApplied), nil},
		breach{"not sent, and sent", step(Settles), func(m *Model, _, after *Key) { m.set(&after.Row, ledger.Failed, ledger.EffectNone) }, nil},
		breach{"succeeded without an effect", step(Settles), func(m *Model, _, after *Key) { m.set(&after.Row, ledger.Succeeded, ledger.EffectApplied) }, nil},
		breach{"succeeded with another receipt", step(Settles), func(m *Model, _, after *Key) {
			made(ledger.Succeeded, ledger.EffectApplied)(m, nil, after)
			after.Row.Receipt = m.names.number(reference(2))
		}, nil},
		breach{"unknown, and no doubt", step(Settles), func(m *Model, _, after *Key) {
			m.set(&after.Row, ledger.Unknown, ledger.EffectUnknown)
			after.Row.InDoubt = false
		}, nil},
		breach{"unknown, and not applied", step(Settles), func(m *Model, _, after *Key) { m.set(&after.Row, ledger.Unknown, ledger.EffectNotApplied) }, nil})
}

func TestLaw04_DoubtIsNeverRetriedBlindly(t *testing.T) {
	t.Parallel()
	unknownTo := func(state ledger.State) func(*Model, *Key, *Key) {
		return func(m *Model, before, after *Key) {
			m.set(&before.Row, ledger.Unknown, ledger.EffectUnknown)
			m.set(&after.Row, state, ledger.EffectUnknown)
		}
	}
	sees(t, "L4 doubt is never retried blindly",
		breach{"a lease that ends in pending", step(LeaseEnds), func(m *Model, _, after *Key) { m.set(&after.Row, ledger.Pending, ledger.EffectUnknown) }, nil},
		breach{"a lease that ends without doubt", step(LeaseEnds), func(m *Model, _, after *Key) {
			m.set(&after.Row, ledger.Unknown, ledger.EffectUnknown)
			after.Row.InDoubt = false
		}, nil},
		breach{"a reconciler that ends a running operation", step(Acts), func(m *Model, _, after *Key) { m.set(&after.Row, ledger.Failed, ledger.EffectNotApplied) }, nil},
		breach{"a new key that is claimed in a restored ledger", step(Asks), func(_ *Model, before, _ *Key) { before.Row, before.Loss = Row{}, Recovering }, nil},
		breach{"a restored doubt that is replayed", step(Looks), func(m *Model, before, after *Key) {
			unknownTo(ledger.Running)(m, before, after)
			before.Row.Reason = m.names.number(ledger.ReasonRestored)
		}, nil},
		breach{"a restored doubt that ends by absence", step(Acts), func(m *Model, before, after *Key) {
			unknownTo(ledger.Failed)(m, before, after)
			before.Row.Reason = m.names.number(ledger.ReasonRestored)
		}, nil},
		breach{"a replay without a key", step(Looks), unknownTo(ledger.Running), nil},
		breach{"another try without a look-up", step(Looks), unknownTo(ledger.Pending), nil})
}

func TestLaw05_OtherArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	sees(t, "L5 same key, other arguments: refused",
		breach{"a request that changes a row", step(Asks), func(_ *Model, _, after *Key) { after.Row.Resolves = 1 }, nil},
		breach{"arguments that nobody corrected", step(Settles), func(_ *Model, _, after *Key) { after.Row.Args = 1 }, nil},
		breach{"a key that was buried", step(Asks), func(_ *Model, before, _ *Key) { before.Row, before.Buried = Row{}, true }, nil})
}

func TestLaw06_TheOriginalReceipt(t *testing.T) {
	t.Parallel()
	sees(t, "L6 a duplicate gets the original receipt",
		breach{"another receipt", step(Settles), func(_ *Model, before, after *Key) { before.Told, after.Told = 1, 2 }, nil},
		breach{"a receipt that is taken back", step(Settles), func(_ *Model, before, after *Key) { before.Told, after.Told = 1, 1 }, nil},
		breach{"a receipt that is gone", step(Passes), func(_ *Model, before, after *Key) { before.Told, after.Told, after.Buried = 1, 1, true }, nil})
}

func TestLaw07_AFencedLedger(t *testing.T) {
	t.Parallel()
	sees(t, "L7 a fenced ledger",
		breach{"a late worker's refusal", step(Settles), func(m *Model, before, after *Key) {
			before.Row.Attempt = 2
			m.set(&after.Row, ledger.Failed, ledger.EffectNotApplied)
		}, nil},
		breach{"a late worker's other reference", step(Settles), func(_ *Model, before, after *Key) { before.Row.Reference, after.Row.Reference = 1, 2 }, nil},
		breach{"a reconciler whose lease is over", step(Acts), func(_ *Model, before, after *Key) {
			before.Row.Lease, after.Row.Lease, after.Row.Resolves = 1, 1, 1
		}, nil})
}

func TestLaw08_UnresolvedStays(t *testing.T) {
	t.Parallel()
	sees(t, "L8 unresolved rows never expire",
		breach{"a row that is swept", step(Forgets), func(_ *Model, _, after *Key) { after.Row = Row{} }, nil},
		breach{"a row that time moves", step(Passes), func(m *Model, _, after *Key) { m.set(&after.Row, ledger.Failed, ledger.EffectNotApplied) }, nil},
		breach{"a question that lapses", step(Lapses), func(m *Model, before, after *Key) {
			m.set(&before.Row, ledger.NeedsReview, ledger.EffectUnknown)
			m.set(&after.Row, ledger.Failed, ledger.EffectNotApplied)
		}, nil})
}

func TestLaw11_EveryMoveIsAudited(t *testing.T) {
	t.Parallel()
	sees(t, "L11 every move is audited",
		breach{"a move without an event", step(Settles), func(m *Model, _, after *Key) { m.set(&after.Row, ledger.Unknown, ledger.EffectUnknown) }, nil},
		breach{"an event without its move", step(Settles), func(*Model, *Key, *Key) {}, []ledger.Event{ledger.Doubt}},
		breach{"an event that cannot be", step(Settles), func(*Model, *Key, *Key) {}, []ledger.Event{ledger.Correct}},
		breach{"an attempt that no event began", step(Settles), func(_ *Model, _, after *Key) { after.Row.Attempt = 2 }, nil})
}
