package ledger

import "time"

// Opening is a new operation with its first move.
type Opening struct {
	Operation Operation // identity, hashes, versions, run, requester; not its state
	// Event is Claim (recorded and claimed at once), Record or Escalate.
	Event Event
	// Sealed holds the arguments for later attempts, encrypted.
	Sealed []byte
	// Start is the first attempt, when Event is Claim.
	Start Start
	// Review is what to ask, when Event is Escalate.
	Review *ReviewOpening
	// Window and ExpiredKeyReuse say how long the finished operation answers
	// for its key, and whether the key is free afterwards.
	Window          time.Duration
	ExpiredKeyReuse bool
	// Provider is whose action it is, for kill switches.
	Provider string
	// Holds are taken with it, or it is not recorded: *BudgetExhaustedError,
	// *IntentHeldError.
	Holds Holds
	// Verdict is recorded with the first event.
	Verdict Verdict
	// GiveUp is how long after it was recorded no attempt begins any more; zero:
	// the action type's bounds alone.
	GiveUp time.Duration
}

// Start is an attempt that is about to be made.
type Start struct {
	ClaimID     string        // UUID of this claim, to find it again when the answer to a commit is lost
	Lease       time.Duration // from now, by the database's clock
	ProviderKey string
	// Horizon is how long after the first send the provider recognises the
	// key; zero: never. Only the first attempt of an epoch sets it.
	Horizon time.Duration
}

// Claiming starts another attempt of an operation: from pending (Claim) or,
// with the same provider key, from unknown (Replay).
type Claiming struct {
	Operation   Operation // as read: its State, Attempt and Lease are the fence
	Event       Event     // Claim or Replay
	Start       Start
	RequestHash Hash // frozen if it was not yet
	Actor       string
	Provider    string // for kill switches
}

// Change is one guarded move of an operation, with everything that is written
// in its transaction.
type Change struct {
	// Operation is the row as the caller knows it. State, Attempt and, when
	// Leased, Lease must still be so, or the change is fenced off.
	Operation Operation
	Leased    bool
	Event     Event
	Actor     string // who moves it: "worker", "reconciler", or a person
	Detail    string // one line for the audit record

	Effect  Effect
	Reason  string
	InDoubt bool
	// ProviderReference is kept as it was when empty.
	ProviderReference string
	Receipt           []byte // JSON object, with Confirm
	Failure           *Failure
	Delay             time.Duration // until the next attempt or look-up, for pending and unknown
	BumpEpoch         bool          // the next attempt uses a new provider key
	Watch             time.Duration // look for a late landing that long; zero keeps what was planned
	ResetResolves     bool

	// AttemptOutcome ends the current attempt, if it is still open, with Detail
	// as its evidence.
	AttemptOutcome string

	Review   *ReviewOpening // when the move leads to needs_review
	Decision *ReviewClosing // when it leads out of it

	// Write runs in the same transaction and yields the receipt (Confirm).
	Write *Write
}

// ReviewOpening is a question to a person.
type ReviewOpening struct {
	ID        string // UUIDv7
	Reason    ReviewReason
	Detail    string
	ExpiresIn time.Duration // zero: never
	// Of approvals: how many reviewers (at least one), and the policy version.
	RequiredApprovals int
	PolicyVersion     string
}

// ReviewClosing is its answer.
type ReviewClosing struct {
	ReviewID string
	Decision Decision
	By, Note string
}

// Write is a statement on the ledger's own database that is the effect of an
// operation. It returns one row: reference (text), receipt (json).
type Write struct {
	SQL  string
	Args []any
	// Redact takes out of the receipt what must not be stored; nil: nothing.
	Redact func(receipt []byte) []byte
}

// Evidence is something learned that moves nothing: the answer of a worker
// that was overtaken, a second receipt.
type Evidence struct {
	// Operation is the row as the caller knows it: its State and Attempt must
	// still be so. What was learned may mean something else in another state.
	Operation Operation
	Attempt   int // that it is about
	Actor     string
	Detail    string
	// Incident, when set, marks the operation for a person to look at.
	Incident string
	// ProviderReference is stored where the operation has none, and InDoubt
	// makes sure that no later answer closes the operation over it.
	ProviderReference string
	InDoubt           bool
}
