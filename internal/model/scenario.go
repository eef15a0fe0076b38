package model

import (
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// tick is the unit of the model's time: the lease of an attempt, a reconciler's
// lease, the gap between two look-ups. That leases are all of one length loses no
// order of events, since whoever holds one may be as late as it likes.
const tick = time.Minute

// Scenario is one world to be searched: a provider, and how much may go wrong.
type Scenario struct {
	Name     string
	Provider Provider
	// Keys is how many keys are requested, one or two. Two share an intent: while
	// one operation under it is open, and after it succeeded, the other is refused.
	Keys        int
	Stage       ledger.Stage
	Approval    bool // a reviewer is asked before anything is sent
	Corrections bool // a caller corrects what failed
	Reviewer    bool // somebody answers reviews; without, asking is the end
	// Disaster: the ledger may be lost once, and come back as it was at a backup or at
	// the very beginning (docs/decisions/017). With one key, and a provider that says and
	// finishes nothing by itself.
	Disaster bool
	// Faults is how many crashes, lost answers, errors and refusals there may be.
	Faults int
	// Depth is how many steps the search goes in the ordinary run of the tests; 0:
	// until there is nothing new.
	Depth int
}

// Provider is how a provider behaves, and what its contract says of it.
type Provider struct {
	Keys           bool // honours ours for Window ticks, and then forgets it
	Window         int
	StoresFailures bool
	LookUp         bool // by operation id; lists what it made after Lag ticks
	Lag            int
	Flight         int  // a request lands within so many ticks, or never
	Async          bool // takes requests up, and finishes later
	Events         bool // says by itself what it did

	// What its contract gets wrong. Each is a premise of the first law, and
	// without it there is a counterexample.
	NoMargin      bool // the horizon leaves no time for a replay under way
	NoSettleTime  bool // absence counts at once, and while requests are under way
	LateBytes     bool // a worker that was stopped after its last look at the clock sends when its lease is long over
	WrongReviewer bool // a reviewer says that nothing was made without having looked
	NobodySays    bool // that the ledger was restored
}

// spec is the action type, with a contract that is true of the provider where
// nothing says otherwise.
func (s Scenario) spec() actions.Spec {
	p := s.Provider
	spec := actions.Spec{Type: "model.effect.create", Timeout: tick / 2, MaxAttempts: 2, MaxResolves: 3, Window: 2 * tick}
	c := &spec.Contract
	c.Provider = "model"
	c.LateLanding = tick
	c.Lookup.ReadGap = tick
	if p.Keys {
		c.Keys = actions.KeyRules{Honoured: true, Window: time.Duration(p.Window) * tick, StoresFailures: p.StoresFailures}
		if !p.NoMargin {
			// A replay is given one lease to land in (dispatch.Lease), and may take longer.
			c.Keys.Margin = time.Duration(max(p.Flight-1, 0)) * tick
		}
	}
	if p.LookUp {
		c.Lookup.Authoritative, c.Lookup.NegativeReads = true, 2
		if !p.NoSettleTime {
			// The last request lands, and is listed.
			c.Lookup.SettleTime = time.Duration(p.Flight+p.Lag+1) * tick
		}
	}
	if p.Events {
		c.EventWait = 2 * tick
	}
	return spec.WithDefaults()
}

// ticks is a duration in ticks, rounded up: what is not due at once is due later.
func ticks(d time.Duration) uint8 {
	return uint8(min((max(d, 0)+tick-1)/tick, never-1))
}

// Scenarios are the worlds that are searched in the ordinary run of the tests, to
// the depth that they name.
func Scenarios() []Scenario {
	return []Scenario{
		{
			Name: "keys", Depth: 14, Keys: 1, Faults: 2, Reviewer: true,
			Provider: Provider{Keys: true, Window: 4, Flight: 2},
		},
		{
			Name: "keys, failures are stored", Depth: 14, Keys: 1, Faults: 2, Reviewer: true, Corrections: true,
			Provider: Provider{Keys: true, StoresFailures: true, Window: 3, Flight: 1, LookUp: true},
		},
		{
			Name: "keys and look-up", Depth: 14, Keys: 1, Faults: 2, Reviewer: true,
			Provider: Provider{Keys: true, Window: 3, Flight: 1, LookUp: true, Lag: 1},
		},
		{
			Name: "look-up that lags", Depth: 16, Keys: 1, Faults: 3, Reviewer: true, Corrections: true,
			Provider: Provider{LookUp: true, Lag: 1, Flight: 1},
		},
		{
			Name: "neither", Depth: 17, Keys: 1, Faults: 3, Reviewer: true,
			Provider: Provider{Flight: 1},
		},
		{
			Name: "events", Depth: 16, Keys: 1, Faults: 2, Reviewer: true,
			Provider: Provider{Events: true, Async: true, Flight: 1},
		},
		{
			Name: "later", Depth: 13, Keys: 1, Faults: 2, Reviewer: true,
			Provider: Provider{Keys: true, Window: 3, LookUp: true, Async: true, Flight: 1},
		},
		{
			Name: "approval, protect", Depth: 17, Keys: 1, Faults: 2, Reviewer: true, Approval: true, Stage: ledger.StageProtect,
			Provider: Provider{Keys: true, Window: 3, Flight: 1},
		},
		{
			Name: "restored", Depth: 13, Keys: 1, Faults: 1, Reviewer: true, Corrections: true, Disaster: true,
			Provider: Provider{Keys: true, Window: 3, LookUp: true, Flight: 1},
		},
		{
			Name: "restored, neither", Depth: 14, Keys: 1, Faults: 1, Reviewer: true, Approval: true, Disaster: true,
			Provider: Provider{Flight: 1},
		},
		{
			Name: "two keys of one intent", Depth: 18, Keys: 2, Faults: 1,
			Provider: Provider{LookUp: true, Flight: 1},
		},
	}
}

// Broken are scenarios that each lack one premise, and what of the laws is lost
// with it.
func Broken() map[string]Scenario {
	return map[string]Scenario{
		"a replay lands when the key is forgotten": {
			Keys: 1, Faults: 2, Provider: Provider{Keys: true, Window: 3, Flight: 2, NoMargin: true},
		},
		"absence is believed while a request is under way": {
			Keys: 1, Faults: 2, Provider: Provider{LookUp: true, Lag: 1, Flight: 1, NoSettleTime: true},
		},
		"a worker sends when its lease is long over": {
			Keys: 1, Faults: 1, Provider: Provider{LookUp: true, Flight: 1, LateBytes: true},
		},
		"nobody says that the ledger was restored": {
			Keys: 1, Disaster: true, Provider: Provider{Keys: true, Window: 3, LookUp: true, Flight: 1, NobodySays: true},
		},
		"a reviewer has not looked": {
			Keys: 1, Faults: 1, Reviewer: true, Provider: Provider{Flight: 1, WrongReviewer: true},
		},
	}
}
