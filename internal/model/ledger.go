package model

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/ledger"
)

// The ledger of the model: what the statements of ledger/postgres guard and set,
// as far as a row of the model has it.

// errFull: the model has no room for another attempt. The step that wanted it is
// not looked at.
var errFull = errors.New("model: no room for another attempt")

// open records a new operation: open.sql. Fences are take_holds' part.
func (m *Model) open(w *World, key int, args uint8) {
	k := &w.Keys[key]
	k.Row = Row{
		Exists: true, Sealed: true, Args: args, Effect: m.names.number(string(ledger.EffectNone)),
		Horizon: never, LeaseEnds: never, Next: never, WindowEnds: never, WatchEnds: never, ReviewEnds: never,
	}
	event := ledger.Claim
	switch {
	case k.Loss == Recovering:
		event = ledger.Doubt
	case m.Approval:
		event = ledger.Escalate
		k.Row.Review, k.Row.ReviewEnds = m.names.number(string(ledger.ApprovalRequired)), 2
	}
	to, ok := ledger.Next(ledger.New, event)
	if !ok {
		m.refused = fmt.Sprintf("a new operation by %s", event)
	}
	k.Row.State, k.Row.Event = m.names.number(string(to)), m.names.number(string(event))
	m.moved = append(m.moved, event)
	switch to {
	case ledger.Running:
		k.Row.Effect = m.names.number(string(ledger.EffectUnknown))
		m.begin(k)
	case ledger.Unknown:
		k.Row.Effect, k.Row.Reason = m.names.number(string(ledger.EffectUnknown)), m.names.number(ledger.ReasonRestored)
		k.Row.InDoubt, k.Row.Next = true, 0
	default: // asks a person
	}
}

// begin is what every claim does: the attempt is counted, leased and somebody's.
func (m *Model) begin(k *Key) {
	r := &k.Row
	if h := m.spec.Contract.Keys.Horizon(); h > 0 && r.Horizon == never {
		r.Horizon = ticks(h)
	}
	r.SentInside = r.Horizon != never && r.Horizon > 0
	r.Attempt++
	r.LeaseEnds, r.Next = ticks(m.leaseOf(m.spec)), never
	k.Started |= 1 << (r.Attempt - 1)
	k.Workers[r.Attempt-1] = Worker{Phase: Claimed, Knows: plain(*r)}
}

// start commits another attempt: start.sql.
func (m *Model) start(k *Key, c ledger.Operation, event ledger.Event) error {
	r := &k.Row
	to, ok := ledger.Next(c.State, event)
	switch {
	case !ok:
		m.refused = fmt.Sprintf("%s of a %s operation", event, c.State)
		return ledger.ErrIllegalMove
	case !m.is(*r, c):
		return ledger.ErrFenced
	case event == ledger.Claim && r.Next != 0:
		return ledger.ErrFenced
	case event == ledger.Replay && (int(r.Lease) != c.Lease || r.LeaseEnds == 0 || r.LeaseEnds == never ||
		r.Horizon == never || r.Horizon <= ticks(m.leaseOf(m.spec))):
		return ledger.ErrFenced
	case r.Attempt == slots:
		return errFull
	}
	r.State, r.Event = m.names.number(string(to)), m.names.number(string(event))
	r.Effect, r.Reason = m.names.number(string(ledger.EffectUnknown)), 0
	m.moved = append(m.moved, event)
	m.begin(k)
	return nil
}

// is reports whether a row is still as a caller knows it.
func (m *Model) is(r Row, c ledger.Operation) bool {
	return r.Exists && m.state(r) == c.State && int(r.Attempt) == c.Attempt && int(r.Epoch) == c.Epoch
}

