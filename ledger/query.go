package ledger

import "time"

// Filter selects operations of one tenant; zero fields match everything.
type Filter struct {
	States                      []State
	ActionType, RunID           string
	CreatedAfter, CreatedBefore time.Time // at or after; before
}

// Waited names an operation that callers wait for, and what they know of it.
type Waited struct {
	Tenant, Key, ID string
	Revision        int64
}

// OpenReview names an open review and its operation.
type OpenReview struct {
	OperationID, ReviewID string
}

// Postponement puts a pending or unknown operation off.
type Postponement struct {
	Operation         Operation // as leased
	Delay             time.Duration
	Reason            string
	NegativeReads     int
	Untried           bool   // nothing was tried: it does not count as a resolve
	ProviderReference string // kept where none is known yet
}
