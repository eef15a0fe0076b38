package campaign

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/chaos/pgcluster"
)

// maxConnections is what Postgres takes: less than a campaign can open, so that they
// can be used up.
const maxConnections = 120

// tooManyConnections is what Postgres says to the next one (SQLSTATE, appendix A of its
// manual).
const tooManyConnections = "53300"

// hogs is how the connections that use up all others are called.
const hogs = "hogs"

var (
	//go:embed sql/end_serving.sql
	endServingSQL string
	//go:embed sql/count_serving.sql
	countServingSQL string
)

// startPostgres starts a primary with a synchronous standby, where pg_basebackup is
// installed; a pooler where PgBouncer is, and a disk that can fill up where file systems can be mounted. It
// reports whether there is such a disk.
func startPostgres(ctx context.Context, o Options) (c *pgcluster.Cluster, diskFills bool, err error) {
	want := pgcluster.Options{
		Dir: filepath.Join(o.Dir, "postgres"), Standby: true, Pooler: true, Log: o.Log,
		Settings: map[string]string{
			"max_connections": strconv.Itoa(maxConnections), "max_wal_size": "256MB", "dynamic_shared_memory_type": "mmap",
			// A client that went without a word keeps its locks no longer than this.
			"tcp_user_timeout": "5000", "idle_in_transaction_session_timeout": "10s",
		},
	}
	if runtime.GOOS == "linux" && os.Geteuid() == 0 && chosen("pg_disk_full", o.Faults) {
		want.DiskMB = min(256+16*int(o.Duration.Minutes()), 1024)
	}
	for {
		c, err = pgcluster.Start(ctx, want)
		switch {
		case err == nil:
			return c, want.DiskMB > 0, nil
		case errors.Is(err, pgcluster.ErrNoPooler) && want.Pooler:
			want.Pooler = false
		case errors.Is(err, pgcluster.ErrNoBaseBackup) && want.Standby:
			want.Standby = false
		case want.DiskMB > 0:
			want.DiskMB = 0
		default:
			return nil, false, err
		}
		o.Log.WarnContext(ctx, "not everything of Postgres can be broken here", "error", err)
		if err := os.RemoveAll(want.Dir); err != nil {
			return nil, false, err
		}
	}
}

// pgBreaks are the ways in which Postgres can be broken: each breaks it and mends it
// again before it returns.
func (w *world) pgBreaks() map[string]func(context.Context, shock) error {
	c := w.cluster
	breaks := map[string]func(context.Context, shock) error{
		"pg_kill":        func(ctx context.Context, _ shock) error { return c.Kill(ctx) },
		"pg_restart":     func(ctx context.Context, _ shock) error { return c.Restart(ctx) },
		"pg_connections": w.useUpConnections,
	}
	if c.StandbyAddress() != "" {
		breaks["pg_failover"] = func(ctx context.Context, _ shock) error { return c.Failover(ctx) }
	}
	if c.PoolerAddress() != "" {
		breaks["pg_pooler_restart"] = func(ctx context.Context, _ shock) error { return c.RestartPooler(ctx) }
	}
	if w.diskFills {
		breaks["pg_disk_full"] = func(ctx context.Context, s shock) error {
			free, err := c.FillDisk(ctx)
			if err != nil {
				return err
			}
			wait(ctx, s.last)
			free()
			return nil
		}
	}
	return breaks
}

// useUpConnections takes every connection that Postgres has left, and ends those of the
// replicas until they have none: a pool that has its connections would not notice.
func (w *world) useUpConnections(ctx context.Context, s shock) error {
	var taken []*pgx.Conn
	defer func() {
		for _, conn := range taken {
			_ = conn.Close(ctx) // the server may be gone
		}
	}()
	taking, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		if _, err := w.pool.Exec(taking, endServingSQL, hogs); err != nil {
			return fmt.Errorf("ending connections: %w", err)
		}
		for {
			conn, err := pgx.Connect(taking, w.cluster.ServeURL()+"&application_name="+hogs)
			var refused *pgconn.PgError
			if errors.As(err, &refused) && refused.Code == tooManyConnections {
				break
			}
			if err != nil {
				return fmt.Errorf("using up connections, after %d: %w", len(taken), err)
			}
			taken = append(taken, conn)
		}
		var left int
		if err := w.pool.QueryRow(taking, countServingSQL, hogs).Scan(&left); err != nil {
			return fmt.Errorf("counting connections: %w", err)
		}
		if left == 0 {
			break
		}
	}
	wait(ctx, s.last)
	return nil
}
