package model

import (
	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/ledger"
)

// Answer is how a provider takes a request that lands.
type Answer uint8

// The answers. All but the first and AnswersLater are faults.
const (
	AnswersMade     Answer = iota
	AnswersLater           // it takes it up
	AnswersLost            // it makes it, and no answer that says so comes back
	AnswersCut             // it makes it, and the answer has no receipt
	AnswersNothing         // it makes nothing, and says nothing that proves it
	AnswersNot             // it makes nothing, and says so
	AnswersRefused         // it makes nothing, says so, and always will
	AnswersLimited         // it makes nothing, since there are too many
	AnswersBusy            // it is still at work on the key, it says
	AnswersMismatch        // the key came with another body before, it says
	allAnswers
)

func (a Answer) fault() bool { return a != AnswersMade && a != AnswersLater }

// land makes a request reach the provider, and its answer whoever waits for it.
// It reports whether that can be.
func (m *Model) land(w *World, key, attempt int, a Answer) bool {
	k := &w.Keys[key]
	req, p := &k.Requests[attempt], &k.Provider
	if !req.UnderWay || a == AnswersLater && !m.Provider.Async || a.fault() && !w.fault() {
		return false
	}
	if a == AnswersLimited && attempt >= slots-2 { // it needs another attempt
		return false
	}
	epoch := req.Epoch
	if req.Strange {
		// Nobody waits for it. The provider knows its key, whatever it was: what makes one
		// effect of several requests is not looked at here.
		*req = Request{}
		if a != AnswersMade || p.Effects > 0 {
			return false
		}
		m.make(p)
		p.Strange = p.Effects
		return true
	}
	*req = Request{}
	kind, ref := m.take(p, epoch, a)
	if worker := &k.Workers[attempt]; worker.Phase == Waiting {
		worker.Phase, worker.Outcome, worker.Reference = Holding, uint8(kind), ref
	}
	return kind != unanswerable
}

const unanswerable = actions.Kind(-1)

// take is what the provider does with a request, and what its answer proves.
func (m *Model) take(p *Store, epoch uint8, a Answer) (kind actions.Kind, ref uint8) {
	if a == AnswersBusy || a == AnswersMismatch {
		kind = map[Answer]actions.Kind{AnswersBusy: actions.InProgress, AnswersMismatch: actions.KeyMismatch}[a]
		if !m.Provider.Keys {
			kind = unanswerable
		}
		return kind, 0
	}
	if known := p.Keys[epoch]; known.Kind != Unseen {
		switch {
		case a == AnswersLost:
			return actions.Ambiguous, 0
		case a != AnswersMade: // it replays what it has, or nothing comes back
			return unanswerable, 0
		case known.Kind == Failure:
			return actions.Kind(known.Reference), 0
		case known.Kind == Queued && p.Job != JobDone:
			return actions.Accepted, known.Reference
		default:
			return actions.Applied, known.Reference
		}
	}
	remember := func(what Stored, ref uint8) {
		if m.Provider.Keys {
			p.Keys[epoch] = StoredKey{Kind: what, Reference: ref, Left: uint8(m.Provider.Window)}
		}
	}
	switch a {
	case AnswersMade, AnswersLost, AnswersCut:
		ref = m.make(p)
		remember(Made, ref)
		return map[Answer]actions.Kind{AnswersMade: actions.Applied, AnswersLost: actions.Ambiguous, AnswersCut: actions.AppliedNoReceipt}[a],
			map[Answer]uint8{AnswersMade: ref}[a]
	case AnswersLater:
		if p.Job != NoJob || p.Effects > 0 { // one is enough: two are two effects
			return unanswerable, 0
		}
		p.Job = JobOpen
		ref = m.names.number(jobReference)
		remember(Queued, ref)
		return actions.Accepted, ref
	case AnswersNot, AnswersRefused:
		kind = actions.NotApplied
		if a == AnswersRefused {
			kind = actions.Rejected
		}
		if m.Provider.StoresFailures {
			remember(Failure, uint8(kind))
		}
		return kind, 0
	case AnswersLimited:
		return actions.RateLimited, 0
	default:
		return actions.Ambiguous, 0
	}
}

