package model

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/reconciler"
)

// Model is a scenario with the code that decides in it.
type Model struct {
	Scenario

	spec       actions.Spec
	names      *names
	settle     uint8 // the longest age of a doubt that makes a difference
	reconciler *reconciler.Reconciler
	bench      bench
	before     World          // a step that may be taken back
	after      World          // the step under way
	moved      []ledger.Event // of the step under way, for the audit record
	refused    string         // what the step asked for that the database refuses
}

// New makes the model of a scenario.
func New(s Scenario) *Model {
	m := &Model{Scenario: s, spec: s.spec(), names: newNames()}
	m.settle = ticks(max(m.spec.Contract.Lookup.SettleTime, m.spec.Contract.EventWait))
	m.bench.model = m
	m.bench.action = &actions.Action{Spec: m.spec, Adapter: adapter{}}
	if s.Provider.LookUp {
		m.bench.action.Adapter = looker{bench: &m.bench}
	}
	m.reconciler = reconciler.New(reconciler.Options{
		Ledger: &m.bench, Dispatcher: &m.bench, Log: slog.New(slog.DiscardHandler), Lease: tick,
	})
	return m
}

// Begin is the world before anybody asks for anything.
func (m *Model) Begin() World { return World{Faults: uint8(m.Faults)} }

// epoch0 is the instant that every world is at. Nothing depends on it.
var epoch0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// at is an instant in ticks from now; zero for never.
func at(in uint8) time.Time {
	if in == never {
		return time.Time{}
	}
	return epoch0.Add(time.Duration(in) * tick)
}

// operation is a row as the ledger returns it, with its attempts.
func (m *Model) operation(key int, r Row) ledger.Operation {
	op := ledger.Operation{
		Tenant: "tenant", ID: strconv.Itoa(key), Key: "key", ActionType: m.spec.Type,
		State: ledger.State(m.names.text(r.State)), LastEvent: ledger.Event(m.names.text(r.Event)),
		Effect: ledger.Effect(m.names.text(r.Effect)), Reason: m.names.text(r.Reason),
		InDoubt: r.InDoubt, Attempt: int(r.Attempt), Epoch: int(r.Epoch), Lease: int(r.Lease),
		Resolves: int(r.Resolves), NegativeReads: int(r.NegativeReads), ProviderReference: m.names.text(r.Reference),
		Stage: m.Stage, DoubtedAt: epoch0.Add(-time.Duration(r.DoubtAge) * tick),
		LeaseExpiresAt: at(r.LeaseEnds), KeyHorizon: at(r.Horizon), NextAttemptAt: at(r.Next), WatchUntil: at(r.WatchEnds),
	}
	if r.Reference == 0 {
		op.ProviderReference = ""
	}
	if r.Horizon != never {
		// Only which of the two was first matters.
		op.LastSentAt = op.KeyHorizon.Add(time.Nanosecond)
		if r.SentInside {
			op.LastSentAt = op.KeyHorizon.Add(-time.Nanosecond)
		}
	}
	if r.Incident {
		op.Incident = "told"
	}
	for i := range r.Attempt {
		a := ledger.Attempt{Number: int(i) + 1, Outcome: m.names.text(r.Outcomes[i])}
		if a.Outcome != "" {
			a.EndedAt = epoch0
		}
		op.Attempts = append(op.Attempts, a)
	}
	if r.Review != 0 {
		op.Review = &ledger.Review{ID: "review", Reason: ledger.ReviewReason(m.names.text(r.Review)), ExpiresAt: at(r.ReviewEnds)}
	}
	return op
}

// outcome is what a worker holds, as its adapter returns it.
func (m *Model) outcome(w Worker) actions.Outcome {
	o := actions.Outcome{Kind: actions.Kind(w.Outcome), Receipt: actions.Receipt{Reference: m.names.text(w.Reference)}}
	if o.Kind == actions.Applied {
		o.Receipt.JSON = []byte(`{}`)
	}
	return o
}

// state is the state of a row; New for none.
func (m *Model) state(r Row) ledger.State {
	if !r.Exists {
		return ledger.New
	}
	return ledger.State(m.names.text(r.State))
}

func (m *Model) effect(r Row) ledger.Effect { return ledger.Effect(m.names.text(r.Effect)) }

// plain is a row as a worker keeps it. A verdict depends on no time, and two
// worlds that differ in nothing else are the same.
func plain(r Row) Row {
	r.LeaseEnds, r.Next, r.WindowEnds, r.WatchEnds, r.ReviewEnds = never, never, never, never, never
	r.DoubtAge, r.Resolves, r.NegativeReads, r.Lease = 0, 0, 0, 0
	return r
}

// adapter is an adapter that the model never calls: it makes requests itself.
type adapter struct{}

func (adapter) Spec() actions.Spec                                    { return actions.Spec{} }
func (adapter) Validate(actions.Arguments) error                      { return nil }
func (adapter) Execute(context.Context, actions.Call) actions.Outcome { return actions.Outcome{} }

// looker is one with a look-up.
type looker struct {
	adapter

	bench *bench
}

func (l looker) Lookup(context.Context, actions.Query) actions.Finding { return l.bench.lookup() }

var (
	_ actions.Looker        = looker{}
	_ reconciler.Ledger     = (*bench)(nil)
	_ reconciler.Dispatcher = (*bench)(nil)
)

// leaseOf is how long an attempt's lease is.
func (m *Model) leaseOf(actions.Spec) time.Duration { return tick }

// judge is the verdict on what a worker holds.
func (m *Model) judge(key, attempt int, w Worker) dispatch.Judgement {
	return dispatch.Judge(m.operation(key, w.Knows), attempt, m.spec, m.outcome(w))
}
