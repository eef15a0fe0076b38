package ledger

import "time"

// Stage is how far an action type is switched on for a tenant, as it was when an
// operation was recorded. The zero value of a policy is StageObserve.
type Stage string

// The stages.
const (
	StageObserve   Stage = "observe"   // seen and recorded; nothing is sent
	StageProtect   Stage = "protect"   // doubt goes to a person
	StageReconcile Stage = "reconcile" // doubt is resolved
	StageEnforce   Stage = "enforce"   // and writes carry an operation token
)

// Verdict is what was decided about a request before it was recorded, for the
// audit record.
type Verdict struct {
	Decision      string // "allow", "require_approval" or "deny"
	Reason        string // of a refusal, as callers get it: "POLICY_DENIED"
	Rule          string
	PolicyVersion string
}

// Denial is a request that was refused, for the audit record. What was not known
// yet when it was refused is empty.
type Denial struct {
	ID     string // UUIDv7: the id that its operation would have had
	Tenant string // AllTenants where the credential is not known to belong to one
	Actor  string
	Verdict

	ActionType string
	Key        string // its hash is recorded
	ArgsHash   *Hash
	Run        Run
	Stage      Stage
	Amount     string
	Currency   string
	Detail     string // one line, no secrets
}

// AuditEvent is one line of the audit record.
type AuditEvent struct {
	Tenant      string
	OperationID string
	Sequence    int64
	At          time.Time
	Event       string // of Events, or "evidence", "deny", "stop", "resume"
	From, To    State
	Attempt     int
	Epoch       int
	ArgsHash    Hash
	Actor       string
	Detail      string
	Outcome     string
	Reference   string // the provider's, where the event brought one
	// Context is set for first events and refused requests.
	Context *EventContext
	// Chain is the SHA-256 over this event and the one before it (docs/audit.md).
	Chain []byte
}

// EventContext is what a request was. It is stored as JSON with these names.
type EventContext struct {
	ActionType    string `json:"action_type"`
	KeyHash       string `json:"key_hash,omitempty"` // SHA-256 in hex
	Run           Run    `json:"run"`
	Decision      string `json:"decision,omitempty"`
	Reason        string `json:"reason,omitempty"`
	Rule          string `json:"rule,omitempty"`
	PolicyVersion string `json:"policy_version,omitempty"`
	Stage         Stage  `json:"stage,omitempty"`
	Amount        string `json:"amount,omitempty"`
	Currency      string `json:"currency,omitempty"`
}

// EventFilter selects audit events of one tenant; zero fields match everything.
type EventFilter struct {
	OperationID, ActionType, Actor string
	RecordedAfter, RecordedBefore  time.Time // at or after; before: when the operation was recorded
	DeniedOnly                     bool
}

// EventPosition is where a page of audit events ended.
type EventPosition struct {
	OperationID string
	Sequence    int64
}

// Observation is a request in the stage observe.
type Observation struct {
	ID         string // UUIDv7
	Tenant     string
	Actor      string
	ActionType string
	Key        string // empty where there is none, because the request is invalid
	ArgsHash   Hash
	Run        Run
	Outcome    ObservedOutcome // as policy has it; Observe finds duplicates and mismatches
	Verdict    Verdict
	Amount     string
	Currency   string
	Charges    []Charge // what it would have been charged to
	Fences     []Fence
}

// ObservedOutcome is what would have been done with an observed request.
type ObservedOutcome string

// The outcomes.
const (
	ObservedExecute         ObservedOutcome = "execute"
	ObservedDuplicate       ObservedOutcome = "duplicate"
	ObservedMismatch        ObservedOutcome = "mismatch"
	ObservedRequireApproval ObservedOutcome = "require_approval"
	ObservedRefused         ObservedOutcome = "refused"
	ObservedInvalid         ObservedOutcome = "invalid"
)

// Tally counts requests of one kind in one hour.
type Tally struct {
	Tenant     string
	Hour       time.Time
	ActionType string
	What       string // "executed", "duplicate" or "refused"
	Cause      string // of duplicates: "model_retry"...; of refusals their reason
	Stated     bool   // the caller gave the cause
	Currency   string
	Count      int64
	Amount     string // exact decimal: what the duplicates would have spent
}
