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
	switch op.State {
	case ledger.Unknown:
		return unlessOvertaken(r.resolve(ctx, op))
	case ledger.Pending:
		return unlessOvertaken(r.retry(ctx, op))
	case ledger.NeedsReview:
		return unlessOvertaken(r.lapse(ctx, op))
	case ledger.Succeeded, ledger.Failed:
		return unlessOvertaken(r.watch(ctx, op))
	default: // running: it is its worker's
		return nil
	}
}

// unlessOvertaken is what went wrong. That somebody else has moved the operation on
// did not.
func unlessOvertaken(err error) error {
	if errors.Is(err, ledger.ErrFenced) {
		return nil
	}
	return err
}
