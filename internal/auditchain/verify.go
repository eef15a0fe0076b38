package auditchain

import "fmt"

// Problem is something that is wrong with the record of an operation.
type Problem struct {
	Tenant, OperationID string
	// Sequence is of the event where it shows.
	Sequence int64
	What     string
}

func (p Problem) String() string {
	return fmt.Sprintf("operation %s of %s, event %d: %s", p.OperationID, p.Tenant, p.Sequence, p.What)
}

// Verifier reads a record in the order of tenant, operation and sequence, and
// tells of what is wrong with it. It keeps one event in memory. It is not safe for
// concurrent use.
type Verifier struct {
	// Found is told of every problem.
	Found func(Problem)

	// Events and Operations is how many were read; refused requests and kill
	// switches count as operations of one event.
	Events, Operations int64

	last Event  // of the operation that is being read
	head string // as the ledger keeps it
	kept bool   // whether the ledger said what it keeps
	open bool   // whether there is an operation that is being read
}

// Add reads the next event.
func (v *Verifier) Add(e Event) {
	v.Events++
	before := v.last
	if !v.open || e.Tenant != before.Tenant || e.OperationID != before.OperationID {
		v.finish()
		if v.open && (e.Tenant < before.Tenant || e.Tenant == before.Tenant && e.OperationID < before.OperationID) {
			v.found(e, "the record is not in the order of tenant and operation")
		}
		v.begin(e)
		return
	}
	v.last = e
	if e.Sequence <= before.Sequence {
		v.found(e, fmt.Sprintf("it comes after event %d: it is there twice, or not in its place", before.Sequence))
		return
	}
	if link, err := e.Link(before.Chain); err != nil || link != e.Chain {
		what := fmt.Sprintf("it does not follow from event %d: one of the two was changed, or what was between them was removed", before.Sequence)
		if e.From != before.To {
			what = fmt.Sprintf("an event between it and event %d was removed, or one of the two was changed: that one ends in state %q and this one begins in %q",
				before.Sequence, before.To, e.From)
		}
		v.found(e, what)
	}
}

// begin reads the first event of an operation that there is.
func (v *Verifier) begin(e Event) {
	v.Operations++
	v.open, v.last, v.head, v.kept = true, e, "", false
	if e.Head != nil {
		v.head, v.kept = *e.Head, true
	}
	if e.Sequence != 1 {
		v.found(e, "the events before it were removed")
		return
	}
	if link, err := e.Link(""); err != nil || link != e.Chain {
		v.found(e, "it was changed")
	}
}

// finish looks whether the end of an operation's record is there.
func (v *Verifier) finish() {
	e := v.last
	switch {
	case !v.open:
	case e.Last != nil && !*e.Last:
		v.found(e, "the events after it were removed")
	case !v.kept:
	case v.head != "" && v.head != e.Chain:
		v.found(e, "the events after it were removed, or it was changed: the operation in the ledger has another one as its last")
	case v.head == "" && e.To != "" && e.To != "succeeded" && e.To != "failed":
		v.found(e, fmt.Sprintf("the events after it were removed, or the operation was: a %s one does not leave the ledger", e.To))
	}
}

// End is called after the last event.
func (v *Verifier) End() {
	v.finish()
	v.open = false
}

func (v *Verifier) found(e Event, what string) {
	v.Found(Problem{Tenant: e.Tenant, OperationID: e.OperationID, Sequence: e.Sequence, What: what})
}
