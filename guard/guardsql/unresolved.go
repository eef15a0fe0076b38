package guardsql

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/guard"
)

// ErrNotUnresolved: there is no such operation, or it is not in doubt: it is
// finished, or a request may still be at work on it.
var ErrNotUnresolved = errors.New("guardsql: no operation of that name is unresolved")

// Unresolved is an operation that a request began, and did not say how it ended.
type Unresolved struct {
	Operation     guard.Operation
	ActionType    string
	ArgumentsHash string // as in the token's claims
	BegunAt       time.Time
}

// Unresolved returns the operations that wait for somebody to find out, the
// oldest first, at most limit. `onceward guard list` shows them.
func (s *Store) Unresolved(ctx context.Context, limit int) (list []Unresolved, err error) {
	rows, err := s.db.QueryContext(ctx, unresolvedSQL, limit)
	if err != nil {
		return nil, fmt.Errorf("guardsql: unresolved: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var u Unresolved
		if err := rows.Scan(&u.Operation.Tenant, &u.Operation.ID, &u.ActionType, &u.ArgumentsHash, &u.BegunAt); err != nil {
			return nil, fmt.Errorf("guardsql: unresolved: %w", err)
		}
		list = append(list, u)
	}
	return list, rows.Err()
}

// Resolve records what somebody found out about an operation that is unresolved.
// performed: the next request is refused with guard.ReasonDone; not: it performs
// the operation. Unlike Finish and Release, which are for the request itself, it
// touches nothing that a request may still be at work on, and fails with
// ErrNotUnresolved then.
func (s *Store) Resolve(ctx context.Context, op guard.Operation, performed bool) error {
	var done sql.Result
	var err error
	if performed {
		var response []byte
		if response, err = json.Marshal(guard.Response{NotKept: true}); err != nil {
			return fmt.Errorf("guardsql: response: %w", err)
		}
		done, err = s.db.ExecContext(ctx, resolvePerformedSQL, op.Tenant, op.ID, string(response))
	} else {
		done, err = s.db.ExecContext(ctx, resolveFreeSQL, op.Tenant, op.ID)
	}
	if err != nil {
		return fmt.Errorf("guardsql: resolve: %w", err)
	}
	if n, err := done.RowsAffected(); err != nil {
		return fmt.Errorf("guardsql: resolve: %w", err)
	} else if n == 0 {
		return ErrNotUnresolved
	}
	return nil
}
