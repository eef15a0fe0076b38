package model

import (
	"fmt"
	"math/bits"

	"github.com/onceward/onceward/ledger"
)

// Law is what must hold in every world and at every step. Check says what is
// wrong after a step, or nothing.
type Law struct {
	Name  string
	Check func(m *Model, before, after *World, s Step) string
}

// Laws are those of docs/laws.md that the model can break.
func Laws() []Law {
	return []Law{
		{"L1 one key, one effect", each(oneEffect)},
		{"L1 one intent, one effect", oneIntent},
		{"L2 the ledger first", each(ledgerFirst)},
		{"L3 doubt is a state", each(proofs)},
		{"L4 doubt is never retried blindly", each(notBlindly)},
		{"L5 same key, other arguments: refused", each(sameArguments)},
		{"L6 a duplicate gets the original receipt", each(oneReceipt)},
		{"L7 a fenced ledger", each(fenced)},
		{"L8 unresolved rows never expire", each(unresolvedStays)},
		{"L11 every move is audited", each(audited)},
	}
}

// each checks every key for itself.
func each(check func(m *Model, before, after *Key, key int, s Step) string) func(*Model, *World, *World, Step) string {
	return func(m *Model, before, after *World, s Step) string {
		for i := range m.Keys {
			if what := check(m, &before.Keys[i], &after.Keys[i], i, s); what != "" {
				return fmt.Sprintf("key %d: %s", i+1, what)
			}
		}
		return ""
	}
}

func oneEffect(_ *Model, _, after *Key, _ int, _ Step) string {
	if after.Provider.Effects > 1 {
		return "the provider holds two effects of one key"
	}
	return ""
}

func oneIntent(m *Model, _, after *World, _ Step) string {
	effects, held := 0, 0
	for i := range m.Keys {
		k := &after.Keys[i]
		effects += int(k.Provider.Effects)
		if s := m.state(k.Row); k.Row.Exists && s != ledger.Failed {
			held++
		}
	}
	switch {
	case m.Keys > 1 && effects > 1:
		return "two effects under one intent"
	case m.Keys > 1 && held > 1:
		return "two operations hold one intent"
	}
	return ""
}

func ledgerFirst(_ *Model, _, after *Key, _ int, _ Step) string {
	for a := range slots {
		if after.Requests[a].UnderWay && after.Started&(1<<a) == 0 {
			return fmt.Sprintf("attempt %d was sent, and no committed row says that it runs", a+1)
		}
	}
	if after.Provider.Effects > 0 && after.Started == 0 {
		return "an effect of an operation that was never started"
	}
	return ""
}

func proofs(m *Model, _, after *Key, _ int, _ Step) string {
	r := after.Row
	state, effect, made := m.state(r), m.effect(r), int(after.Provider.Effects)
	switch {
	case !r.Exists, after.Loss == Lost, r.Old:
		return "" // it knows nothing of the time that was lost
	case state == ledger.Failed && made > 0:
		return "it is called failed, and the provider holds its effect"
	case state == ledger.Pending && made > 0:
		return "it is to be sent again, and the provider holds its effect"
	case effect == ledger.EffectNotApplied && made > 0:
		return "it is called not applied, and the provider holds its effect"
	case effect == ledger.EffectNone && after.Started != 0:
		return "it is called not sent, and was"
	case state == ledger.Succeeded && (r.Receipt == 0 || made == 0):
		return "it is called succeeded without a receipt of an effect"
	case state == ledger.Succeeded && r.Receipt != m.names.number(reference(made)):
		return "its receipt is of no effect that there is"
	case state == ledger.Unknown && !r.InDoubt:
		return "it is unknown and not in doubt"
	case (state == ledger.Unknown || state == ledger.Running) && effect != ledger.EffectUnknown && effect != ledger.EffectApplied:
		return fmt.Sprintf("it is %s with effect %s", state, effect)
	}
	return ""
}

