package proof

import (
	"context"
	"errors"
	"time"

	"github.com/onceward/onceward/fakeprovider"
)

// Target is the provider of one path: it misbehaves on request, counts what it
// holds, and belongs to nobody else. Implementations must be safe for concurrent
// use.
//
// A method that scripts something fails where the target cannot do it, with an
// error that wraps [ErrCannot] or says itself why; the path is then reported as
// not applicable, for that reason.
type Target interface {
	// Next gives the next writes these faults, one each and in order.
	Next(faults ...fakeprovider.Fault) error
	// NextLookup gives the next look-ups these faults.
	NextLookup(faults ...fakeprovider.Fault) error
	// Pending counts the faults that no request has taken.
	Pending() int
	// Pause makes every new connection be refused until Resume.
	Pause() error
	Resume() error
	// Advance moves the target's clock forward: its keys grow old.
	Advance(d time.Duration) error

	// Effects returns what the target holds, oldest first.
	Effects() []Effect
	// Requests returns what it was asked, oldest first, with what is being
	// worked on.
	Requests() []Request
	// Quiet returns when no request is being worked on, or with the context's
	// error.
	Quiet(ctx context.Context) error

	// Close ends the target. Its effects and requests can still be read.
	Close() error
}

// ErrCannot: a target cannot misbehave in the way that a path asks for.
var ErrCannot = errors.New("the target cannot do this")

// Effect is one write that the target holds.
type Effect struct {
	// Reference is the provider's id of it, as its answers give it; empty where
	// the target cannot tell.
	Reference string
}

// Request is one request as the target received it.
type Request struct {
	// Write tells a request that could have an effect from a look-up.
	Write bool
	// Key is the idempotency key that came with it; empty for none.
	Key string
	// Digest stands for what must be the same in every attempt: method, target
	// and body.
	Digest string
	// Effect says that this request caused an effect.
	Effect bool
	// Status is what was answered; zero for no answer.
	Status int
	// Fault is the fault that it took.
	Fault string
}
