package reconciler

import (
	"context"
	"errors"

	"github.com/onceward/onceward/ledger"
)

// Work does once what is due about one operation, as a round does for each that
// it takes: it resolves a leased unknown one, makes the attempt of a pending one,
// lapses the approval of one before a person, and looks for a late landing of a
// finished one. The operation must be as the ledger returned it when it was taken.
// internal/model goes through every order of events with it.
//
// Being overtaken is no error. An error means that nothing was moved, and that
// the operation comes up again when its lease ends.
func (r *Reconciler) Work(ctx context.Context, op ledger.Operation) error {
	var do func(context.Context, ledger.Operation) error
	switch op.State {
	case ledger.Unknown:
		do = r.resolve
	case ledger.Pending:
		do = r.retry
	case ledger.NeedsReview:
		do = r.lapse
	case ledger.Succeeded, ledger.Failed:
		do = r.watch
	default: // running: it is its worker's
		return nil
	}
	return r.unlessOvertaken(op, do(ctx, op))
}

// unlessOvertaken is what went wrong about an operation. That somebody else has moved
// it on did not.
func (r *Reconciler) unlessOvertaken(op ledger.Operation, err error) error {
	if errors.Is(err, ledger.ErrFenced) {
		r.log(op).Debug("overtaken")
		return nil
	}
	return err
}
