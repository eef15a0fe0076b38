package model

import (
	"fmt"

	"github.com/onceward/onceward/ledger"
)

// withoutLedger reports whether a step happens while the ledger is away: what the
// provider and the clock do.
func (s Step) withoutLedger() bool {
	switch s.kind() {
	case Lands, Begins, Passes:
		return true
	default:
		return false
	}
}

// disaster is a step of one: a backup, the loss of what came after it, and the
// recovery.
func (m *Model) disaster(k *Key, kind Kind) bool {
	switch kind {
	case BacksUp:
		if !m.Disaster || k.Loss != NoLoss || k.Buried || !k.Row.Exists || k.Backup.Exists {
			return false
		}
		k.Backup = k.Row
	case Loses:
		if !m.Disaster || k.Loss != NoLoss {
			return false
		}
		m.lose(k)
	default: // Begins
		if k.Loss != Lost {
			return false
		}
		k.Loss = Unsaid
		if !m.Provider.NobodySays {
			k.Loss = Recovering
			m.doubt(k)
		}
	}
	return true
}

// lose brings the row back as it was. The processes are stopped; what they have sent is
// under way, and the provider has forgotten nothing. Where the operation was recorded
// after the backup the next one has another id, so that the provider knows neither its
// key nor finds by it what there is.
func (m *Model) lose(k *Key) {
	forgotten := k.Row.Exists && !k.Backup.Exists || k.Buried && !k.Backup.Exists
	k.Row, k.Backup, k.Loss, k.Buried = k.Backup, Row{}, Lost, false
	k.Workers, k.Repairs = [slots]Worker{}, [reconcilers]Repair{}
	// Callers may hold a receipt that the ledger has no more: what they get is that of
	// the only effect again.
	k.Told = 0
	if m.state(k.Row) == ledger.Succeeded {
		k.Told = k.Row.Receipt
	}
	if !forgotten {
		return
	}
	k.Provider.Strange, k.Provider.Keys = k.Provider.Effects, [epochs]StoredKey{}
	for a := range slots {
		k.Requests[a].Strange = k.Requests[a].UnderWay
	}
}

// doubt is what the beginning of a recovery does to a row: restore_doubt.sql.
func (m *Model) doubt(k *Key) {
	r := &k.Row
	state := m.state(*r)
	if !r.Exists {
		return
	}
	r.Old = state == ledger.Failed
	told := m.names.text(r.Review) == string(ledger.Contradicted)
	if state.Final() || !r.Sealed || told {
		return
	}
	if state != ledger.Unknown {
		to, ok := ledger.Next(state, ledger.Doubt)
		if !ok {
			m.refused = fmt.Sprintf("the doubt of a restore about a %s operation", state)
		}
		m.moved = append(m.moved, ledger.Doubt)
		r.State, r.Event = m.names.number(string(to)), m.names.number(string(ledger.Doubt))
	}
	if state == ledger.Running && r.Outcomes[r.Attempt-1] == 0 {
		r.Outcomes[r.Attempt-1] = m.names.number(ledger.ReasonRestored)
	}
	if m.effect(*r) != ledger.EffectApplied {
		r.Effect = m.names.number(string(ledger.EffectUnknown))
	}
	r.Reason, r.InDoubt = m.names.number(ledger.ReasonRestored), true
	r.Resolves, r.NegativeReads, r.DoubtAge = 0, 0, 0
	r.LeaseEnds, r.Next, r.Review, r.ReviewEnds = never, 0, 0, never
}