// apply makes one guarded move: change.sql, and the trigger behind it.
func (m *Model) apply(k *Key, c ledger.Change) error {
	r, from := &k.Row, c.Operation.State
	to, ok := ledger.Next(from, c.Event)
	if !ok {
		m.refused = fmt.Sprintf("%s of a %s operation", c.Event, from)
		return ledger.ErrIllegalMove
	}
	ref := m.names.number(c.ProviderReference)
	closes := to == ledger.Pending || to == ledger.Failed
	switch {
	case !m.is(*r, c.Operation):
		return ledger.ErrFenced
	case c.Leased && int(r.Lease) != c.Operation.Lease:
		return ledger.ErrFenced
	case c.Event == ledger.Expire && from == ledger.NeedsReview && r.ReviewEnds != 0:
		return ledger.ErrFenced
	case from != ledger.NeedsReview && ref != 0 && r.Reference != 0 && r.Reference != ref:
		return ledger.ErrFenced
	case closes && (r.InDoubt != c.Operation.InDoubt || m.names.text(r.Reference) != c.Operation.ProviderReference):
		return ledger.ErrFenced
	case from == ledger.Running && r.InDoubt && closes:
		m.refused = "an attempt that clears the doubt of an earlier one"
		return ledger.ErrIllegalMove
	case c.BumpEpoch && c.Event != ledger.Defer && c.Event != ledger.Release:
		m.refused = "a new key without proof that nothing was applied"
		return ledger.ErrIllegalMove
	case to == ledger.NeedsReview && c.Review == nil, from == ledger.NeedsReview && c.Decision == nil:
		m.refused = "a review without a question or an answer"
		return ledger.ErrIllegalMove
	}
	m.moved = append(m.moved, c.Event)
	if outcome := &r.Outcomes[max(r.Attempt, 1)-1]; r.Attempt > 0 && *outcome == 0 {
		*outcome = m.names.number(c.AttemptOutcome)
	}
	r.State, r.Event = m.names.number(string(to)), m.names.number(string(c.Event))
	r.Effect, r.Reason = m.names.number(string(c.Effect)), m.names.number(c.Reason)
	r.InDoubt, r.Old = c.InDoubt || to == ledger.Unknown, false
	switch {
	case c.Event == ledger.Release:
		r.Reference = 0
	case ref != 0:
		r.Reference = ref
	}
	r.Receipt = 0
	if to == ledger.Succeeded {
		r.Receipt = r.Reference
		if k.Told == 0 {
			k.Told = r.Receipt
		}
		if r.Attempt == 1 {
			r.Horizon, r.SentInside = never, false
		}
	}
	if c.BumpEpoch {
		r.Epoch, r.Horizon, r.SentInside = r.Epoch+1, never, false
	}
	if to != ledger.Unknown || c.ResetResolves {
		r.Resolves = 0
	}
	r.NegativeReads = 0
	if c.Event == ledger.Doubt {
		r.DoubtAge = 0
	}
	r.LeaseEnds, r.Next, r.WindowEnds = never, never, never
	if to == ledger.Pending || to == ledger.Unknown {
		r.Next = ticks(c.Delay)
	}
	if c.Watch > 0 {
		r.WatchEnds = ticks(c.Watch)
	}
	if to.Final() {
		r.WindowEnds, r.Sealed = ticks(m.spec.Window), r.Sealed && r.WatchEnds != never
	}
	r.Review, r.ReviewEnds = 0, never
	if to == ledger.NeedsReview {
		r.Review = m.names.number(string(c.Review.Reason))
	}
	if !m.sound(*r) {
		m.refused = fmt.Sprintf("a %s row with effect %s, in doubt: %v, with arguments: %v", to, c.Effect, r.InDoubt, r.Sealed)
		return ledger.ErrIllegalMove
	}
	return nil
}

// sound reports whether the columns of a row fit together: operation_sound, which
// the database refuses rows by.
func (m *Model) sound(r Row) bool {
	nothing := m.effect(r) == ledger.EffectNone || m.effect(r) == ledger.EffectNotApplied
	switch m.state(r) {
	case ledger.Pending:
		return nothing && !r.InDoubt && r.Sealed
	case ledger.Running:
		return m.effect(r) == ledger.EffectUnknown && r.Sealed && r.Attempt > 0
	case ledger.Succeeded:
		return m.effect(r) == ledger.EffectApplied && !r.InDoubt
	case ledger.Unknown:
		return !nothing && r.InDoubt && r.Sealed
	case ledger.Failed:
		return nothing && !r.InDoubt
	default:
		return true
	}
}

