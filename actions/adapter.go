package actions

import (
	"context"
	"time"
)

// Adapter performs one action type on one provider.
//
// Implementations must be safe for concurrent use and keep no state about
// single operations: everything that a later attempt needs is in [Call].
type Adapter interface {
	// Spec describes the action type. It must return the same value every
	// time; NewRegistry reads it once.
	Spec() Spec

	// Validate checks arguments beyond the JSON Schema of the Spec (which has
	// passed already). It is pure: no I/O, no clock. It returns nil or an
	// *ArgumentsError that names each field.
	Validate(args Arguments) error

	// Execute makes one attempt and classifies what came back. The context
	// ends at the attempt's deadline and does not end when the caller leaves.
	// Execute must never send twice: retrying is the ledger's decision.
	//
	// Anything that is not proved must be reported as ambiguous, which is the
	// zero Outcome; a panic counts as ambiguous too.
	Execute(ctx context.Context, call Call) Outcome
}

// Renderer is an optional ability of an Adapter: to say beforehand what it
// will send. The SHA-256 of what Render returns is frozen in the ledger at the
// first attempt, and an attempt that would send anything else is not sent.
//
// Without it, the adapter's version, the contract's version and the canonical
// arguments are frozen in its place.
type Renderer interface {
	// Render returns the exact bytes of the request (method, target, headers
	// with a meaning, body) without credentials. It is pure and depends on
	// nothing but the call: not on the time, the attempt number or chance.
	// An error means that the request cannot be made; nothing was sent. One that
	// is an *ArgumentsError reaches the caller as it is; of any other, which may
	// repeat what arguments say, the caller learns only that there is one.
	Render(call Call) ([]byte, error)
}

// Looker is an optional ability of an Adapter: to find the effect of an
// operation on the provider without causing one. The reconciler uses it to
// resolve doubt. Without it (and without provider keys) doubt goes to a person.
type Looker interface {
	// Lookup searches for the effect of one operation. It must not write. The
	// zero Finding is inconclusive; a provider error, a partial page or a
	// time-out is inconclusive too, never absent.
	Lookup(ctx context.Context, query Query) Finding
}

// Call is one attempt, as an adapter sees it.
type Call struct {
	Tenant      string // tenant that the operation belongs to
	OperationID string // UUID; stable across attempts; put it in the provider's metadata
	// ProviderKey is the idempotency key for the provider: 26 lower-case
	// base32hex characters, unguessable, equal for every attempt of one epoch.
	ProviderKey string
	Arguments   Arguments
	// OperationToken is a signed statement for the internal service that performs
	// the write; empty unless the stage is enforce and the Spec has a
	// TokenAudience. It is like a credential: sent with the request, and no part
	// of what Render returns.
	OperationToken string
}

// Query says which operation's effect a Looker is to find.
type Query struct {
	Call
	// ProviderReference is the provider's id of the effect where an earlier
	// answer gave one, else empty.
	ProviderReference string
	// FirstSentAt and LastSentAt bound when attempts may have reached the
	// provider, by the ledger's clock.
	FirstSentAt, LastSentAt time.Time
}

// FindingKind is what a look-up established.
type FindingKind int

const (
	// Inconclusive says nothing; it is the zero value.
	Inconclusive FindingKind = iota
	// Found is exactly one effect of this operation, with its receipt.
	Found
	// Absent is no effect of this operation now. The contract decides when
	// that counts as proof (Contract.Lookup).
	Absent
	// Several is more than one effect: the very thing that must not happen.
	Several
	// Foreign is a unique name that is taken by somebody else's effect, so
	// that this operation has none and never can have one.
	Foreign
	// Ended is proof that nothing was applied: the provider took the operation
	// up and ended it for good without an effect (a job that failed, a payment
	// that was declined later). An object that may still go on is Inconclusive.
	Ended
)

func (k FindingKind) String() string {
	return name(k, "inconclusive", "found", "absent", "several", "foreign", "ended")
}

// Finding is the answer of a Looker.
type Finding struct {
	Kind       FindingKind
	Receipt    Receipt  // of the effect, when Found
	References []string // of all effects, when Several; of what ended, when Ended (none: what the query named)
	Failure    Failure  // why, when Ended
	Detail     string   // one line for the audit record; no secrets
	// After is how long the provider asks us to wait before the next look;
	// zero leaves it to the reconciler.
	After time.Duration
}
