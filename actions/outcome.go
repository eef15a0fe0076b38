package actions

import (
	"encoding/json"
	"time"
)

// Kind classifies what is known after an attempt. It is an allow-list of
// proofs: what is not proved is Ambiguous, the zero value.
type Kind int

const (
	// Ambiguous proves nothing: the effect may or may not exist.
	Ambiguous Kind = iota
	// Applied is a complete success with its receipt.
	Applied
	// AppliedNoReceipt is a success without a usable receipt (cut short,
	// unparsable, 303). It is never sent again; the receipt is looked for.
	AppliedNoReceipt
	// Accepted means that the provider will finish later (202, queued).
	Accepted
	// InProgress means that the provider still works on our key.
	InProgress
	// MaybeOurs is a conflict that an earlier attempt of ours may have caused
	// (already exists; not found or conflict after doubt): match by look-up.
	MaybeOurs
	// KeyMismatch means that the provider saw our key with another body.
	KeyMismatch
	// Rejected is an explicit, permanent refusal: nothing was applied.
	Rejected
	// NotApplied is proof that nothing was applied, and trying again can help
	// (connection refused, the provider says so).
	NotApplied
	// RateLimited is proof that nothing was applied because of a rate limit.
	RateLimited
)

func (k Kind) String() string {
	return name(k, "ambiguous", "applied", "applied_no_receipt", "accepted", "in_progress",
		"maybe_ours", "key_mismatch", "rejected", "not_applied", "rate_limited")
}

// Outcome is what one attempt established. The zero value is ambiguous, so
// that an adapter which forgets to classify is safe.
type Outcome struct {
	Kind    Kind
	Receipt Receipt // Applied; for Accepted and AppliedNoReceipt the reference, where known
	Failure Failure // why, for every kind but Applied
	// RetryAfter is how long the provider asks us to wait (RateLimited,
	// InProgress, Accepted, NotApplied); zero leaves it to our backoff.
	RetryAfter time.Duration
	// Unreached, with NotApplied, says that nobody was there to ask: no connection,
	// or none that could be trusted. It counts against the provider's circuit.
	Unreached bool
	// Write is set by adapters whose effect is a row in the ledger's own
	// database: Kind is Applied, and the statement runs in the transaction
	// that settles the operation, so that both happen or neither.
	Write *Statement
}

// Receipt is the provider's durable evidence of an effect.
type Receipt struct {
	// Reference is the provider's own id of the effect.
	Reference string
	// JSON is an object with the fields that the action type names, as they
	// are returned to every caller, byte for byte.
	JSON json.RawMessage
}

// Failure explains an outcome that is not a receipt. It holds nothing secret.
type Failure struct {
	Code        string // stable, lower snake case: "charge_not_found"
	Message     string // one sentence, safe to store and to show to the tenant
	Correctable bool   // other arguments could succeed
	Violations  []Violation
	// Evidence says what was observed ("HTTP 422 application/json",
	// "dial tcp: connection refused, 0 bytes offered").
	Evidence string
}

// Statement is a write to the ledger's own database. It must return exactly
// one row of two columns, the reference (text) and the receipt (json).
type Statement struct {
	SQL  string
	Args []any
}

// Enum-like values print their names, and "invalid" beyond them.
func name[T ~int](v T, names ...string) string {
	if int(v) < 0 || int(v) >= len(names) {
		return "invalid"
	}
	return names[v]
}
