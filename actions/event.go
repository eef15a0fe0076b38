package actions

import (
	"errors"
	"strings"
	"time"
)

// Source turns a provider's own calls (webhooks) into events.
//
// Implementations must be safe for concurrent use. They see what a stranger
// sent: nothing in a message counts before it is verified.
type Source interface {
	// Provider is the name in the contracts whose operations the events are
	// about ([Contract].Provider).
	Provider() string

	// Events verifies a message that was sent to a tenant's address and returns
	// what it proves; none is a message that says nothing about an operation.
	// now is the receiver's time, for the tolerance of timestamps. It is pure
	// but for reading secrets.
	//
	// An error that is [ErrMalformed] means that a verified message cannot be
	// read; every other error that it is not verified. Neither has effects.
	Events(tenant string, m Message, now time.Time) ([]Event, error)
}

// ErrMalformed: a message is verified, and not what the provider's contract
// says that it sends.
var ErrMalformed = errors.New("actions: malformed webhook message")

// Message is a webhook call as it came in, byte for byte. Its receiver bounds
// its size.
type Message struct {
	Method string
	URL    string // as the provider was told to call it: scheme, host, path and query
	Header map[string][]string
	Body   []byte
}

// Values returns all values of a header, whatever the case of its name.
func (m Message) Values(header string) []string {
	var all []string
	for name, values := range m.Header {
		if strings.EqualFold(name, header) {
			all = append(all, values...)
		}
	}
	return all
}

// Event is evidence that a provider sent by itself about one operation.
type Event struct {
	// ID is the provider's id of the event, the same however often it is sent;
	// replays are dropped by it. One message may hold several events.
	ID string
	// OperationID (where our id came back in metadata) or Reference (the
	// provider's id of the effect) says which operation it is about. An event
	// of an operation that nobody knows does nothing.
	OperationID, Reference string
	// Outcome is what the event proves: Applied with the receipt (whose
	// reference is Reference where it has none), AppliedNoReceipt, Rejected
	// where the provider ended it for good without an effect, Accepted where it
	// is still under way. Every other kind is no evidence and is dropped.
	Outcome Outcome
	// Detail is one line for the audit record; no secrets.
	Detail string
}
