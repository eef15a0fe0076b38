package growth

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/bench/contest"
	"github.com/onceward/onceward/bench/ledgerdb"
	"github.com/onceward/onceward/bench/onceward"
	"github.com/onceward/onceward/bench/storage"
)

// few is the history of a ledger that is nearly empty: something must be there
// for a duplicate to find.
func (h History) few() History {
	return History{Operations: min(10_000, h.Operations), Tenants: min(1_000, h.Tenants)}
}

// Size is the number of operations in short, as it is in the names of figures.
func (h History) Size() string {
	switch {
	case h.Operations >= 1_000_000 && h.Operations%1_000_000 == 0:
		return fmt.Sprintf("%dm", h.Operations/1_000_000)
	case h.Operations >= 1_000 && h.Operations%1_000 == 0:
		return fmt.Sprintf("%dk", h.Operations/1_000)
	}
	return fmt.Sprint(h.Operations)
}

// most is the greatest number of callers.
const most = 256

func widths() contest.Widths {
	return contest.Widths{Actions: []int{8, 64, most}, Duplicates: []int{8, 64}}
}

// asked is with how many callers a server is.
func asked() contest.Widths { return contest.Widths{Duplicates: []int{8, 64}} }

// The names of the measurements.
func long(h History) string  { return Name + "-" + h.Size() }
func short(h History) string { return long(h) + "-empty" }

// checkpointed is the name of what is measured right after a checkpoint.
func checkpointed(name string) string { return name + "-checkpointed" }

// The names of what is asked of a server over gRPC: any operation of a tenant that
// has a tenth of them all, and those of the last day.
func served(name string) string  { return name + "-grpc" }
func lastDay(name string) string { return name + "-grpc-day" }

// steady is how much longer than a measurement the ledger is written to before
// it counts, so that the pages that are touched for the first time after a
// checkpoint, and logged as a whole, are as many as in a server that runs: with
// a checkpoint every half hour, next to none.
const steady = 20

// longer is how much longer claims are measured then than anything else: vacuum
// comes by every minute or so, and a short measurement has all of it or nothing.
const longer = 10

// Name is the entry's.
const Name = "growth"

// Entry measures the ledger alone on a long history and on a short one, in turn.
// The long one is made once; what the rounds add to it is little.
func Entry(h History, o onceward.Options) contest.Entry {
	o.Forgetful = true
	var grown, fresh ledgerdb.Database
	var env contest.Env
	return contest.Entry{
		Name: Name,
		Promises: map[string]contest.Widths{
			long(h): widths(), short(h): widths(),
			checkpointed(long(h)): {Actions: []int{most}}, checkpointed(short(h)): {Actions: []int{most}},
			served(long(h)): asked(), served(short(h)): asked(), lastDay(long(h)): asked(), lastDay(short(h)): asked(),
		},
		Prepare: func(ctx context.Context, e contest.Env) (err error) {
			env = e
			grown, err = prepare(ctx, env, h)
			return err
		},
		Measure: func(ctx context.Context, round contest.Round) (err error) {
			if fresh, err = ledgerdb.Create(ctx, round.Env, "bench_short"); err != nil {
				return err
			}
			if err := Fill(ctx, round.Env, fresh, h.few()); err != nil {
				return err
			}
			if err := measure(ctx, round, o, short(h), fresh, h.few()); err != nil {
				return err
			}
			if err := round.Drop(ctx, fresh.Name); err != nil {
				return err
			}
			return measure(ctx, round, o, long(h), grown, h)
		},
		Finish: func(ctx context.Context) error {
			if env.Postgres == "" || env.Kept {
				return nil // it did not get that far, or may take a quarter of an hour again
			}
			return env.Drop(ctx, grownName)
		},
	}
}

// grownName is the database with the long history.
const grownName = "bench_grown"

// prepare makes the long history, or finds it where one like it was kept. That it is
// complete stands in the database's comment.
func prepare(ctx context.Context, env contest.Env, h History) (ledgerdb.Database, error) {
	kept, err := commentOn(ctx, env, grownName)
	if err != nil {
		return ledgerdb.Database{}, err
	}
	complete := fmt.Sprintf("%d operations of %d tenants", h.Operations, h.Tenants)
	if env.Kept && kept == complete {
		env.Logf("%s: %s, from an earlier run", grownName, kept)
		return ledgerdb.At(ctx, env, grownName)
	}
	grown, err := ledgerdb.Create(ctx, env, grownName)
	if err != nil {
		return grown, err
	}
	if err := Fill(ctx, env, grown, h); err != nil {
		return grown, err
	}
	return grown, with(ctx, grown, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, fmt.Sprintf("COMMENT ON DATABASE %s IS '%s'", grownName, complete))
		return err
	})
}

// commentOn is the comment on a database, or nothing.
func commentOn(ctx context.Context, env contest.Env, name string) (comment string, err error) {
	conn, err := pgx.Connect(ctx, env.Postgres)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	err = conn.QueryRow(ctx, `SELECT coalesce(max(shobj_description(oid, 'pg_database')), '') FROM pg_database WHERE datname = $1`, name).Scan(&comment)
	return comment, err
}

