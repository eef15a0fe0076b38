package postgres_test

import (
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
)

// rowModel says what a row must be after whatever is asked of the store, with
// whatever snapshot of it. It is the statements' other half: written from what
// ledger/STATES.md and docs/laws.md want of them, not from what they say. Time is in minutes, goes in
// steps of ten, and is each row's own.
type rowModel struct {
	now int

	id                  string
	state               ledger.State
	event               ledger.Event
	effect              ledger.Effect
	reason              string
	inDoubt             bool
	attempt, epoch      int
	lease               int
	resolves, negatives int
	reference           string
	receipt             bool
	args                ledger.Hash
	request             bool // its request hash is frozen
	sealed              bool // its arguments are stored
	revision            int64
	events              int    // in the audit record
	outcomes            []bool // by attempt: whether it ended
	review              string // the open one

	leaseEnds, next, horizon int // minutes; never
}

const never = 1 << 30

// Times of the model in minutes. What is due in ten is due after one step.
const (
	leaseMinutes   = 10
	horizonMinutes = 30
)

// legal says whether the state machine has a move, by the caller's snapshot.
func (m *rowModel) legal(from ledger.State, event ledger.Event) error {
	if _, ok := ledger.Next(from, event); !ok {
		return ledger.ErrIllegalMove
	}
	return nil
}

// move is what every move does to a row.
func (m *rowModel) move(event ledger.Event) {
	m.state, _ = ledger.Next(m.state, event)
	m.event = event
	m.revision++
	m.events++
}

// opened is a new row.
func opened(o ledger.Opening) *rowModel {
	m := &rowModel{
		id: o.Operation.ID, state: ledger.New, effect: ledger.EffectNone, args: o.Operation.ArgsHash,
		request: o.Operation.RequestHash != nil, sealed: true, leaseEnds: never, next: never, horizon: never,
	}
	m.move(o.Event)
	switch m.state {
	case ledger.Running:
		m.began()
		m.horizon = horizonMinutes
	case ledger.Pending:
		m.next = 0
	default:
		m.review = o.Review.ID
	}
	return m
}

func (m *rowModel) began() {
	m.attempt++
	m.outcomes = append(m.outcomes, false)
	m.effect, m.reason, m.request = ledger.EffectUnknown, "", true
	m.leaseEnds, m.next = m.now+leaseMinutes, never
	if m.horizon == never {
		m.horizon = m.now + horizonMinutes
	}
}

// is reports whether the row is as a snapshot has it, as far as every write wants.
func (m *rowModel) is(op ledger.Operation) bool {
	return m.state == op.State && m.attempt == op.Attempt && m.epoch == op.Epoch
}

// restored reports whether the row is in a doubt that a restore left.
func (m *rowModel) restored() bool {
	return m.state == ledger.Unknown && m.reason == ledger.ReasonRestored
}

// start is another attempt.
func (m *rowModel) start(c ledger.Claiming) error {
	op := c.Operation
	switch {
	case m.legal(op.State, c.Event) != nil:
		return ledger.ErrIllegalMove
	case !m.is(op), m.request && c.RequestHash != ledgertest.Hash("request"):
		return ledger.ErrFenced
	case c.Event == ledger.Claim && m.next > m.now:
		return ledger.ErrFenced
	case c.Event == ledger.Replay && (m.lease != op.Lease || m.leaseEnds == never || m.leaseEnds <= m.now):
		return ledger.ErrFenced
	case c.Event == ledger.Replay && (m.horizon == never || m.horizon-m.now <= leaseMinutes):
		return ledger.ErrFenced // its answer could come when the key is forgotten
	case m.restored():
		return ledger.ErrIllegalMove
	}
	m.move(c.Event)
	m.began()
	return nil
}

