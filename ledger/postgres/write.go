package postgres

import (
	"cmp"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/onceward/onceward/ledger"
)

// write is one caller's write, to be made in a batch with others. One of
// opening, change and statement is set.
type write struct {
	tenant, key string
	id          pgtype.UUID     // of the operation that is opened or changed
	opening     *ledger.Opening // of a new operation
	change      *ledger.Change  // of one that exists
	statement   string          // anything else about one that exists, with args
	args        pgx.NamedArgs
	corrects    bool            // opening corrects an operation that exists
	looks       bool            // its caller looks again when the answer was lost
	restored    *ledger.Restore // why opening is in doubt

	// What came of it. Not done without an error is a key that is taken, or an
	// operation that has moved on.
	done    bool
	facts   facts             // of an opening or a change: what the database had to add
	stored  *ledger.Operation // the operation itself, where it was read
	refusal *refusal          // of an opening: what it cannot have
	err     error
	unsure  bool // it was sent, and its answer was lost
}

// opens is the write of an opening, which it keeps.
func opens(o *ledger.Opening) *write {
	return &write{tenant: o.Operation.Tenant, key: o.Operation.Key, id: uuidOf(o.Operation.ID), opening: o}
}

// changes is the write of a change, which it keeps, with texts that the database takes.
func changes(c *ledger.Change) *write {
	makeStorable(c)
	return &write{tenant: c.Operation.Tenant, key: c.Operation.Key, id: uuidOf(c.Operation.ID), change: c}
}

// bytes is about how much a write adds to a message.
func (w *write) bytes() int {
	switch {
	case w.opening != nil:
		return len(w.opening.Sealed) + 1000
	case w.change != nil:
		return len(w.change.Receipt) + 1000
	}
	return 1000
}

// byRow is the order in which all batches take their rows, so that no two wait
// for each other. It is that of the tables' collation.
func byRow(a, b *write) int {
	return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.key, b.key))
}

// take takes the operation that a statement about one returns.
func (w *write) take(rows pgx.Rows) error {
	ops, err := pgx.CollectRows(rows, scanOperation)
	if len(ops) == 1 {
		w.stored, w.done = &ops[0], true
	}
	return err
}

// operation is what a write that is done has made. Its caller puts it together, not
// the flight, which others wait for.
func (w *write) operation() ledger.Operation {
	switch {
	case w.stored != nil:
		return *w.stored
	case w.opening != nil:
		return opened(w.opening, w.restored, w.facts.at)
	default:
		return moved(w.change, &w.facts)
	}
}

// byID finds the writes that rows are about. Those come in the order of the writes,
// with some left out, so that it looks on from the last one it found.
type byID struct {
	writes []*write
	next   int
}

// find returns nil where a row is about none of them.
func (b *byID) find(id pgtype.UUID) *write {
	for range b.writes {
		w := b.writes[b.next%len(b.writes)]
		b.next++
		if w.id == id {
			return w
		}
	}
	return nil
}
