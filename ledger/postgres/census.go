package postgres

import (
	"context"
	_ "embed"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/ledger"
)

// The statements of those who watch the ledger. They have connections of their own:
// a pool that is used up is no ledger that is away.
var (
	//go:embed sql/look.sql
	lookSQL string
	//go:embed sql/census.sql
	censusSQL string
)

// How much a census looks at, and how long it may take. A row costs some
// microseconds: with a million open operations it takes about as long as with
// these.
const (
	censusRows    = 20_000  // of each kind that is looked at one by one
	censusReviews = 200_000 // that are counted
	censusTimeout = 5 * time.Second
)

// censusLimits are how many rows a census reads: one by one, and reviews to count.
type censusLimits struct{ rows, reviews int }

// ErrStandby: what answers is a standby, on which nothing can be claimed.
var ErrStandby = errors.New("ledger: this is a read-only standby; claims are decided on the primary: point the database url there (target_session_attrs=read-write)")

// Look checks that the ledger answers and that this program can write to it, and
// reports whether a restore is in force for anybody. It does not wait for requests.
// ledger.ErrUnavailable: it does not answer; ErrStandby; ErrOldSchema: its schema is not
// the one that this program knows.
func (s *Store) Look(ctx context.Context) (restored bool, err error) {
	names, columns := knownTypes()
	var standby bool
	var known int
	err = s.looks.QueryRow(ctx, lookSQL, pgx.NamedArgs{"names": names, "columns": columns}).Scan(&standby, &known, &restored)
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && refused.Code == pgerrcode.UndefinedTable: // restores
		return false, ErrOldSchema
	case err != nil:
		return false, unavailable(err)
	case standby:
		return false, ErrStandby
	case known != len(names):
		return false, ErrOldSchema
	}
	return restored, nil
}

// knownTypes are the row types that this program sends, with how many columns each
// has.
func knownTypes() (names []string, columns []int32) {
	for _, t := range rowTypes() {
		names, columns = append(names, t.name), append(columns, int32(len(t.columns)))
	}
	return names, columns
}

// Census counts what is open. It reads no more than a stated number of rows, and
// ends after five seconds with ledger.ErrUnavailable.
func (s *Store) Census(ctx context.Context) (ledger.Census, error) {
	return s.census(ctx, censusLimits{censusRows, censusReviews})
}

func (s *Store) census(ctx context.Context, l censusLimits) (ledger.Census, error) {
	// The server ends it, and the client if that is away, too.
	ctx, cancel := context.WithTimeout(ctx, censusTimeout+time.Second)
	defer cancel()
	census := ledger.Census{Switches: map[ledger.SwitchScope]int{}, Reviews: map[ledger.ReviewReason]int{}}
	batch := &pgx.Batch{}
	queueCensus(batch, l, func(rows pgx.Rows) error { return readCensus(rows, &census) })
	if err := s.looks.SendBatch(ctx, batch).Close(); err != nil {
		return ledger.Census{}, unavailable(err)
	}
	return census, nil
}

// queueCensus adds the census to a batch, with the settings that let it reach its
// rows by their indexes whatever the tables look like.
func queueCensus(batch *pgx.Batch, l censusLimits, read func(pgx.Rows) error) {
	settings := maps.Clone(batchSettings)
	settings["statement_timeout"] = strconv.FormatInt(censusTimeout.Milliseconds(), 10)
	// Whoever holds a lock on a whole table (a migration) is not waited for.
	settings["lock_timeout"] = hurriedLockTimeout
	names := slices.Sorted(maps.Keys(settings))
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = settings[name]
	}
	batch.Queue(batchSettingsSQL, pgx.NamedArgs{"names": names, "values": values})
	batch.Queue(censusSQL, pgx.NamedArgs{"limit": l.rows, "reviews": l.reviews}).Query(read)
}

// What stands for a state in rows about other things than operations.
const (
	switchRow  = "switch"
	restoreRow = "restore"
	reasonRow  = "reason"
)

func readCensus(rows pgx.Rows, census *ledger.Census) error {
	var kind, of string
	var n, overdue int
	var age float64
	named := ledger.OpenCount{} // reviews whose action type was looked at
	var reviews ledger.OpenCount
	_, err := pgx.ForEachRow(rows, []any{&kind, &of, &n, &overdue, &age}, func() error {
		switch kind {
		case switchRow:
			census.Switches[ledger.SwitchScope(of)] = n
			return nil
		case restoreRow:
			census.Restores = n
			return nil
		case reasonRow:
			census.Reviews[ledger.ReviewReason(of)] = n
			return nil
		}
		c := ledger.OpenCount{
			State: ledger.State(kind), ActionType: of, Count: n, Overdue: overdue,
			Oldest: time.Duration(age * float64(time.Second)),
		}
		switch {
		case c.State == ledger.NeedsReview && of == "":
			reviews = c
			return nil
		case c.State == ledger.NeedsReview:
			named.Count += c.Count
			named.Overdue += c.Overdue
		}
		census.Open = append(census.Open, c)
		return nil
	})
	if err != nil {
		return err
	}
	// One review is one operation; those that nobody looked at have the age of all.
	if rest := reviews.Count - named.Count; rest > 0 {
		reviews.Count, reviews.Overdue = rest, max(reviews.Overdue-named.Overdue, 0)
		census.Open = append(census.Open, reviews)
	}
	return nil
}
