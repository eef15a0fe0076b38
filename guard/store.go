package guard

import (
	"context"
	"time"
)

// State is what a store knows of an operation.
type State string

// The states.
const (
	// Begun: it was not known, and is claimed now. Perform it.
	Begun State = "begun"
	// Running: another request performs it.
	Running State = "running"
	// Finished: it was performed; the response is there.
	Finished State = "finished"
	// Unresolved: a request began it and did not say how it ended.
	Unresolved State = "unresolved"
)

// Entry is what Begin found.
type Entry struct {
	State         State
	ArgumentsHash string   // of the first request
	Response      Response // when Finished
}

// Response is what the first request of an operation got.
type Response struct {
	Status int                 `json:"status"` // HTTP status
	Header map[string][]string `json:"header,omitempty"`
	Body   []byte              `json:"body,omitempty"`
	// NotKept: the body was too large, or was a stream.
	NotKept bool `json:"not_kept,omitempty"`
}

// Store remembers which operations were performed. Implementations are safe for
// concurrent use, by all processes of the service.
//
// What happens to an operation whose process died half way is decided here, and
// by one rule: who cannot prove that nothing was done does not say Begun a
// second time. So its entry becomes Unresolved when hold has passed, and stays so
// until somebody finds out and calls Finish or Release. guardsql.Once is another
// way: the claim is in the transaction of the write, and a crash undoes both.
//
// An error means that nothing is known, and the request is refused.
type Store interface {
	// Begin claims an operation that is not known, in one step that no other
	// request can share, and otherwise says what is known of it. hold is how
	// long the request may take.
	Begin(ctx context.Context, c Claims, hold time.Duration) (Entry, error)
	// Finish keeps the response of an operation that was performed, also one
	// that has become Unresolved since. A response that is there already stays.
	Finish(ctx context.Context, op Operation, r Response) error
	// Release forgets an operation that the request with these claims began, and
	// that is Running or Unresolved: it is proved that nothing was done, and the
	// next attempt may perform it. One that another attempt has begun since (when a
	// person said that this one had died) is left alone: the proof is not about it.
	Release(ctx context.Context, c Claims) error
	// Doubt makes an operation that is Running an Unresolved one at once.
	Doubt(ctx context.Context, op Operation) error
}
