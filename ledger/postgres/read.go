package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/ledger"
)

// row returns the one operation that a statement selects, or ErrNotFound.
func (s *Store) row(ctx context.Context, sql string, args pgx.NamedArgs) (ledger.Operation, error) {
	ops, err := queryOperations(ctx, s.pool, sql, args)
	if err != nil {
		return ledger.Operation{}, unavailable(err)
	}
	if len(ops) == 0 {
		return ledger.Operation{}, ledger.ErrNotFound
	}
	return ops[0], nil
}

// GetByKey returns the operation that holds a key, without its attempts and
// review, or ErrNotFound; ErrOverloaded when too many wait. Callers who ask at the
// same time share a statement.
func (s *Store) GetByKey(ctx context.Context, tenant, key string) (ledger.Operation, error) {
	if s.reads.full() {
		s.observer.Overloaded(ledger.Reads)
		return ledger.Operation{}, ledger.ErrOverloaded
	}
	h, err := s.holder(ctx, tenant, key)
	return h.op, err
}

// rowKey names an operation within the ledger.
type rowKey struct{ tenant, key string }

// holding is the operation that holds a key. expired says what becomes of the
// key when its operation is past its window ("reject" or "reuse"); it is empty
// while the operation answers for its key.
type holding struct {
	op      ledger.Operation
	expired string
}

// read is one caller's question who holds a key.
type read struct {
	key   rowKey
	found *holding // nil: nobody
	err   error
}

// holder returns who holds a key, or ErrNotFound.
func (s *Store) holder(ctx context.Context, tenant, key string) (holding, error) {
	r := &read{key: rowKey{tenant, key}}
	if err := errors.Join(s.reads.do(ctx, r), r.err); err != nil {
		return holding{}, err
	}
	if r.found == nil {
		return holding{}, ledger.ErrNotFound
	}
	return *r.found, nil
}

// flyReads answers a batch of questions with one statement, the same question
// once.
func (s *Store) flyReads(seats []*seat[*read]) []*seat[*read] {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	asked := make(map[rowKey]struct{}, len(seats))
	for _, seat := range seats {
		asked[seat.job.key] = struct{}{}
	}
	found, err := s.holders(ctx, slices.Collect(maps.Keys(asked)))
	for _, seat := range seats {
		seat.job.found, seat.job.err = found[seat.job.key], err
	}
	return nil
}

// holders returns who holds some keys.
func (s *Store) holders(ctx context.Context, keys []rowKey) (map[rowKey]*holding, error) {
	tenants, texts := make([]string, len(keys)), make([]string, len(keys))
	for i, key := range keys {
		tenants[i], texts[i] = key.tenant, key.key
	}
	rows, err := s.batches.Query(ctx, holdersSQL.sql, holdersSQL.args(pgx.NamedArgs{"tenants": tenants, "keys": texts})...)
	if err != nil {
		return nil, unavailable(err)
	}
	found := make(map[rowKey]*holding, len(keys))
	err = eachAnswer(rows, func(a *answer) {
		h := &holding{expired: a.text(), op: a.operation()}
		found[rowKey{h.op.Tenant, h.op.Key}] = h
	})
	if err != nil {
		return nil, unavailable(err)
	}
	return found, nil
}

// Buried reports whether a key has a tombstone: its operation is gone, and it is
// refused for ever.
func (s *Store) Buried(ctx context.Context, tenant, key string) (bool, error) {
	var buried bool
	err := s.pool.QueryRow(ctx, tombstoneSQL, pgx.NamedArgs{"tenant": tenant, "key": key}).Scan(&buried)
	return buried, unavailable(err)
}

// Get returns one operation of a tenant with its attempts and latest review,
// or ErrNotFound. The id must be a UUID.
func (s *Store) Get(ctx context.Context, tenant, id string) (ledger.Operation, error) {
	args := pgx.NamedArgs{"tenant": tenant, "id": id}
	op, err := s.row(ctx, getSQL, args)
	if err != nil {
		return ledger.Operation{}, err
	}
	rows, err := s.pool.Query(ctx, attemptsSQL, args)
	if err != nil {
		return ledger.Operation{}, unavailable(err)
	}
	if op.Attempts, err = pgx.CollectRows(rows, scanAttempt); err != nil {
		return ledger.Operation{}, unavailable(err)
	}
	review := &ledger.Review{}
	fields, done := reviewFields(review)
	err = s.pool.QueryRow(ctx, latestReviewSQL, args).Scan(fields...)
	if errors.Is(err, pgx.ErrNoRows) {
		return op, nil
	}
	if err != nil {
		return ledger.Operation{}, unavailable(err)
	}
	done()
	op.Review = review
	return op, nil
}

