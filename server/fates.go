package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/onceward/onceward/ledger"
)

// fate is what became of a caller.
type fate int

const (
	fateUnknown      fate = iota // no caller of the operation was seen here, or too long ago
	stillWaiting                 // it waits for the operation
	answered                     // it got the outcome, as far as this server can tell
	toldToWait                   // it was told to ask again, or that a person must decide first
	leftByDeadline               // its deadline passed, or cut its wait short
	leftByConnection             // it cancelled its call, or its connection broke
)

// maxFates bounds the memory of callers' fates, in operations: some 2 MB. What
// came first goes first; most duplicates come within minutes.
const maxFates = 16384

// fates remembers, for the operations that this server was asked about last,
// whether somebody waits and what became of the last caller. It is a help to
// explain duplicates, no record. It is safe for concurrent use.
type fates struct {
	mu    sync.Mutex
	known map[string]*fateEntry
	order []string // the operations in known, in the order in which they came: a ring
	next  int      // the place in it that is written next
}

// fateEntry is what is known of one operation's callers.
type fateEntry struct {
	waiting int
	last    fate
	since   time.Time // when the last one came to its end
}

func newFates() *fates { return &fates{known: map[string]*fateEntry{}} }

// arrived notes that a caller came for an operation, and returns what became of
// the one before it, and how long ago (0 while it waits). Each call is followed
// by one of done.
func (f *fates) arrived(operationID string) (last fate, since time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.known[operationID]
	if e == nil {
		e = &fateEntry{}
		f.remember(operationID, e)
	}
	last = e.last
	switch {
	case e.waiting > 0:
		last = stillWaiting
	case last != fateUnknown:
		since = time.Since(e.since)
	}
	e.waiting++
	return last, since
}

// remember makes room by forgetting what came first.
func (f *fates) remember(operationID string, e *fateEntry) {
	if len(f.order) < maxFates {
		f.order = append(f.order, operationID)
	} else {
		delete(f.known, f.order[f.next])
		f.order[f.next] = operationID
		f.next = (f.next + 1) % maxFates
	}
	f.known[operationID] = e
}

// done notes how a call about an operation ended: ctx is the caller's, op what it
// is answered with.
func (f *fates) done(ctx context.Context, op *ledger.Operation) {
	f.ended(op.ID, fateOf(ctx, op))
}

func fateOf(ctx context.Context, op *ledger.Operation) fate {
	switch err := ctx.Err(); {
	case errors.Is(err, context.DeadlineExceeded):
		return leftByDeadline
	case err != nil:
		return leftByConnection
	case op.State.Final():
		return answered
	case settled(op): // a review: it got no outcome, and comes back for it
		return toldToWait
	}
	// A wait ends shortly before the deadline, so that the caller still hears
	// what is known. What it wanted by then it did not get.
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= answerMargin {
		return leftByDeadline
	}
	return toldToWait
}

func (f *fates) ended(operationID string, how fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.known[operationID]
	if e == nil { // forgotten meanwhile
		return
	}
	e.waiting = max(e.waiting-1, 0)
	e.last, e.since = how, time.Now()
}
