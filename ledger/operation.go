package ledger

import (
	"time"
)

// Effect is what is known of the target.
type Effect string

// The effects.
const (
	EffectNone       Effect = "none"        // nothing was sent
	EffectApplied    Effect = "applied"     // the target holds it
	EffectNotApplied Effect = "not_applied" // proved: the target does not hold it
	EffectUnknown    Effect = "unknown"
)

// Operation is the ledger's row for one logical action. Values are snapshots;
// Revision tells two of them apart.
type Operation struct {
	Tenant string
	ID     string // UUIDv7

	Key             string // 1 to 255 bytes of visible ASCII, unique per tenant
	KeySource       string // "caller", "recipe", "run_step"
	ActionType      string
	AdapterVersion  string
	ContractVersion string
	ArgsHash        Hash  // of the identifying arguments
	RequestHash     *Hash // of what is sent; frozen at the first attempt

	State     State
	LastEvent Event
	Effect    Effect
	Reason    string // of doubt: "ambiguous", "lease_expired", "awaiting_provider"...
	// InDoubt: an attempt before the current one may have been applied. While
	// it is set nothing but a receipt, an authoritative absence or a person
	// ends the operation.
	InDoubt bool

	Attempt  int // provider calls so far: the fencing token of workers
	Epoch    int // of the provider key
	Lease    int // leases taken by reconcilers: their fencing token
	Resolves int // times a reconciler worked on the current doubt
	// NegativeReads counts look-ups in a row that found nothing after the
	// contract's settle time.
	NegativeReads int

	ProviderReference string
	Receipt           []byte   // JSON; set when State is Succeeded
	Failure           *Failure // why there is no receipt
	Incident          string   // two receipts: a person must look

	// What it spends, as an exact decimal, and in which currency; empty: nothing.
	Amount, Currency string
	Stage            Stage // that it was recorded under; empty: before there were stages, StageReconcile
	PolicyVersion    string
	Rule             string // that allowed it
	Held             bool   // it has Holds
	// Bounds of the policy on one operation; zero: the action type's alone.
	MaxAttempts int
	GiveUpAt    time.Time // no attempt begins after it

	RequestedBy  string
	Run          Run
	IntentID     string
	DistinctFrom string // operation id

	CreatedAt, UpdatedAt    time.Time
	FirstSentAt, LastSentAt time.Time // claims; zero before the first
	DoubtedAt               time.Time // when it last became unknown: no attempt begins to send after it
	KeyHorizon              time.Time // zero when the provider honours no keys, and when the first attempt succeeded
	LeaseExpiresAt          time.Time
	NextAttemptAt           time.Time // zero when nothing is planned
	SettledAt               time.Time // when it succeeded or failed; what is learned later does not move it; zero while unfinished
	WindowEndsAt            time.Time // zero while unfinished
	WatchUntil              time.Time // look for a late landing until then; zero: no

	Revision int64 // grows with every change of the row

	Review   *Review   // the latest, where there is one
	Attempts []Attempt // filled by Get only
}

// Run says where in an agent's run the first request came from.
type Run struct {
	RunID       string `json:"run_id,omitempty"`
	StepID      string `json:"step_id,omitempty"`
	Attempt     int    `json:"attempt,omitempty"`
	ToolCallID  string `json:"tool_call_id,omitempty"`
	ToolVersion string `json:"tool_version,omitempty"`
	Agent       string `json:"agent,omitempty"`
	Instance    string `json:"instance,omitempty"`
	// TraceParent is the span that recorded the operation, as W3C Trace Context
	// writes it; empty where its trace is not kept. What is done about the operation
	// later, in whatever process, belongs to the same trace.
	TraceParent string `json:"traceparent,omitempty"`
}

// Failure is why an operation has no receipt. It holds nothing secret.
type Failure struct {
	Code        string      `json:"code"`
	Message     string      `json:"message"`
	Correctable bool        `json:"correctable,omitempty"`
	Violations  []Violation `json:"violations,omitempty"`
}

// Violation is one thing wrong with one field.
type Violation struct {
	Field   string `json:"field"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Attempt is one provider call.
type Attempt struct {
	Number             int
	StartedAt, EndedAt time.Time // EndedAt is zero while it is under way
	Outcome            string    // "applied", "ambiguous", "lease_expired"...
	Evidence           string    // one line
}

// Hash is a SHA-256.
type Hash [32]byte

// ReviewReason is why a person is asked.
type ReviewReason string

// The reasons.
const (
	ApprovalRequired ReviewReason = "approval_required"
	Inconclusive     ReviewReason = "inconclusive"
	Contradicted     ReviewReason = "contradicted"
	BudgetExhausted  ReviewReason = "budget_exhausted"
)

// ReviewReasons returns the reasons.
func ReviewReasons() []ReviewReason {
	return []ReviewReason{ApprovalRequired, Inconclusive, Contradicted, BudgetExhausted}
}

// Decision is how a review ended.
type Decision string

// The decisions: five by a reviewer, two by events.
const (
	Approved        Decision = "approved"
	Rejected        Decision = "rejected"
	Confirmed       Decision = "confirmed"
	NotAppliedRetry Decision = "not_applied_retry"
	NotAppliedClose Decision = "not_applied_close"
	Expired         Decision = "expired"
	Cancelled       Decision = "cancelled"
)

// Review is a decision that waits for a person, or was made.
type Review struct {
	ID                  string // UUIDv7
	Reason              ReviewReason
	Detail              string
	OpenedAt, ExpiresAt time.Time // ExpiresAt is zero when it never lapses
	Decision            Decision  // empty while open
	DecidedBy, Note     string
	DecidedAt           time.Time
	// Of approvals: how many reviewers must say yes, who did, and the policy
	// version that asks.
	RequiredApprovals int
	Approvals         []Approval
	PolicyVersion     string
}

// Approval is one reviewer's yes.
type Approval struct {
	By, Note string
	At       time.Time
	// PolicyVersion is the policy that asked, as the reviewer saw it. It is not
	// read back: all approvals of a review are for the one that asks.
	PolicyVersion string
}

// Open reports whether nobody decided yet.
func (r *Review) Open() bool { return r != nil && r.Decision == "" }
