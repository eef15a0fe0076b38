package inbox

import (
	"crypto/sha256"
	"fmt"

	"github.com/google/uuid"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// storable returns the events that are evidence about some operation, as the
// ledger takes them. sum is of the message that they came in; sensitive are the
// fields of receipts that are not stored.
func storable(events []actions.Event, sum [sha256.Size]byte, sensitive []string) []ledger.InboxEvent {
	var kept []ledger.InboxEvent
	for i, e := range events {
		k := ledger.InboxEvent{
			ID: eventID(e.ID, sum, i), OperationID: operationID(e.OperationID), Reference: e.Outcome.Receipt.Reference,
			Outcome: e.Outcome.Kind.String(), Detail: e.Detail,
		}
		if k.Reference == "" {
			k.Reference = e.Reference
		}
		if k.Detail == "" {
			k.Detail = e.Outcome.Failure.Evidence
		}
		switch e.Outcome.Kind {
		case actions.Applied:
			k.Receipt = actions.Redact(e.Outcome.Receipt.JSON, sensitive)
		case actions.Rejected:
			k.Failure = failureOf(e.Outcome.Failure)
		case actions.AppliedNoReceipt, actions.Accepted:
		default:
			continue // proves nothing
		}
		if k.OperationID == "" && k.Reference == "" {
			continue // of something else on the same account
		}
		kept = append(kept, k)
	}
	return kept
}

// eventID is an id that the ledger takes. A provider that gives none sends the
// same body again, if it sends again.
func eventID(id string, sum [sha256.Size]byte, i int) string {
	if id == "" {
		return fmt.Sprintf("message:%x:%d", sum, i)
	}
	if len(id) > ledger.MaxEventIDBytes {
		return hashed(id)
	}
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' {
			return hashed(id)
		}
	}
	return id
}

func hashed(id string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(id))) }

// operationID is one of ours, or empty: the field that it came in may hold what
// others use it for.
func operationID(s string) string {
	if id, err := uuid.Parse(s); err == nil {
		return id.String()
	}
	return ""
}

func failureOf(f actions.Failure) *ledger.Failure {
	stored := &ledger.Failure{Code: f.Code, Message: f.Message, Correctable: f.Correctable}
	for _, v := range f.Violations {
		stored.Violations = append(stored.Violations, ledger.Violation{Field: v.Field, Reason: v.Reason, Message: v.Message})
	}
	return stored
}