// List returns at most limit operations of a tenant, newest first, that come
// after the one with id before (empty: from the newest). It fills neither
// attempts nor reviews.
func (s *Store) List(ctx context.Context, tenant string, f ledger.Filter, before string, limit int) ([]ledger.Operation, error) {
	states := make([]string, len(f.States)) // a type that every way of executing knows
	for i, state := range f.States {
		states[i] = string(state)
	}
	ops, err := queryOperations(ctx, s.pool, listSQL, pgx.NamedArgs{
		"tenant": tenant, "before": nullIfEmpty(before), "limit": limit,
		"states": states, "action_type": f.ActionType, "run_id": f.RunID,
		"created_after": nullIfZero(f.CreatedAfter), "created_before": nullIfZero(f.CreatedBefore),
	})
	return ops, unavailable(err)
}

// Poll returns those of the named operations that have a newer revision.
func (s *Store) Poll(ctx context.Context, waited []ledger.Waited) ([]ledger.Operation, error) {
	tenants, keys, ids, revisions := make([]string, len(waited)), make([]string, len(waited)), make([]string, len(waited)), make([]int64, len(waited))
	for i, w := range waited {
		tenants[i], keys[i], ids[i], revisions[i] = w.Tenant, w.Key, w.ID, w.Revision
	}
	ops, err := queryOperations(ctx, s.pool, pollSQL, pgx.NamedArgs{"tenants": tenants, "keys": keys, "ids": ids, "revisions": revisions})
	return ops, unavailable(err)
}

// Arguments returns the sealed arguments of an operation; ErrNotFound when
// there is no such operation or they were dropped.
func (s *Store) Arguments(ctx context.Context, op ledger.Operation) ([]byte, error) {
	var sealed []byte
	err := s.pool.QueryRow(ctx, argumentsSQL, pgx.NamedArgs{"tenant": op.Tenant, "key": op.Key, "id": op.ID}).Scan(&sealed)
	if errors.Is(err, pgx.ErrNoRows) || (err == nil && sealed == nil) {
		return nil, ledger.ErrNotFound
	}
	return sealed, unavailable(err)
}

// Review returns a review of a tenant with its operation's id, or ErrNotFound.
func (s *Store) Review(ctx context.Context, tenant, id string) (ledger.Review, string, error) {
	review, operation, err := readReview(ctx, s.pool, pgx.NamedArgs{"tenant": tenant, "id": id})
	return review, operation, unavailable(err)
}

// readReview returns a review with its operation's id, or ErrNotFound.
func readReview(ctx context.Context, q querier, args pgx.NamedArgs) (ledger.Review, string, error) {
	var review ledger.Review
	var operation string
	fields, done := reviewFields(&review)
	rows, err := q.Query(ctx, reviewSQL, args)
	if err != nil {
		return ledger.Review{}, "", err
	}
	_, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (struct{}, error) {
		return struct{}{}, row.Scan(append([]any{&operation}, fields...)...)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return ledger.Review{}, "", ledger.ErrNotFound
	}
	done()
	return review, operation, err
}

// OpenReviews returns at most limit open reviews of a tenant, oldest first,
// after the one with id after (empty: from the oldest).
func (s *Store) OpenReviews(ctx context.Context, tenant, after string, limit int) ([]ledger.OpenReview, error) {
	if after == "" {
		after = "00000000-0000-0000-0000-000000000000"
	}
	rows, err := s.pool.Query(ctx, openReviewsSQL, pgx.NamedArgs{"tenant": tenant, "after": after, "limit": limit})
	if err != nil {
		return nil, unavailable(err)
	}
	reviews, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ledger.OpenReview])
	return reviews, unavailable(err)
}

func nullIfEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func nullIfZero(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
