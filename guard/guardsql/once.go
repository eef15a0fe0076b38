package guardsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/onceward/onceward/guard"
)

// Once performs the operation of claims in the caller's transaction, at most
// once: claim, what perform writes through tx, and its response are committed
// together or not at all. For an operation that was performed it returns that
// response and replayed, and does not call perform. Whoever fails to commit has
// done nothing, so that the next attempt performs it; where the answer to the
// commit is lost, the next attempt finds out.
//
// When perform fails, its writes and the claim are undone in tx, its error is
// returned, and the transaction can go on. Everything else that is returned is a
// *guard.RefusedError: guard.ReasonInProgress while another transaction performs it,
// guard.ReasonMismatch, guard.ReasonUnresolved (claimed by a Store),
// guard.ReasonDone, and guard.ReasonUnavailable, after which tx is of no use.
//
// Use it with guard.Options.HandlersClaim. A pooler in transaction mode is no
// trouble.
func Once(ctx context.Context, tx *sql.Tx, claims guard.Claims, perform func(context.Context, *sql.Tx) (guard.Response, error)) (r guard.Response, replayed bool, err error) {
	replay, err := claim(ctx, tx, claims)
	switch {
	case err != nil:
		return guard.Response{}, false, err
	case replay != nil:
		return *replay, true, nil
	}
	r, failed := perform(ctx, tx)
	if failed == nil {
		if err := finish(ctx, tx, claims.Operation(), r); err != nil {
			return guard.Response{}, false, unavailable(err)
		}
		return r, false, nil
	}
	if _, err := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT onceward_guard"); err != nil {
		// Then the transaction cannot be committed either.
		return guard.Response{}, false, errors.Join(failed, unavailable(err))
	}
	return guard.Response{}, false, failed
}

// claim claims an operation under a lock, so that a second request is told at
// once and does not wait for the first one's end.
func claim(ctx context.Context, tx *sql.Tx, claims guard.Claims) (*guard.Response, error) {
	var free bool
	if err := tx.QueryRowContext(ctx, lockSQL, claims.Tenant, claims.OperationID).Scan(&free); err != nil {
		return nil, unavailable(fmt.Errorf("guardsql: lock: %w", err))
	}
	if !free {
		return nil, &guard.RefusedError{Reason: guard.ReasonInProgress}
	}
	if _, err := tx.ExecContext(ctx, "SAVEPOINT onceward_guard"); err != nil {
		return nil, unavailable(fmt.Errorf("guardsql: savepoint: %w", err))
	}
	// The hold says nothing here: nobody sees the row before it is finished.
	entry, err := begin(ctx, tx, claims, guard.DefaultHold)
	if err != nil {
		return nil, unavailable(err)
	}
	return guard.Judge(claims, entry)
}

func unavailable(err error) *guard.RefusedError {
	return &guard.RefusedError{Reason: guard.ReasonUnavailable, Err: err}
}
