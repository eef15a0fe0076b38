package model

import (
	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/ledger"
)

// asks is a request for the action. Under a key that is taken it changes nothing.
func (m *Model) asks(w *World, key int, args uint8) {
	k := &w.Keys[key]
	if k.Row.Exists || k.Buried || args != 0 { // the first is called 0, whoever it is
		return
	}
	for i := range m.Keys {
		if other := w.Keys[i]; i != key && (other.Row.Exists && m.state(other.Row) != ledger.Failed || other.Buried && other.Told != 0) {
			return // its intent is held
		}
	}
	m.open(w, key, args)
}

func (m *Model) cancels(k *Key, key int) bool {
	waits := m.state(k.Row) == ledger.NeedsReview && m.names.text(k.Row.Review) == string(ledger.ApprovalRequired)
	if m.state(k.Row) != ledger.Pending && !waits {
		return false
	}
	op := m.operation(key, k.Row)
	c := ledger.Change{Operation: op, Event: ledger.Cancel, Effect: op.Effect, Failure: &ledger.Failure{}}
	if waits {
		c.Decision = &ledger.ReviewClosing{ReviewID: op.Review.ID, Decision: ledger.Cancelled}
	}
	return m.apply(k, c) == nil
}

// work is a step of the worker of an attempt.
func (m *Model) work(w *World, s Step) bool {
	k := &w.Keys[s.Key]
	worker, req := &k.Workers[s.Who], &k.Requests[s.Who]
	holds := func(kind actions.Kind) bool {
		worker.Phase, worker.Outcome, worker.Reference = Holding, uint8(kind), 0
		return true
	}
	switch s.kind() {
	case Sends:
		if worker.Phase != Claimed || worker.Aged && !m.Provider.LateBytes {
			return false
		}
		worker.Phase = Waiting
		*req = Request{UnderWay: true, Epoch: worker.Knows.Epoch, Left: uint8(m.Provider.Flight)}
		return true
	case IsTooLate:
		return worker.Phase == Claimed && worker.Aged && holds(actions.NotApplied)
	case IsRefused:
		return worker.Phase == Claimed && !worker.Aged && w.fault() && holds(actions.NotApplied)
	case TimesOut:
		// Where its request is still under way, that is the fault.
		if worker.Phase != Waiting || req.UnderWay && !w.fault() {
			return false
		}
		return holds(actions.Ambiguous)
	case Settles:
		return worker.Phase == Holding && m.settles(k, s)
	case SettlesUnheard:
		if worker.Phase != Holding || !w.fault() {
			return false
		}
		kept := *worker
		done := m.settles(k, s)
		*worker = kept
		return done
	case SettlesHalf:
		if worker.Phase != Holding || !w.fault() {
			return false
		}
		j := m.judge(int(s.Key), int(s.Who)+1, *worker)
		if j.Then == nil {
			return false
		}
		*worker = Worker{}
		return m.apply(k, *j.Change) == nil
	case ReadsAgain:
		if worker.Phase != Overtaken {
			return false
		}
		if !k.Row.Exists || dispatch.Recorded(m.operation(int(s.Key), k.Row), int(s.Who)+1, m.outcome(*worker)) {
			*worker = Worker{}
			return true
		}
		worker.Phase, worker.Knows = Holding, plain(k.Row)
		return true
	default: // Dies
		if worker.Phase == Gone || !w.fault() {
			return false
		}
		*worker = Worker{}
		return true
	}
}

// settles records what a worker holds, once, as dispatch's settle does in each of
// its rounds.
func (m *Model) settles(k *Key, s Step) bool {
	worker := &k.Workers[s.Who]
	j := m.judge(int(s.Key), int(s.Who)+1, *worker)
	var err error
	switch {
	case j.Evidence != nil:
		err = m.addEvidence(k, *j.Evidence)
	case j.Change != nil:
		if err = m.apply(k, *j.Change); err == nil && j.Then != nil {
			then := *j.Then
			then.Operation = m.operation(int(s.Key), k.Row)
			then.Effect, then.Reason = then.Operation.Effect, then.Operation.Reason
			err = m.apply(k, then)
		}
	}
	if err != nil {
		worker.Phase = Overtaken
		return true
	}
	*worker = Worker{}
	return true
}