func notBlindly(m *Model, before, after *Key, key int, s Step) string {
	from, to := m.state(before.Row), m.state(after.Row)
	if from == to && before.Row.Attempt == after.Row.Attempt || s.kind() == Loses {
		return ""
	}
	worker := s.byWorker() && int(s.Key) == key
	restored := m.names.text(before.Row.Reason) == ledger.ReasonRestored
	switch {
	case from == ledger.New && to != ledger.Unknown && before.Loss == Recovering:
		return fmt.Sprintf("its key may be one that was forgotten, and it is %s", to)
	case from == ledger.Unknown && restored && to != ledger.Succeeded && to != ledger.NeedsReview:
		return fmt.Sprintf("nobody found it since the restore, and no person was asked, and it is %s", to)
	case s.kind() == LeaseEnds && (to != ledger.Unknown || !after.Row.InDoubt):
		return fmt.Sprintf("the lease ran out, and the operation is %s", to)
	case from == ledger.Running && (to == ledger.Pending || to == ledger.Failed) && !(worker && s.Who+1 == before.Row.Attempt):
		return fmt.Sprintf("a running operation became %s, and not by the word of its worker", to)
	case from == ledger.Unknown && to == ledger.Running && !(m.Provider.Keys && before.Row.Horizon != never && before.Row.Horizon > 1 && before.Row.Epoch == after.Row.Epoch):
		return "it was sent again without a key that the provider still knows"
	case from == ledger.Unknown && to == ledger.Pending && !m.Provider.LookUp:
		return "it is sent again, and nobody looked whether it was made"
	}
	return ""
}

func sameArguments(_ *Model, before, after *Key, _ int, s Step) string {
	switch {
	case s.kind() == Asks && before.Row.Exists && *before != *after:
		return "a request under a taken key changed something"
	case s.kind() == Loses:
		return ""
	case before.Row.Exists && after.Row.Exists && before.Row.Args != after.Row.Args && s.kind() != Corrects:
		return "arguments changed, and nobody corrected them"
	case s.kind() == Asks && before.Buried && after.Row.Exists:
		return "a key that is refused for ever was taken again"
	}
	return ""
}

func oneReceipt(m *Model, before, after *Key, _ int, s Step) string {
	r := after.Row
	switch {
	case s.kind() == Loses || after.Loss == Lost:
		return ""
	case before.Told != 0 && after.Told != before.Told:
		return "callers get another receipt than before"
	case after.Told != 0 && !after.Buried && (m.state(r) != ledger.Succeeded || r.Receipt != after.Told):
		return "the receipt that callers got is not that of the operation any more"
	case before.Told != 0 && after.Buried && !before.Buried && s.kind() != Forgets:
		return "a receipt is gone before its window"
	}
	return ""
}

func fenced(m *Model, before, after *Key, key int, s Step) string {
	if int(s.Key) != key {
		return ""
	}
	from, to := m.state(before.Row), m.state(after.Row)
	switch {
	case s.kind() == Acts || s.kind() == Looks:
		if before.Repairs[s.Who].Knows.Lease != before.Row.Lease && before.Row != after.Row {
			return "a reconciler whose lease is over changed the row"
		}
	case s.byWorker() && from != to:
		mine := before.Row.Attempt == s.Who+1
		switch {
		case mine && from == ledger.Running:
		case mine && from == ledger.Unknown && to == ledger.Succeeded:
		case (from == ledger.Failed || from == ledger.Pending) && to == ledger.NeedsReview:
		default:
			return fmt.Sprintf("the worker of attempt %d moved the operation from %s to %s", s.Who+1, from, to)
		}
	case s.byWorker() && before.Row.Reference != 0 && after.Row.Reference != before.Row.Reference:
		return "a late worker overwrote the provider's reference"
	}
	return ""
}

func unresolvedStays(m *Model, before, after *Key, _ int, s Step) string {
	from := m.state(before.Row)
	if !before.Row.Exists || from.Final() || s.kind() == Loses {
		return ""
	}
	to := m.state(after.Row)
	switch {
	case !after.Row.Exists:
		return fmt.Sprintf("a %s row is gone", from)
	case s.kind() == Passes && from != to:
		return "time moved a row"
	case s.kind() == Lapses && from != to && before.Started != 0:
		return "a question about something that was sent lapsed"
	}
	return ""
}

func audited(m *Model, before, after *Key, key int, s Step) string {
	if int(s.Key) != key || s.kind() == Forgets || s.kind() == Loses {
		return ""
	}
	state := m.state(before.Row)
	for _, event := range m.moved {
		to, ok := ledger.Next(state, event)
		if !ok {
			return fmt.Sprintf("the record has %s of a %s operation", event, state)
		}
		state = to
	}
	if now := m.state(after.Row); now != state {
		return fmt.Sprintf("the record leads to %s, and the operation is %s", state, now)
	}
	if bits.OnesCount8(after.Started) < int(after.Row.Attempt) {
		return "an attempt is counted that no event began"
	}
	return ""
}

// byWorker reports whether a step is the record of what a worker holds.
func (s Step) byWorker() bool {
	switch s.kind() {
	case Settles, SettlesUnheard, SettlesHalf:
		return true
	default:
		return false
	}
}
