package ledger

import "slices"

// State is where an operation is in its life: the status column.
type State string

// The six states, and New for an operation that is not recorded yet.
const (
	New         State = ""
	Pending     State = "pending"
	Running     State = "running"
	Succeeded   State = "succeeded"
	Unknown     State = "unknown"
	Failed      State = "failed"
	NeedsReview State = "needs_review"
)

// States returns the six recorded states in the order of an operation's life.
func States() []State {
	return []State{Pending, Running, Succeeded, Unknown, Failed, NeedsReview}
}

// Final reports whether an operation in this state is finished. A failed
// operation can still be corrected or contradicted.
func (s State) Final() bool { return s == Succeeded || s == Failed }

// Event is what moves an operation from one state to another.
type Event string

// The events. Each is written to the audit record with the move it made.
const (
	Record     Event = "record"     // remember a request that is not sent yet
	Claim      Event = "claim"      // commit an attempt before its call
	Confirm    Event = "confirm"    // a receipt
	Refuse     Event = "refuse"     // proof that nothing was applied; no more tries
	Defer      Event = "defer"      // proof that nothing was applied; try again later
	Doubt      Event = "doubt"      // anything that proves nothing, lease expiry included; a restored ledger
	Replay     Event = "replay"     // the same provider key again, inside its horizon
	Escalate   Event = "escalate"   // to a person
	Approve    Event = "approve"    // a person says: send it
	Release    Event = "release"    // a person says: not applied, try again
	Reject     Event = "reject"     // a person says: do not send it
	Cancel     Event = "cancel"     // the requester withdraws
	Expire     Event = "expire"     // nobody decided in time
	Correct    Event = "correct"    // other arguments for an operation that was not applied
	Contradict Event = "contradict" // an effect shows up on an operation called failed
)

// Events returns every event in a fixed order.
func Events() []Event {
	return []Event{Record, Claim, Confirm, Refuse, Defer, Doubt, Replay, Escalate,
		Approve, Release, Reject, Cancel, Expire, Correct, Contradict}
}

// Move is one legal move of the state machine.
type Move struct {
	From  State
	Event Event
	To    State
}

// moves is the whole state machine. It is not changed.
var moves = [...]Move{
	{New, Record, Pending},
	{New, Claim, Running},
	{New, Doubt, Unknown}, // its key may be one that a restored ledger forgot
	{New, Escalate, NeedsReview},

	{Pending, Claim, Running},
	{Pending, Doubt, Unknown}, // by a restore
	{Pending, Escalate, NeedsReview},
	{Pending, Reject, Failed},
	{Pending, Cancel, Failed},
	{Pending, Expire, Failed},

	{Running, Confirm, Succeeded},
	{Running, Refuse, Failed},
	{Running, Defer, Pending},
	{Running, Doubt, Unknown},

	{Unknown, Confirm, Succeeded},
	{Unknown, Refuse, Failed},
	{Unknown, Defer, Pending},
	{Unknown, Replay, Running},
	{Unknown, Escalate, NeedsReview},

	{Failed, Correct, Pending},
	{Failed, Contradict, NeedsReview},

	{NeedsReview, Confirm, Succeeded},
	{NeedsReview, Refuse, Failed},
	{NeedsReview, Doubt, Unknown}, // by a restore
	{NeedsReview, Approve, Pending},
	{NeedsReview, Release, Pending},
	{NeedsReview, Reject, Failed},
	{NeedsReview, Cancel, Failed},
	{NeedsReview, Expire, Failed},
}

// Moves returns the whole state machine: every legal move, sorted by state and
// event. What is not in it is illegal.
func Moves() []Move { return slices.Clone(moves[:]) }

// Next returns where an event leads from a state, or false when the move is
// illegal. It is pure.
func Next(from State, event Event) (State, bool) {
	for i := range moves {
		if moves[i].From == from && moves[i].Event == event {
			return moves[i].To, true
		}
	}
	return "", false
}