// repair is a step of a reconciler.
func (m *Model) repair(w *World, s Step) (bool, error) {
	key, who := int(s.Key), int(s.Who)
	k := &w.Keys[key]
	r := &k.Repairs[who]
	switch s.kind() {
	case Takes:
		for i := range who { // which of them it is makes no difference
			if k.Repairs[i].Phase == Gone {
				return false, nil
			}
		}
		return r.Phase == Gone && m.lease(k, who), nil
	case Looks, LooksInVain:
		if r.Phase != Leased {
			return false, nil
		}
		m.before = *w
		known := r.Knows
		*r = Repair{}
		looked, err := m.run(w, key, m.operation(key, known), FoundNothing, 0)
		vain := s.kind() == LooksInVain
		if !looked || err != nil {
			return !vain, err
		}
		*w = m.before // it has asked, and is about to act on the answer
		if vain && !w.fault() {
			return false, nil
		}
		r.Phase = HasFinding
		if !vain {
			r.Finding, r.Reference = m.find(k.Provider)
		}
		return true, nil
	case Acts:
		if r.Phase != HasFinding {
			return false, nil
		}
		known := *r
		*r = Repair{}
		_, err := m.run(w, key, m.operation(key, known.Knows), known.Finding, known.Reference)
		return true, err
	default: // DiesRepairing
		if r.Phase == Gone || !w.fault() {
			return false, nil
		}
		*r = Repair{}
		return true, nil
	}
}

// decides is a reviewer's answer: server/reviews.go. Whoever answers has looked:
// nothing is called not applied that is made, or can still be.
func (m *Model) decides(k *Key, key int, d ledger.Decision) bool {
	r := &k.Row
	if !m.Reviewer || m.state(*r) != ledger.NeedsReview || r.Review == 0 {
		return false
	}
	op := m.operation(key, *r)
	c := ledger.Change{Operation: op, Effect: op.Effect, ResetResolves: true, Decision: &ledger.ReviewClosing{ReviewID: op.Review.ID, Decision: d}}
	approval := d == ledger.Approved || d == ledger.Rejected
	if approval != (op.Review.Reason == ledger.ApprovalRequired) {
		return false
	}
	switch d {
	case ledger.Approved:
		if r.ReviewEnds == 0 {
			return false
		}
		c.Event = ledger.Approve
	case ledger.Rejected:
		c.Event, c.Failure = ledger.Reject, &ledger.Failure{}
	case ledger.Confirmed:
		if k.Provider.Effects == 0 {
			return false
		}
		c.Event, c.Effect = ledger.Confirm, ledger.EffectApplied
		c.ProviderReference, c.Receipt = reference(int(k.Provider.Effects)), []byte(`{}`)
	default:
		if !m.Provider.WrongReviewer && k.canHold() {
			return false
		}
		c.Event, c.Effect, c.Failure = ledger.Refuse, ledger.EffectNotApplied, &ledger.Failure{}
		if op.Attempt > 0 {
			c.Watch = m.spec.Contract.LateLanding
		}
		if d == ledger.NotAppliedRetry {
			if !r.Sealed || r.Attempt == slots {
				return false
			}
			c.Event, c.Failure, c.BumpEpoch = ledger.Release, nil, m.spec.Contract.Keys.StoresFailures
		}
	}
	return m.apply(k, c) == nil
}

// canHold reports whether the provider holds an effect, or may come to.
func (k *Key) canHold() bool {
	if k.Provider.Effects > 0 || k.Provider.Job == JobOpen {
		return true
	}
	for a := range slots {
		if k.Requests[a].UnderWay || k.Workers[a].Phase == Claimed {
			return true
		}
	}
	return false
}