// measure reads and writes under keys and tenants in no order.
func measure(ctx context.Context, round contest.Round, o onceward.Options, name string, database ledgerdb.Database, h History) (err error) {
	c := storage.New(name, storage.Grouped, 0)
	if err := c.Use(ctx, database); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	before, err := finished(ctx, database)
	if err != nil {
		return err
	}
	if err := warm(ctx, round, database); err != nil {
		return err
	}
	if err := serve(ctx, round, o, name, database, h); err != nil {
		return err
	}
	replay := func(ctx context.Context) error {
		tenant, key := h.Owner(rand.Int64N(h.Operations)) //nolint:gosec // which key is no secret
		return c.DuplicateFor(ctx, tenant, key)
	}
	// A page costs most when a connection sees it for the first time, and a server
	// that has run for days has seen what fits its cache.
	if _, err := (contest.Load{Callers: 64, For: 5 * round.Each, Do: replay}).Run(ctx); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := checkpoint(ctx, database); err != nil {
		return err
	}
	if err := size(ctx, round, name, database); err != nil {
		return err
	}
	for _, callers := range round.Among(widths().Duplicates) {
		m, err := round.Load(ctx, name, contest.Duplicate, callers, nil, replay)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		round.Record(m)
	}
	var actions atomic.Int64
	act := func(ctx context.Context) error {
		if err := c.DoFor(ctx, h.Tenant(rand.Int64N(h.Operations)), contest.NewKey()); err != nil { //nolint:gosec // which tenant is no secret
			return err
		}
		actions.Add(1)
		return nil
	}
	for _, callers := range round.Among([]int{most}) {
		m, err := round.Load(ctx, checkpointed(name), contest.Action, callers, nil, act)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		round.Record(m)
	}
	if _, err := (contest.Load{Callers: slices.Max(round.Callers), For: steady * round.Each, Do: act}).Run(ctx); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	lasting := round
	lasting.Each *= longer
	for _, callers := range round.Among(widths().Actions) {
		m, err := lasting.Load(ctx, name, contest.Action, callers, nil, act)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		round.Record(m)
	}
	after, err := finished(ctx, database)
	if err != nil {
		return err
	}
	return contest.Same(name+": new operations", after-before, actions.Load())
}

// serve asks a server that has nothing in memory. What is asked for again comes
// soon after its operation as a rule, and what is a day old is on pages that
// follow each other, however long the history.
func serve(ctx context.Context, round contest.Round, o onceward.Options, name string, database ledgerdb.Database, h History) (err error) {
	c := onceward.New(name, o)
	if err := c.Serve(ctx, round.Env, database); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for _, of := range []struct {
		name  string
		first int64 // operation
	}{{lastDay(name), h.Operations - max(1, h.Operations/days)}, {served(name), 0}} { // the old ones would push the new ones out
		replay := func(ctx context.Context) error {
			_, key := h.Owner(h.shared(of.first))
			return c.Duplicate(ctx, key)
		}
		if _, err := (contest.Load{Callers: 64, For: 2 * round.Each, Do: replay}).Run(ctx); err != nil {
			return fmt.Errorf("%s: %w", of.name, err)
		}
		for _, callers := range round.Among(asked().Duplicates) {
			m, err := round.Load(ctx, of.name, contest.Duplicate, callers, c.ServerCPU, replay)
			if err != nil {
				return fmt.Errorf("%s: %w", of.name, err)
			}
			round.Record(m)
		}
	}
	return nil
}

// warm reads the ledger into the server's cache, as far as it has room, the index
// last: a server that just made 10 million operations has not seen most of them
// since, one that serves them has. Leases of the rounds before are dropped: where
// requests are served they live for seconds, and the server that is asked over gRPC
// would look after half a million of them meanwhile.
func warm(ctx context.Context, round contest.Round, database ledgerdb.Database) error {
	return with(ctx, database, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, `TRUNCATE leases`); err != nil {
			return err
		}
		var there bool
		if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'pg_prewarm')`).Scan(&there); err != nil {
			return err
		}
		if !there {
			round.Logf("OMITTED: warming %s: this Postgres has no pg_prewarm", database.Name)
			return nil
		}
		for _, sql := range []string{
			`CREATE EXTENSION IF NOT EXISTS pg_prewarm`,
			`SELECT pg_prewarm('operations')`,
			`SELECT pg_prewarm('operations_pkey')`,
		} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return nil
	})
}

// checkpoint gives every measurement the same start: no page is dirty, and each
// is written to the log as a whole when it is first touched.
func checkpoint(ctx context.Context, database ledgerdb.Database) error {
	return with(ctx, database, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CHECKPOINT")
		return err
	})
}

// size notes what an operation takes on disk.
func size(ctx context.Context, round contest.Round, name string, database ledgerdb.Database) error {
	return with(ctx, database, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT
				CASE WHEN relname LIKE 'audit_events%' THEN 'audit' ELSE relname::text END ||
					CASE WHEN relkind = 'i' THEN '_index' ELSE '' END AS part,
				sum(pg_relation_size(oid)) / (SELECT count(*) FROM operations) AS bytes
			FROM pg_class WHERE relkind IN ('r', 'i') AND (relname LIKE 'operations%' OR relname LIKE 'audit_events%')
			GROUP BY part`)
		if err != nil {
			return err
		}
		var part string
		var bytes float64
		_, err = pgx.ForEachRow(rows, []any{&part, &bytes}, func() error {
			round.Value(strings.ReplaceAll(name, "-", "_")+"_bytes_"+part, "B", bytes)
			return nil
		})
		return err
	})
}

// finished counts the operations that have their receipts.
func finished(ctx context.Context, database ledgerdb.Database) (count int64, err error) {
	return count, with(ctx, database, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT count(*) FROM operations WHERE status = 'succeeded'`).Scan(&count)
	})
}

func with(ctx context.Context, database ledgerdb.Database, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, database.OwnerURL)
	if err != nil {
		return err
	}
	return errors.Join(do(conn), conn.Close(context.WithoutCancel(ctx)))
}
