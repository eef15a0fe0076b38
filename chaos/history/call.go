package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/ledger"
)

// Kind is what a call asks.
type Kind string

// The kinds.
const (
	Request Kind = "request" // RequestAction
	Read    Kind = "read"    // GetOperation
	Cancel  Kind = "cancel"  // CancelOperation
)

// Answer is what a caller knows after its call.
type Answer string

// The answers. The zero value is the careful one.
const (
	// Nothing: no answer, or one that leaves open whether something was recorded. The
	// call may have been carried out, may be later, or never.
	Nothing Answer = ""
	// Told the operation as it is.
	Told Answer = "told"
	// Reused: refused, because other arguments hold the key.
	Reused Answer = "reused"
	// Refused, and nothing was recorded: policy, budget, intent, kill switch.
	Refused Answer = "refused"
	// Absent: there is no such operation.
	Absent Answer = "absent"
)

// Call is one call about one key, as its caller saw it.
type Call struct {
	Tenant string `json:"tenant"`
	// Key names the action for its callers; the key in the ledger follows from it.
	Key     string `json:"key"`
	Client  int    `json:"client"`
	Replica string `json:"replica"`
	Kind    Kind   `json:"kind"`
	// Arguments tells the sets of arguments of one key apart: 0 to 63.
	Arguments int `json:"arguments"`
	// Cents is the money that the arguments ask for; zero where they ask for none.
	Cents int64 `json:"cents,omitempty"`
	// Corrects says that the request brings other arguments to a failed operation.
	Corrects bool `json:"corrects,omitempty"`

	// Since the beginning of the campaign. Returned is when the caller gave up, where
	// there was no answer.
	Invoked  time.Duration `json:"invoked"`
	Returned time.Duration `json:"returned"`

	Answer      Answer       `json:"answer"`
	State       ledger.State `json:"state,omitempty"`
	OperationID string       `json:"operation_id,omitempty"`
	Reference   string       `json:"reference,omitempty"`
	Receipt     string       `json:"receipt,omitempty"`
	Disposition string       `json:"disposition,omitempty"`
	Replayed    bool         `json:"replayed,omitempty"`
	// Reason is of a failure, a refusal, or of no answer.
	Reason string `json:"reason,omitempty"`
}

// isDuplicate reports whether the call, which was refused, was looked at as far as its
// key: who is too busy for a call says nothing about it.
func (c Call) isDuplicate() bool {
	return c.Kind == Request && !c.Corrects && !slices.Contains([]string{"OVERLOADED", "RATE_LIMITED", "IDENTITY_UNAVAILABLE"}, c.Reason)
}

// String is one line of the call's story.
func (c Call) String() string {
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Sprint(c.Key, " ", c.Kind, ": ", err)
	}
	return string(text)
}

// Log collects calls. The zero value is empty and ready; it is safe for concurrent
// use.
type Log struct {
	mu    sync.Mutex
	calls []Call
}

// Add records a call that has returned.
func (l *Log) Add(c Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, c)
}

// Calls returns what was recorded so far, in the order of their returns.
func (l *Log) Calls() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[:len(l.calls):len(l.calls)]
}