// addEvidence records what moves nothing: evidence.sql.
func (m *Model) addEvidence(k *Key, e ledger.Evidence) error {
	r := &k.Row
	if !r.Exists || m.state(*r) != e.Operation.State || int(r.Attempt) != e.Operation.Attempt {
		return ledger.ErrFenced
	}
	r.Incident = r.Incident || e.Incident != ""
	if r.Reference == 0 {
		r.Reference = m.names.number(e.ProviderReference)
	}
	if s := m.state(*r); e.InDoubt && (s == ledger.Running || s == ledger.Unknown || s == ledger.NeedsReview) {
		r.InDoubt = true
	}
	return nil
}

// postpone gives a row back: postpone.sql.
func (m *Model) postpone(k *Key, p ledger.Postponement) error {
	r, op := &k.Row, p.Operation
	if s := m.state(*r); s != op.State || s != ledger.Pending && s != ledger.Unknown || int(r.Attempt) != op.Attempt || int(r.Lease) != op.Lease {
		return ledger.ErrFenced
	}
	r.Reason, r.NegativeReads = m.names.number(p.Reason), uint8(p.NegativeReads)
	if p.Untried && r.Resolves > 0 {
		r.Resolves--
	}
	if r.Reference == 0 {
		r.Reference = m.names.number(p.ProviderReference)
	}
	r.LeaseEnds, r.Next = never, ticks(p.Delay)
	return nil
}

// expire makes doubt of an attempt whose lease ran out: expire_leases.sql.
func (m *Model) expire(k *Key) bool {
	r := &k.Row
	if m.state(*r) != ledger.Running || r.LeaseEnds != 0 {
		return false
	}
	to, ok := ledger.Next(ledger.Running, ledger.Doubt)
	if !ok {
		m.refused = "a lease that runs out"
	}
	m.moved = append(m.moved, ledger.Doubt)
	r.State, r.Event = m.names.number(string(to)), m.names.number(string(ledger.Doubt))
	r.Effect, r.Reason = m.names.number(string(ledger.EffectUnknown)), m.names.number("lease_expired")
	r.InDoubt, r.Resolves, r.NegativeReads, r.DoubtAge = true, 0, 0, 0
	r.LeaseEnds, r.Next = never, 0
	if outcome := &r.Outcomes[r.Attempt-1]; *outcome == 0 {
		*outcome = m.names.number("lease_expired")
	}
	return true
}

// lease takes an unknown row for one reconciler: lease_unknown.sql. The number
// that it gets is the least that nobody else has: only whether it is another one
// matters, and so there are few worlds.
func (m *Model) lease(k *Key, who int) bool {
	r := &k.Row
	if m.state(*r) != ledger.Unknown || r.Next != 0 || r.LeaseEnds != never && r.LeaseEnds != 0 {
		return false
	}
	var taken [reconcilers + 2]bool
	taken[r.Lease] = true
	for i, other := range k.Repairs {
		if i != who && other.Phase != Gone {
			taken[other.Knows.Lease] = true
		}
	}
	for n := range taken {
		if !taken[n] {
			r.Lease = uint8(n)
			break
		}
	}
	r.Resolves++
	r.LeaseEnds = ticks(tick)
	k.Repairs[who] = Repair{Phase: Leased, Knows: *r}
	return true
}

// correct brings other arguments under the key: correct.sql.
func (m *Model) correct(k *Key) bool {
	r := &k.Row
	if m.state(*r) != ledger.Failed || m.effect(*r) != ledger.EffectNotApplied || r.Attempt == slots || r.Args != 0 || r.Old {
		return false
	}
	to, ok := ledger.Next(ledger.Failed, ledger.Correct)
	if !ok {
		m.refused = "a correction"
	}
	m.moved = append(m.moved, ledger.Correct)
	r.State, r.Event, r.Reason = m.names.number(string(to)), m.names.number(string(ledger.Correct)), 0
	r.Args, r.Sealed, r.Epoch, r.Horizon, r.SentInside = 1, true, r.Epoch+1, never, false
	r.Reference, r.Next, r.WindowEnds = 0, 0, never
	return true
}

// sweep removes a finished operation past its window, and leaves a tombstone:
// bury.sql and sweep.sql.
func (m *Model) sweep(k *Key) bool {
	r := &k.Row
	if !r.Exists || r.WindowEnds != 0 || r.WatchEnds != never {
		return false
	}
	k.Row, k.Buried = Row{}, true
	return true
}
