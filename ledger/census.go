package ledger

import "time"

// Census is what is open in the whole ledger, of all tenants. It is for gauges:
// where a crowd is larger than what a census looks at, the numbers are lower
// bounds, except those of NeedsReview.
type Census struct {
	Open     []OpenCount
	Switches map[SwitchScope]int  // kill switches that are set
	Restores int                  // that are in force, for whomever
	Reviews  map[ReviewReason]int // open ones, by why a person is asked
}

// OpenCount is about the open operations of an action type in a state.
type OpenCount struct {
	State State
	// ActionType is empty for operations that were counted without a look at them:
	// of a crowd in review.
	ActionType string
	Count      int
	// Overdue are those that somebody should have worked on a minute ago: a lease
	// that ran out, an attempt or a look that was due, a review that lapsed or was
	// approved. Who cannot be worked on (its tenant is switched off) is not overdue.
	Overdue int
	// Oldest is the age of the one that is in its state for the longest time, in
	// doubt or in review or running; pending since it was recorded.
	Oldest time.Duration
}

// SwitchScope is what a kill switch is for.
type SwitchScope string

// The scopes.
const (
	SwitchInstallation SwitchScope = "installation"
	SwitchTenant       SwitchScope = "tenant"
	SwitchActionType   SwitchScope = "action_type"
	SwitchProvider     SwitchScope = "provider"
)

// SwitchScopes are all of them.
func SwitchScopes() []SwitchScope {
	return []SwitchScope{SwitchInstallation, SwitchTenant, SwitchActionType, SwitchProvider}
}

// OpenStates are the states of operations that are not finished.
func OpenStates() []State { return []State{Pending, Running, Unknown, NeedsReview} }
