package postgres

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/ledger"
)

// The statements of tallies. Each is used by one method.
var (
	//go:embed sql/add_tallies.sql
	addTalliesSQL string
	//go:embed sql/tallies.sql
	talliesSQL string
	//go:embed sql/sweep_tallies.sql
	sweepTalliesSQL string
	//go:embed sql/sweep_tally_batches.sql
	sweepTallyBatchesSQL string
)

// batchMemory is how long a batch of tallies is known: longer than anybody
// tries to add it.
const batchMemory = 7 * 24 * time.Hour

// Every method of this file fails with ledger.ErrNoStatistics on a schema that
// is older than tallies.

// AddTallies adds to what was counted, all or nothing. Adding a batch (a UUID)
// again within a week does nothing, so that it can be tried until an answer
// comes. Two tallies of a batch that differ in count and amount only must not
// be. The hour of a tally is rounded down.
//
// ledger.ErrUnavailable: it may have been added or not.
func (s *Store) AddTallies(ctx context.Context, batch string, tallies []ledger.Tally) error {
	n := len(tallies)
	tenants, types, whats, causes := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	hours, stated, currencies := make([]time.Time, n), make([]bool, n), make([]string, n)
	counts, amounts := make([]int64, n), make([]string, n)
	for i, t := range tallies {
		tenants[i], types[i], whats[i], causes[i] = t.Tenant, ledger.StorableText(t.ActionType), t.What, ledger.StorableText(t.Cause)
		hours[i], stated[i], currencies[i] = t.Hour.UTC().Truncate(time.Hour), t.Stated, ledger.StorableText(t.Currency)
		counts[i], amounts[i] = t.Count, cmp.Or(t.Amount, "0")
	}
	_, err := s.pool.Exec(ctx, addTalliesSQL, pgx.NamedArgs{
		"batch": batch, "tenants": tenants, "hours": hours, "types": types, "whats": whats, "causes": causes, "stated": stated,
		"currencies": currencies, "counts": counts, "amounts": amounts,
	})
	return statisticsError(err)
}

// Tallies sums up what was counted for a tenant from one full hour until before
// another, of one action type or, where it is empty, of all. The sums have no
// hour.
func (s *Store) Tallies(ctx context.Context, tenant string, from, to time.Time, actionType string) ([]ledger.Tally, error) {
	rows, err := s.pool.Query(ctx, talliesSQL, pgx.NamedArgs{"tenant": tenant, "from": from, "to": to, "action_type": actionType})
	if err != nil {
		return nil, statisticsError(err)
	}
	sums, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (ledger.Tally, error) {
		t := ledger.Tally{Tenant: tenant}
		return t, row.Scan(&t.ActionType, &t.What, &t.Cause, &t.Stated, &t.Currency, &t.Count, &t.Amount)
	})
	return sums, statisticsError(err)
}

// SweepTallies forgets tallies of hours longer than keep ago, at most limit, and
// as many batches that are old. It returns how many rows went; fewer than limit
// means that no more are due.
func (s *Store) SweepTallies(ctx context.Context, limit int, keep time.Duration) (swept int64, err error) {
	return s.sweepBoth(ctx, sweepTalliesSQL, keep, sweepTallyBatchesSQL, batchMemory, limit)
}

// sweepBoth runs two sweeping statements and returns how many rows went by the
// one that found more.
func (s *Store) sweepBoth(ctx context.Context, one string, keepOne time.Duration, other string, keepOther time.Duration, limit int) (swept int64, err error) {
	first, err := s.pool.sweep(ctx, one, pgx.NamedArgs{"limit": limit, "keep_us": micros(keepOne)})
	if err != nil {
		return 0, statisticsError(err)
	}
	second, err := s.pool.sweep(ctx, other, pgx.NamedArgs{"limit": limit, "keep_us": micros(keepOther)})
	return max(first.RowsAffected(), second.RowsAffected()), statisticsError(err)
}

// statisticsError is unavailable for statements about tallies and observations.
func statisticsError(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == pgerrcode.UndefinedTable {
		return ledger.ErrNoStatistics
	}
	return unavailable(err)
}
