package fakeprovider

import (
	"encoding/json"
	"fmt"
	"time"
)

// Effect is one write that the target holds: money that moved, a mail that
// went out, a contact that exists. It is what tests count.
type Effect struct {
	// Resource is "refund", "email" or "contact", or the name of one of yours.
	Resource string `json:"resource"`
	// ID is the provider's own reference.
	ID string `json:"id"`
	// At is when it was applied, by the provider's clock.
	At time.Time `json:"at"`
	// OperationID is metadata.operation_id of the write, if it had one, or what
	// the resource reads.
	OperationID string `json:"operation_id,omitempty"`
	// NaturalKey says what the write is about: [RefundOf], [MailOf], [ContactOf].
	NaturalKey string `json:"natural_key"`
	// Key is the idempotency key of the write, also where the provider ignores
	// it.
	Key string `json:"idempotency_key,omitempty"`
	// Request is the number of the request that applied it ([Request.Number]).
	Request int `json:"request"`
	// Attempt says that this was the nth write received for its natural key.
	Attempt int `json:"attempt"`
	// Body is the request's body; one that is no JSON is a JSON text.
	Body json.RawMessage `json:"body"`
}

// RefundOf is the natural key of refunds of a charge.
func RefundOf(chargeID string) string { return "refund:" + chargeID }

// MailOf is the natural key of mails of one revision of an invoice to somebody.
func MailOf(to, invoiceID string, revision int) string {
	return fmt.Sprintf("email:%s:%s:%d", to, invoiceID, revision)
}

// ContactOf is the natural key of a contact.
func ContactOf(externalID string) string { return "contact:" + externalID }

// Request is one request as the provider received it, with or without effect.
type Request struct {
	// Number counts requests from 1.
	Number int `json:"number"`
	// At is when it arrived, by the provider's clock.
	At time.Time `json:"at"`
	// Kind tells writes from look-ups, whatever their method.
	Kind   RequestKind `json:"kind"`
	Method string      `json:"method"`
	// Target is the path with its query.
	Target string `json:"target"`
	// Key is the idempotency key: the Idempotency-Key header, or what the
	// resource reads.
	Key string `json:"idempotency_key,omitempty"`
	// BodySHA256 is the hash of the body in lower-case hexadecimal.
	BodySHA256 string `json:"body_sha256"`
	// OperationID and NaturalKey are what could be read from a write's body.
	OperationID string `json:"operation_id,omitempty"`
	NaturalKey  string `json:"natural_key,omitempty"`
	// Attempt says that this is the nth write received for its natural key;
	// zero for look-ups and unreadable writes.
	Attempt int `json:"attempt,omitempty"`
	// Fault is the fault that it took, as [Fault.String] writes it.
	Fault string `json:"fault"`
	// Status is what was answered; zero while the request is being worked on,
	// and for ever when the connection was cut without an answer.
	Status int `json:"status"`
	// EffectID is the id of the effect that this request caused.
	EffectID string `json:"effect_id,omitempty"`
	// Replayed says that the answer was one stored under the key.
	Replayed bool `json:"replayed,omitempty"`
	// Finished says that the provider is done with it.
	Finished bool `json:"finished"`
}
