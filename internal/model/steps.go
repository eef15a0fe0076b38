package model

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/ledger"
)

// Kind is what happens in a step.
type Kind uint8

// The kinds of steps.
const (
	Asks           Kind = iota // a caller requests the action; Arg: with which arguments
	Corrects                   // a caller corrects what failed
	Cancels                    // a caller withdraws
	Sends                      // a worker sends
	IsTooLate                  // a worker finds that it must not send any more
	IsRefused                  // nobody is there to connect to
	TimesOut                   // a worker stops waiting for its answer
	Lands                      // a request reaches the provider; Arg: the Answer
	Settles                    // a worker records its outcome
	SettlesUnheard             // it does, and does not hear that it did
	SettlesHalf                // it does, and dies before the second half
	ReadsAgain                 // a worker that was fenced off reads the row
	Dies                       // a worker's process dies
	LeaseEnds                  // the lease of an attempt ends
	Retries                    // the due attempt of a pending operation is claimed
	Takes                      // a reconciler leases a doubt; Arg: which one
	Looks                      // it asks the provider, if that is its plan, or acts
	LooksInVain                // it asks, and gets nothing out of the answer
	Acts                       // it acts on the answer
	DiesRepairing              // a reconciler's process dies
	Watches                    // a late landing is looked for
	Lapses                     // an approval lapses
	Decides                    // a reviewer answers; Arg: the decision
	Finishes                   // the provider finishes what it took up
	GivesUp                    // the provider ends it without an effect
	Says                       // the provider's event is weighed
	Forgets                    // a finished operation is swept
	Passes                     // a tick passes
)

// Step is one thing that happens: to which key, by which attempt or reconciler.
type Step struct{ Kind, Key, Who, Arg uint8 }

// kind is the Kind of a step.
func (s Step) kind() Kind { return Kind(s.Kind) }

// decisions are a reviewer's, in the order of Step.Arg.
var decisions = [...]ledger.Decision{ledger.Approved, ledger.Rejected, ledger.Confirmed, ledger.NotAppliedRetry, ledger.NotAppliedClose}

// Steps are all that can be tried in any world of the scenario, what is fair
// before what is a fault, and time last of the fair ones.
func (m *Model) Steps() []Step {
	var steps []Step
	each := func(kind Kind, who, args int) {
		for key := range m.Keys {
			for w := range max(who, 1) {
				for arg := range max(args, 1) {
					steps = append(steps, Step{uint8(kind), uint8(key), uint8(w), uint8(arg)})
				}
			}
		}
	}
	each(Sends, slots, 0)
	each(IsTooLate, slots, 0)
	each(Settles, slots, 0)
	each(ReadsAgain, slots, 0)
	each(Acts, reconcilers, 0)
	each(Looks, reconcilers, 0)
	each(Says, 0, 0)
	each(Lands, slots, int(AnswersLimited)+1)
	each(Finishes, 0, 0)
	each(LeaseEnds, 0, 0)
	each(Takes, reconcilers, 0)
	each(Retries, 0, 0)
	each(Watches, 0, 0)
	each(Lapses, 0, 0)
	each(TimesOut, slots, 0)
	steps = append(steps, Step{Kind: uint8(Passes)})
	each(Forgets, 0, 0)
	each(GivesUp, 0, 0)
	each(Asks, 0, 2)
	each(Corrects, 0, 0)
	each(Cancels, 0, 0)
	each(Decides, 0, len(decisions))
	each(IsRefused, slots, 0)
	each(SettlesUnheard, slots, 0)
	each(SettlesHalf, slots, 0)
	each(Dies, slots, 0)
	each(LooksInVain, reconcilers, 0)
	each(DiesRepairing, reconcilers, 0)
	return steps
}

// fair reports whether a step is taken when nothing goes wrong any more: what is
// due is done, and nobody asks for anything new. (A request that is given up while
// it is under way is a fault, and needs one.)
func (s Step) fair() bool {
	switch s.kind() {
	case Sends, IsTooLate, Settles, ReadsAgain, Acts, Looks, Says, Finishes, LeaseEnds, Takes, Retries, Lapses, TimesOut, Passes:
		return true
	case Lands:
		return Answer(s.Arg) == AnswersMade
	default:
		return false
	}
}

// errBroken: a real function failed where it cannot.
var errBroken = errors.New("model: the reconciler failed")

// Do is the world after a step, or false where the step cannot happen. It is the
// model's own until the next call. An error says that code under test did what it
// must never do.
func (m *Model) Do(w *World, s Step) (after *World, happens bool, err error) {
	m.moved, m.refused = m.moved[:0], ""
	m.after = *w
	ok, err := m.do(&m.after, s)
	switch {
	case errors.Is(err, errFull):
		return nil, false, nil
	case err != nil:
		return &m.after, true, fmt.Errorf("%w: %w", errBroken, err)
	case m.refused != "":
		return &m.after, true, fmt.Errorf("%w: it asks the ledger for %s", errBroken, m.refused)
	}
	return &m.after, ok, nil
}

func (m *Model) do(w *World, s Step) (bool, error) {
	key, who := int(s.Key), int(s.Who)
	k := &w.Keys[key]
	switch s.kind() {
	case Asks:
		return m.asks(w, key, s.Arg), nil
	case Corrects:
		return m.Corrections && m.correct(k), nil
	case Cancels:
		return m.cancels(k, key), nil
	case Sends, IsTooLate, IsRefused, TimesOut, Settles, SettlesUnheard, SettlesHalf, ReadsAgain, Dies:
		return m.work(w, s), nil
	case Lands:
		return m.land(w, key, who, Answer(s.Arg)), nil
	case LeaseEnds:
		return m.expire(k), nil
	case Retries:
		if m.state(k.Row) != ledger.Pending || k.Row.Next != 0 {
			return false, nil
		}
		_, err := m.run(w, key, m.operation(key, k.Row), FoundNothing, 0)
		return true, err
	case Takes, Looks, LooksInVain, Acts, DiesRepairing:
		return m.repair(w, s)
	case Watches:
		if !k.Row.Exists || !m.state(k.Row).Final() || k.Row.WatchEnds == never {
			return false, nil
		}
		found, ref := m.find(k.Provider)
		_, err := m.run(w, key, m.operation(key, k.Row), found, ref)
		return true, err
	case Lapses:
		if m.state(k.Row) != ledger.NeedsReview || k.Row.ReviewEnds != 0 {
			return false, nil
		}
		_, err := m.run(w, key, m.operation(key, k.Row), FoundNothing, 0)
		return true, err
	case Decides:
		return m.decides(k, key, decisions[s.Arg]), nil
	case Finishes:
		return m.finish(k, true), nil
	case GivesUp:
		return k.Provider.Job == JobOpen && w.fault() && m.finish(k, false), nil
	case Says:
		return m.tell(k, key), nil
	case Forgets:
		return m.sweep(k), nil
	case Passes:
		m.pass(w)
		return true, nil
	default:
		return false, nil
	}
}

// asks is a request for the action. Under a key that is taken it changes nothing.
func (m *Model) asks(w *World, key int, args uint8) bool {
	k := &w.Keys[key]
	if k.Row.Exists || k.Buried || args != 0 { // the first is called 0, whoever it is
		return true
	}
	for i := range m.Keys {
		if other := w.Keys[i]; i != key && (other.Row.Exists && m.state(other.Row) != ledger.Failed || other.Buried && other.Told != 0) {
			return true // its intent is held
		}
	}
	m.open(w, key, args)
	return true
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