// apply is a guarded move.
func (m *rowModel) apply(c ledger.Change) error {
	op := c.Operation
	if err := m.legal(op.State, c.Event); err != nil {
		return err
	}
	to, _ := ledger.Next(op.State, c.Event)
	closes := to == ledger.Pending || to == ledger.Failed
	asked := c.Decision != nil && c.Decision.ReviewID != ""
	switch {
	case !m.is(op), c.Leased && m.lease != op.Lease:
		return ledger.ErrFenced
	case m.state != ledger.NeedsReview && c.ProviderReference != "" && m.reference != "" && m.reference != c.ProviderReference:
		return ledger.ErrFenced // two receipts
	case closes && (m.inDoubt != op.InDoubt || m.reference != op.ProviderReference):
		return ledger.ErrFenced // a proof that does not know of the doubt
	case asked && m.review != c.Decision.ReviewID:
		return ledger.ErrFenced // decided, by somebody else
	case c.Event == ledger.Approve && m.revision != op.Revision:
		return ledger.ErrFenced
	case m.state == ledger.Running && m.inDoubt && closes:
		return ledger.ErrIllegalMove // by the trigger: an attempt knows nothing of those before it
	case (to == ledger.Pending || to == ledger.Unknown) && !m.sealed:
		return ledger.ErrIllegalMove // nothing could be sent, or looked for
	case c.BumpEpoch && c.Event != ledger.Defer && c.Event != ledger.Release:
		return ledger.ErrIllegalMove // without proof
	case m.restored() && c.Event != ledger.Confirm && c.Event != ledger.Escalate:
		return ledger.ErrIllegalMove // by the trigger: a find or a person ends it
	}
	if m.attempt > 0 && c.AttemptOutcome != "" {
		m.outcomes[m.attempt-1] = true
	}
	m.move(c.Event)
	m.effect, m.reason = c.Effect, c.Reason
	m.inDoubt = c.InDoubt || to == ledger.Unknown
	switch {
	case c.Event == ledger.Release:
		m.reference = ""
	case c.ProviderReference != "":
		m.reference = c.ProviderReference
	}
	m.receipt = to == ledger.Succeeded
	if m.receipt && m.attempt == 1 {
		m.horizon = never
	}
	if c.BumpEpoch {
		m.epoch, m.horizon, m.request = m.epoch+1, never, false
	}
	if to != ledger.Unknown {
		m.resolves = 0
	}
	m.negatives = 0
	m.leaseEnds, m.next = never, never
	if to == ledger.Pending || to == ledger.Unknown {
		m.next = m.now + int(c.Delay.Minutes())
	}
	if to.Final() {
		m.sealed = false
	}
	m.review = ""
	if to == ledger.NeedsReview {
		m.review = c.Review.ID
	}
	return nil
}

// learn is evidence.
func (m *rowModel) learn(e ledger.Evidence) error {
	if m.state != e.Operation.State || m.attempt != e.Operation.Attempt {
		return ledger.ErrFenced
	}
	if m.reference == "" {
		m.reference = e.ProviderReference
	}
	if e.InDoubt && (m.state == ledger.Running || m.state == ledger.Unknown || m.state == ledger.NeedsReview) {
		m.inDoubt = true
	}
	m.revision++
	m.events++
	return nil
}

// correct is other arguments under its key.
func (m *rowModel) correct(op ledger.Operation, o ledger.Opening) error {
	switch {
	case m.legal(op.State, ledger.Correct) != nil:
		return ledger.ErrIllegalMove
	case m.state != ledger.Failed, m.effect != ledger.EffectNotApplied, m.attempt != op.Attempt, m.args != op.ArgsHash:
		return ledger.ErrFenced
	}
	m.move(ledger.Correct)
	m.reason, m.args, m.request, m.sealed = "", o.Operation.ArgsHash, false, true
	m.epoch, m.horizon, m.reference, m.next = m.epoch+1, never, "", m.now
	return nil
}

// overdue is the end of a lease: doubt, whatever was sent.
func (m *rowModel) overdue() bool {
	if m.state != ledger.Running || m.leaseEnds > m.now {
		return false
	}
	m.outcomes[m.attempt-1] = true
	m.move(ledger.Doubt)
	m.effect, m.reason, m.inDoubt = ledger.EffectUnknown, "lease_expired", true
	m.resolves, m.negatives, m.leaseEnds, m.next = 0, 0, never, m.now
	return true
}

// leased is a reconciler's turn.
func (m *rowModel) leased() bool {
	if m.state != ledger.Unknown || m.next > m.now || m.leaseEnds != never && m.leaseEnds > m.now {
		return false
	}
	m.lease++
	m.resolves++
	m.revision++
	m.leaseEnds = m.now + leaseMinutes
	return true
}

// putOff gives a row back.
func (m *rowModel) putOff(p ledger.Postponement) error {
	op := p.Operation
	if m.state != op.State || m.state != ledger.Pending && m.state != ledger.Unknown || m.attempt != op.Attempt || m.lease != op.Lease {
		return ledger.ErrFenced
	}
	m.reason, m.negatives = p.Reason, p.NegativeReads
	if p.Untried && m.resolves > 0 {
		m.resolves--
	}
	m.leaseEnds, m.next = never, m.now+int(p.Delay.Minutes())
	m.revision++
	return nil
}
