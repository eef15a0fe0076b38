package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/ledger"
)

// The methods of this file are the reconciler's. They look across tenants and
// take rows one by one, so that many replicas share the work.

// tombstoneRest is how long a tombstone lies before its row goes: longer than
// any claim can be under way.
const tombstoneRest = time.Minute

// ExpireLeases moves running operations whose lease ran out to unknown, and
// returns them. It looks at most at limit leases, each of which is for the
// operations of one claiming transaction; more reports that others are due.
func (s *Store) ExpireLeases(ctx context.Context, limit int) (ops []ledger.Operation, more bool, err error) {
	ops, err = s.write(ctx, expireLeasesSQL, pgx.NamedArgs{"limit": limit})
	if err != nil {
		return nil, false, err
	}
	return ops, more, unavailable(s.pool.QueryRow(ctx, leasesDueSQL).Scan(&more))
}

// DuePending returns pending operations whose next attempt is due, at most
// limit. Start decides who makes it.
func (s *Store) DuePending(ctx context.Context, limit int) ([]ledger.Operation, error) {
	ops, err := queryOperations(ctx, s.pool, duePendingSQL, pgx.NamedArgs{"limit": limit})
	return ops, unavailable(err)
}

// LeaseUnknown takes unknown operations that are due for the caller alone, at
// most limit, until the lease ends.
func (s *Store) LeaseUnknown(ctx context.Context, limit int, lease time.Duration) ([]ledger.Operation, error) {
	return s.write(ctx, leaseUnknownSQL, pgx.NamedArgs{"limit": limit, "lease_us": micros(lease)})
}

// Postpone puts a pending or a leased unknown operation off. ErrFenced when the
// lease is no longer the caller's or the operation has moved on.
func (s *Store) Postpone(ctx context.Context, p ledger.Postponement) (ledger.Operation, error) {
	return s.alter(ctx, postponeSQL, p.Operation, pgx.NamedArgs{
		"from": p.Operation.State, "attempt": p.Operation.Attempt, "lease": p.Operation.Lease,
		"delay_us": micros(p.Delay), "reason": ledger.StorableText(p.Reason), "negative_reads": p.NegativeReads, "untried": oneIf(p.Untried),
		"reference": ledger.StorableText(p.ProviderReference),
	})
}

// ExpiredReviews returns operations whose open review has lapsed, at most limit.
func (s *Store) ExpiredReviews(ctx context.Context, limit int) ([]ledger.Operation, error) {
	ops, err := queryOperations(ctx, s.pool, expiredReviewsSQL, pgx.NamedArgs{"limit": limit})
	return ops, unavailable(err)
}

// LeaseWatched takes finished operations whose late landing is to be looked
// for, at most limit; each comes up again after gap.
func (s *Store) LeaseWatched(ctx context.Context, limit int, gap time.Duration) ([]ledger.Operation, error) {
	return s.write(ctx, leaseWatchedSQL, pgx.NamedArgs{"limit": limit, "gap_us": micros(gap)})
}

// EndWatch ends the watch of an operation that is past its time and drops its
// arguments. It does nothing before that.
func (s *Store) EndWatch(ctx context.Context, op ledger.Operation) error {
	_, err := s.pool.Exec(ctx, endWatchSQL, pgx.NamedArgs{"tenant": op.Tenant, "key": op.Key, "id": op.ID})
	return unavailable(err)
}

// Sweep looks at the first limit operations that may be past their windows. It
// removes those that are, and leaves tombstones where their keys are refused for
// ever; such an operation goes when its tombstone has rested. What cannot go yet
// is put off. So it does with counters that count nothing any more and intents
// that are free. It returns how many tombstones were laid and how many operations
// went; more reports that others are due, unless this look did nothing, since what
// is due is locked then.
func (s *Store) Sweep(ctx context.Context, limit int) (buried, swept int64, more bool, err error) {
	args := pgx.NamedArgs{"limit": limit, "rest_us": micros(tombstoneRest)}
	tag, err := s.pool.sweep(ctx, burySQL, args)
	if err != nil {
		return 0, 0, false, unavailable(err)
	}
	buried = tag.RowsAffected()
	if tag, err = s.pool.sweep(ctx, sweepSQL, args); err != nil {
		return buried, 0, false, unavailable(err)
	}
	swept = tag.RowsAffected()
	did := buried + swept
	for _, sql := range []string{sweepCountersSQL, sweepIntentsSQL} {
		if tag, err = s.pool.sweep(ctx, sql, pgx.NamedArgs{"limit": limit}); err != nil {
			return buried, swept, false, unavailable(err)
		}
		did += tag.RowsAffected()
	}
	if did == 0 {
		return 0, 0, false, nil
	}
	return buried, swept, more, unavailable(s.pool.QueryRow(ctx, sweepDueSQL).Scan(&more))
}

// PrepareAudit makes room for the audit events of operations of the days to
// come. Replicas may all do it.
func (s *Store) PrepareAudit(ctx context.Context, days int) error {
	_, err := s.pool.Exec(ctx, prepareAuditSQL, pgx.NamedArgs{"days": days})
	return unavailable(err)
}
