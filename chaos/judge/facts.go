package judge

import (
	"time"

	"github.com/onceward/onceward/chaos/history"
	"github.com/onceward/onceward/internal/auditchain"
	"github.com/onceward/onceward/ledger"
)

// Facts are what is there when a campaign is over: all faults healed, nothing on its
// way any more, nobody asking.
type Facts struct {
	Operations []Operation
	Effects    []Effect
	Writes     []Write
	// Events is the audit record, by operation and sequence, as the ledger exports it.
	Events  []auditchain.Event
	Calls   []history.Call
	Budgets []Budget
	Stops   []Stop
	// Died says how replicas ended that nobody ended.
	Died []string
	// Wrong are answers that no caller should get.
	Wrong []string
}

// Operation is a row of the ledger.
type Operation struct {
	Tenant, ID  string
	Key         string // as callers name it: Call.Key
	LedgerKey   string
	ActionType  string
	State       ledger.State
	Effect      ledger.Effect
	Reference   string
	Receipt     string
	Failure     string
	Attempts    int
	HasIncident bool
	// Lied says that the target's look-ups showed two of the one effect that it holds:
	// to call that an incident is right.
	Lied   bool
	Intent string
}

// Effect is what the target holds.
type Effect struct {
	Tenant      string // empty where the target does not know it
	OperationID string
	ID          string // the target's own reference
	About       string // what it is about: a charge, an address
	At          time.Time
	Cents       int64 // of money that moved
}

// Write is a request that the target received and that could have had an effect.
type Write struct {
	OperationID string
	At          time.Time
	BodyHash    string
	Fault       string
	Status      int
	EffectID    string
}

// Budget is what one counter of a policy says.
type Budget struct {
	Tenant, Counter string
	// In hundredths of its unit: what open operations hold, and what is used.
	Held, Used int64
	// Want is what the effects say is used.
	Want int64
}

// Stop is a time in which a kill switch was surely set.
type Stop struct {
	Tenant, ActionType string
	From, To           time.Time
}
