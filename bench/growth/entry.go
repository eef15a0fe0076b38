package growth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/bench/contest"
	"github.com/onceward/onceward/bench/ledgerdb"
	"github.com/onceward/onceward/bench/onceward"
)

// few is the history of a ledger that is nearly empty: something must be there
// for a duplicate to find.
func (h History) few() History {
	return History{Operations: min(10_000, h.Operations), Tenants: min(1_000, h.Tenants)}
}

// tenth is the history of a ledger that has grown for a tenth of the time: what is
// asked for again is there, but in no cache of the processor.
func (h History) tenth() History {
	return History{Operations: max(1, h.Operations/10), Tenants: max(1, h.Tenants/10)}
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

// widths says with how many callers. A history that is only a smoke test's has few.
func widths(h History) contest.Widths {
	if h.Operations < 10_000 {
		return contest.Widths{Actions: []int{8}, Duplicates: []int{8}, Times: turns}
	}
	return contest.Widths{Actions: []int{64, 256}, Duplicates: []int{64}, Times: turns}
}

// The names of the measurements.
func long(h History) string  { return Name + "-" + h.Size() }
func short(h History) string { return long(h) + "-empty" }
func tenth(h History) string { return long(h) + "-tenth" }

// checkpointed is the name of what is measured right after a checkpoint.
func checkpointed(name string) string { return name + "-checkpointed" }

// The names of what is asked of a server over gRPC: any operation of a tenant that
// has a tenth of them all, and those of the last day.
func served(name string) string  { return name + "-grpc" }
func lastDay(name string) string { return name + "-grpc-day" }

// Name is the entry's.
const Name = "growth"

// Entry measures the ledger on a long history and on one that has hardly begun, and
// replays on one of a tenth, in turn. The long ones are made once; what the rounds
// add is little.
func Entry(h History, o onceward.Options) contest.Entry {
	o.Forgetful = true
	var grown, younger ledgerdb.Database
	var env contest.Env
	w := widths(h)
	asked := contest.Widths{Duplicates: w.Duplicates, Times: turns}
	first := contest.Widths{Actions: []int{slices.Max(w.Actions)}}
	return contest.Entry{
		Name: Name,
		Promises: map[string]contest.Widths{
			long(h): w, short(h): w, tenth(h): asked,
			checkpointed(long(h)): first, checkpointed(short(h)): first,
			served(long(h)): asked, served(short(h)): asked, lastDay(long(h)): asked, lastDay(short(h)): asked,
		},
		Prepare: func(ctx context.Context, e contest.Env) (err error) {
			env = e
			if grown, err = prepare(ctx, env, grownName, h); err != nil {
				return err
			}
			younger, err = prepare(ctx, env, youngerName, h.tenth())
			return err
		},
		Measure: func(ctx context.Context, round contest.Round) error {
			fresh, err := ledgerdb.Create(ctx, round.Env, "bench_short")
			if err != nil {
				return err
			}
			if err := Fill(ctx, round.Env, fresh, h.few()); err != nil {
				return err
			}
			return measure(ctx, round, o, w,
				&subject{name: short(h), history: h.few(), database: fresh},
				&subject{name: tenth(h), history: h.tenth(), database: younger},
				&subject{name: long(h), history: h, database: grown})
		},
		Finish: func(ctx context.Context) error {
			if env.Postgres == "" || env.Kept {
				return nil // it did not get that far, or may take a quarter of an hour again
			}
			return env.Drop(ctx, grownName, youngerName)
		},
	}
}

// The databases with the long histories.
const (
	grownName   = "bench_grown"
	youngerName = "bench_tenth"
)

// stale is how old a history that was kept may be: the windows of its oldest
// operations end a day after it was made.
const stale = 12 * time.Hour

// prepare makes a history, or finds it where one like it was kept. That it is
// complete, and since when, stands in the database's comment.
func prepare(ctx context.Context, env contest.Env, name string, h History) (ledgerdb.Database, error) {
	kept, err := commentOn(ctx, env, name)
	if err != nil {
		return ledgerdb.Database{}, err
	}
	complete := fmt.Sprintf("%d operations of %d tenants, ", h.Operations, h.Tenants)
	if at, same := strings.CutPrefix(kept, complete); env.Kept && same {
		if since, err := time.Parse(time.RFC3339Nano, at); err == nil && time.Since(since) < stale {
			env.Logf("%s: %s, from an earlier run", name, kept)
			made, err := ledgerdb.At(ctx, env, name)
			if err != nil {
				return made, err
			}
			return made, takeBack(ctx, made, h, since) // that run may have been stopped
		}
		env.Logf("%s: %s, too old: its operations leave their windows", name, kept)
	}
	made, err := ledgerdb.Create(ctx, env, name)
	if err != nil {
		return made, err
	}
	if err := Fill(ctx, env, made, h); err != nil {
		return made, err
	}
	return made, with(ctx, made, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, fmt.Sprintf("COMMENT ON DATABASE %s IS '%s'", name, complete+time.Now().UTC().Format(time.RFC3339Nano)))
		return err
	})
}

// takeBack removes the operations that came after a moment, with their events, so
// that every round, and every run on a history that was kept, finds the same ledger:
// a million more may be those that the cache has no room for. It fails unless the
// history is what is left. Stopped anywhere, it can be done again.
func takeBack(ctx context.Context, database ledgerdb.Database, h History, since time.Time) error {
	first := fmt.Sprintf("%012x", since.UnixMilli()) // ids begin with their time
	first = first[:8] + "-" + first[8:] + "-7000-8000-000000000000"
	err := with(ctx, database, func(conn *pgx.Conn) error {
		for _, sql := range []string{
			`SET session_replication_role = replica`, // the guard lets nobody do this
			`DELETE FROM operations WHERE id >= '` + first + `'`,
			`DELETE FROM audit_events WHERE operation_id >= '` + first + `'`,
			`VACUUM operations`, // gives the end of the table back
			`VACUUM audit_events`,
		} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	left, err := finished(ctx, database)
	if err != nil {
		return err
	}
	return contest.Same(database.Name+": operations after what was added is taken back", left, h.Operations)
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
