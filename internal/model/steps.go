package model

import (
	"errors"
	"fmt"

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
	BacksUp                    // the ledger is backed up
	Loses                      // the ledger is lost, and comes back as it was at the backup
	Begins                     // somebody says so, and it is served again
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
	if m.Disaster {
		each(Begins, 0, 0)
		each(BacksUp, 0, 0)
		each(Loses, 0, 0)
	}
	each(Sends, slots, 0)
	each(IsTooLate, slots, 0)
	each(Settles, slots, 0)
	each(ReadsAgain, slots, 0)
	each(Acts, reconcilers, 0)
	each(Looks, reconcilers, 0)
	each(Says, 0, 0)
	each(Lands, slots, int(allAnswers))
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
	case Sends, IsTooLate, Settles, ReadsAgain, Acts, Looks, Says, Finishes, LeaseEnds, Takes, Retries, Lapses, TimesOut, Begins, Passes:
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
	if k.Loss == Lost && !s.withoutLedger() {
		return false, nil
	}
	switch s.kind() {
	case BacksUp, Loses, Begins:
		return m.disaster(k, s.kind()), nil
	case Asks:
		m.asks(w, key, s.Arg)
		return true, nil
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