// make makes an effect, and returns its name.
func (m *Model) make(p *Store) uint8 {
	if p.Effects < maxEffects {
		p.Lag[p.Effects] = uint8(m.Provider.Lag)
		p.Effects++
	}
	if m.Provider.Events {
		p.Event = SaysMade
	}
	return m.names.number(reference(int(p.Effects)))
}

// finish ends a job, one way or the other.
func (m *Model) finish(k *Key, done bool) bool {
	p := &k.Provider
	if p.Job != JobOpen {
		return false
	}
	if !done {
		p.Job = JobEnded
		if m.Provider.Events {
			p.Event = SaysEnded
		}
		return true
	}
	p.Job = JobDone
	m.make(p)
	return true
}

// find is the truth, as far as look-ups list it.
func (m *Model) find(p Store) (Finding, uint8) {
	listed, last := 0, 0
	for i := p.Strange; i < p.Effects; i++ {
		if p.Lag[i] == 0 {
			listed, last = listed+1, int(i)+1
		}
	}
	switch {
	case listed > 1:
		return FoundSeveral, 0
	case listed == 1:
		return FoundOne, m.names.number(reference(last))
	case p.Job == JobOpen:
		return FoundNothing, 0
	case p.Job == JobEnded:
		return FoundEnded, m.names.number(jobReference)
	default:
		return FoundAbsent, 0
	}
}

// tell brings an event to the ledger, as the inbox does: it is weighed, and stays
// where it is too early to say what it means.
func (m *Model) tell(k *Key, key int) bool {
	p := &k.Provider
	if p.Event == NoEvent || !k.Row.Exists {
		return false
	}
	e := outcomeOf(p.Event, reference(int(max(p.Effects, 1))))
	j, wait := dispatch.Weigh(m.operation(key, k.Row), m.spec, e)
	if wait {
		return false
	}
	var err error
	switch {
	case j.Change != nil:
		err = m.apply(k, *j.Change)
	case j.Evidence != nil:
		err = m.addEvidence(k, *j.Evidence)
	}
	if err == nil {
		p.Event = NoEvent
	}
	return err == nil
}

func outcomeOf(e Event, ref string) actions.Event {
	o := actions.Outcome{Kind: actions.Applied, Receipt: actions.Receipt{Reference: ref, JSON: []byte(`{}`)}}
	if e == SaysEnded {
		o = actions.Outcome{Kind: actions.Rejected, Receipt: actions.Receipt{Reference: ref}}
	}
	return actions.Event{ID: "event", Reference: ref, Outcome: o}
}

// fault uses up one of the faults that may happen, if there is one.
func (w *World) fault() bool {
	if w.Faults == 0 {
		return false
	}
	w.Faults--
	return true
}

// pass lets one tick go by.
func (m *Model) pass(w *World) {
	less := func(t *uint8) {
		if *t != never && *t > 0 {
			*t--
		}
	}
	for i := range m.Keys {
		k := &w.Keys[i]
		if r := &k.Row; r.Exists {
			for _, t := range []*uint8{&r.Horizon, &r.LeaseEnds, &r.Next, &r.WindowEnds, &r.WatchEnds, &r.ReviewEnds} {
				less(t)
			}
			if m.state(*r) == ledger.Unknown {
				r.DoubtAge = min(r.DoubtAge+1, m.settle)
			}
		}
		for a := range slots {
			k.Workers[a].Aged = k.Workers[a].Phase == Claimed
			if req := &k.Requests[a]; req.Left > 0 {
				req.Left--
			} else {
				*req = Request{} // it is lost
			}
		}
		for e := range epochs {
			if known := &k.Provider.Keys[e]; known.Kind != Unseen {
				if less(&known.Left); known.Left == 0 {
					*known = StoredKey{}
				}
			}
		}
		for e := range maxEffects {
			less(&k.Provider.Lag[e])
		}
	}
}
