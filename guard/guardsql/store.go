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

// Store is a guard.Store on Postgres. It is safe for concurrent use, by all
// processes of a service.
type Store struct{ db *sql.DB }

var _ guard.Store = (*Store)(nil)

// New makes a store on a database that has the table of Schema.
func New(db *sql.DB) *Store { return &Store{db} }

// tries of Begin: an entry can be released between its two statements.
const tries = 3

// Begin implements guard.Store.
func (s *Store) Begin(ctx context.Context, c guard.Claims, hold time.Duration) (guard.Entry, error) {
	for range tries {
		entry, err := begin(ctx, s.db, c, hold)
		if !errors.Is(err, sql.ErrNoRows) {
			return entry, err
		}
	}
	return guard.Entry{}, errors.New("guardsql: the operation is claimed and released all the time")
}

// connection is a database or a transaction.
type connection interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// begin fails with sql.ErrNoRows when the entry went away in between.
func begin(ctx context.Context, db connection, c guard.Claims, hold time.Duration) (guard.Entry, error) {
	claimed, err := db.ExecContext(ctx, beginSQL, c.Tenant, c.OperationID, c.ActionType, c.ArgumentsHash, hold.Seconds(), c.Attempt)
	if err != nil {
		return guard.Entry{}, fmt.Errorf("guardsql: claim: %w", err)
	}
	if n, err := claimed.RowsAffected(); err != nil {
		return guard.Entry{}, fmt.Errorf("guardsql: claim: %w", err)
	} else if n == 1 {
		return guard.Entry{State: guard.Begun, ArgumentsHash: c.ArgumentsHash}, nil
	}
	var entry guard.Entry
	var response []byte
	if err := db.QueryRowContext(ctx, findSQL, c.Tenant, c.OperationID).Scan(&entry.State, &entry.ArgumentsHash, &response); err != nil {
		return guard.Entry{}, fmt.Errorf("guardsql: find: %w", err)
	}
	if response != nil {
		if err := json.Unmarshal(response, &entry.Response); err != nil {
			return guard.Entry{}, fmt.Errorf("guardsql: stored response: %w", err)
		}
	}
	return entry, nil
}

// Finish implements guard.Store.
func (s *Store) Finish(ctx context.Context, op guard.Operation, r guard.Response) error {
	return finish(ctx, s.db, op, r)
}

func finish(ctx context.Context, db connection, op guard.Operation, r guard.Response) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("guardsql: response: %w", err)
	}
	if _, err := db.ExecContext(ctx, finishSQL, op.Tenant, op.ID, string(text)); err != nil {
		return fmt.Errorf("guardsql: finish: %w", err)
	}
	return nil
}

// Release implements guard.Store.
func (s *Store) Release(ctx context.Context, c guard.Claims) error {
	if _, err := s.db.ExecContext(ctx, releaseSQL, c.Tenant, c.OperationID, c.Attempt); err != nil {
		return fmt.Errorf("guardsql: release: %w", err)
	}
	return nil
}

// Doubt implements guard.Store.
func (s *Store) Doubt(ctx context.Context, op guard.Operation) error {
	if _, err := s.db.ExecContext(ctx, doubtSQL, op.Tenant, op.ID); err != nil {
		return fmt.Errorf("guardsql: doubt: %w", err)
	}
	return nil
}

// Forget deletes finished operations that began longer ago than keep, and
// returns how many. keep must be longer than Onceward may still send an
// operation: than the key window of the provider contract.
func (s *Store) Forget(ctx context.Context, keep time.Duration) (int64, error) {
	if keep <= 0 {
		return 0, errors.New("guardsql: Forget wants a time above 0")
	}
	gone, err := s.db.ExecContext(ctx, forgetSQL, keep.Seconds())
	if err != nil {
		return 0, fmt.Errorf("guardsql: forget: %w", err)
	}
	return gone.RowsAffected()
}
