package pgcluster_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/chaos/pgcluster"
)

// folder is one that the account of Postgres can reach, which t.TempDir is not when
// the tests run as root.
func folder(t *testing.T) string {
	t.Helper()
	base := "" // in memory if there is such a place: what a killed process has written is as safe there
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		base = "/dev/shm"
	}
	dir, err := os.MkdirTemp(base, "onceward-pgcluster-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func start(t *testing.T, o pgcluster.Options) *pgcluster.Cluster {
	t.Helper()
	o.Dir = folder(t)
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	began := time.Now()
	c, err := pgcluster.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	t.Logf("start took %s", time.Since(began))
	return c
}

// run makes a statement on a connection of its own and returns its one value.
func run[T any](t *testing.T, url, sql string) (value T, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return value, err
	}
	defer func() { _ = conn.Close(ctx) }()
	err = conn.QueryRow(ctx, sql).Scan(&value)
	return value, err
}

func must[T any](t *testing.T, url, sql string) T {
	t.Helper()
	value, err := run[T](t, url, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

const insert = `INSERT INTO tenants (tenant_id) VALUES (gen_random_uuid()::text) RETURNING tenant_id`

// What is acknowledged survives every step.
func TestSteps(t *testing.T) {
	t.Parallel()
	c := start(t, pgcluster.Options{Standby: true, Pooler: true})
	var moves []string
	c.OnMove(func(address string) { moves = append(moves, address) })
	first := c.Address()
	if c.StandbyAddress() == first || c.StandbyAddress() == "" {
		t.Fatalf("primary at %s, standby at %s", first, c.StandbyAddress())
	}
	for _, setting := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		if got := must[string](t, c.OwnerURL(), "SHOW "+setting); got != "on" {
			t.Errorf("%s is %s", setting, got)
		}
	}
	pooled := c.ServeURLAt(c.PoolerAddress()) + "&default_query_exec_mode=simple_protocol"
	rows := 0
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"kill", c.Kill}, {"restart", c.Restart}, {"failover", c.Failover}, {"restart of the pooler", c.RestartPooler},
		{"failover again", c.Failover}, {"kill after it", c.Kill},
	} {
		must[string](t, c.OwnerURL(), insert)
		rows++
		began := time.Now()
		if err := step.do(t.Context()); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		t.Logf("%s took %s", step.name, time.Since(began))
		if got := must[int](t, c.OwnerURL(), `SELECT count(*) FROM tenants`); got != rows {
			t.Fatalf("after %s there are %d rows, want %d", step.name, got, rows)
		}
		if got := must[bool](t, c.OwnerURL(), `SELECT pg_is_in_recovery()`); got {
			t.Errorf("after %s the primary is none", step.name)
		}
		if got := must[string](t, c.OwnerURL(), `SELECT sync_state FROM pg_stat_replication`); got != "sync" {
			t.Errorf("after %s the standby is %s", step.name, got)
		}
		if got := must[string](t, pooled, `SELECT current_user::text`); got != "onceward_app" {
			t.Errorf("after %s the pooler leads to %s", step.name, got)
		}
	}
	if len(moves) != 2 || moves[1] != c.Address() || moves[0] == moves[1] || first == c.Address() {
		t.Errorf("moved to %v; the primary was at %s and is at %s", moves, first, c.Address())
	}
	old, err := c.Revive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if old != moves[0] || must[bool](t, c.OwnerURLAt(old), `SELECT pg_is_in_recovery()`) {
		t.Errorf("the old primary came back at %s, and was at %s", old, moves[0])
	}
}

func TestDisk(t *testing.T) {
	t.Parallel()
	const grow = `WITH made AS (INSERT INTO big SELECT repeat('x', 1000) FROM generate_series(1, 60000) RETURNING 1) SELECT count(*) FROM made`
	for _, disk := range []pgcluster.Disk{pgcluster.Tables, pgcluster.WAL} {
		t.Run(string(disk), func(t *testing.T) {
			t.Parallel()
			c := start(t, pgcluster.Options{DiskMB: 96, Disk: disk})
			url := c.OwnerURL()
			must[int](t, url, `WITH made AS (INSERT INTO tenants VALUES ('kept') RETURNING 1) SELECT count(*) FROM made`)
			if _, err := run[string](t, url, `CREATE TABLE big (x text)`); !errors.Is(err, pgx.ErrNoRows) {
				t.Fatal(err)
			}
			for range 2 {
				free, err := c.FillDisk(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				_, err = run[int](t, url, grow)
				var pg *pgconn.PgError
				switch {
				case err == nil:
					t.Error("there was room")
				case disk == pgcluster.Tables && (!errors.As(err, &pg) || pg.Code != "53100"):
					t.Errorf("got %v, want disk_full", err)
				case disk == pgcluster.WAL && errors.As(err, &pg) && pg.Code != "XX000" && pg.Code != "57P02" && pg.Code != "53100":
					t.Errorf("got %v, want a crash", err)
				}
				free()
				free()
				if got := must[int](t, url, `SELECT count(*) FROM tenants WHERE tenant_id = 'kept'`); got != 1 {
					t.Errorf("%d rows are left", got)
				}
				must[int](t, url, `WITH made AS (INSERT INTO big SELECT 'x' RETURNING 1) SELECT count(*) FROM made`)
			}
		})
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	full := folder(t)
	if err := os.WriteFile(full+"/notes", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]pgcluster.Options{
		"no folder":         {},
		"folder in use":     {Dir: full},
		"tiny disk":         {Dir: folder(t), DiskMB: 1},
		"unknown disk":      {Dir: folder(t), Disk: "floppy"},
		"unsafe":            {Dir: folder(t), Settings: map[string]string{"fsync": "off"}},
		"standbys are ours": {Dir: folder(t), Settings: map[string]string{"synchronous_standby_names": ""}},
	} {
		if c, err := pgcluster.Start(t.Context(), o); err == nil {
			c.Close()
			t.Errorf("%s: started", name)
		}
	}
}
