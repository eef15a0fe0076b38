package ledger

import (
	"errors"
	"time"
)

// ErrNoInbox: the schema is older than the inbox; events are neither taken in
// nor weighed until the database is migrated.
var ErrNoInbox = errors.New("ledger: the schema has no webhook inbox: run onceward migrate")

// MaxEventIDBytes bounds the id of an event.
const MaxEventIDBytes = 255

// InboxEvent is what a provider said by itself, as it waits to be weighed.
type InboxEvent struct {
	Tenant   string
	Provider string
	ID       string // the provider's; unique with tenant and provider; 1 to MaxEventIDBytes bytes of visible ASCII

	// OperationID (a UUID) or Reference says which operation it is about.
	OperationID, Reference string

	Outcome string   // "applied", "applied_no_receipt", "rejected" or "accepted"
	Receipt []byte   // JSON object, with "applied"
	Failure *Failure // with "rejected"
	Detail  string   // one line for the audit record

	// Set by LeaseEvents.
	Looks int           // times it was looked at, this one included: the fencing token
	Age   time.Duration // since it was received, by the ledger's clock
}
