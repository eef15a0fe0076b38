package scenarios

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/chaos/pgcluster"
)

// The disk is full: of tables, and Postgres refuses what needs room; of its log, and
// Postgres dies and does not come back before there is room. Nothing is sent that has
// no row, and what was under way is resolved when there is room.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	for _, disk := range []pgcluster.Disk{pgcluster.Tables, pgcluster.WAL} {
		t.Run(string(disk), func(t *testing.T) {
			c := startCluster(t, pgcluster.Options{DiskMB: 96, Disk: disk})
			s := onCluster(t, c)
			r := s.replica(t, "")
			l := s.begin(t, "disk_"+string(disk), 6, r)
			l.wantMore(t, 10)
			free, err := c.FillDisk(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if disk == pgcluster.WAL {
				useUpLog(t, c)
			}
			l.wantRefusals(t, 30)
			free()
			freed := time.Now()
			l.wantMore(t, 10)
			l.end()
			s.judge(t, l, freed)
		})
	}
}

// useUpLog writes what is left of log files that Postgres keeps for later, until it
// dies.
func useUpLog(t *testing.T, c *pgcluster.Cluster) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.OwnerURL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	for range 100 {
		if _, err := conn.Exec(t.Context(), `SELECT pg_logical_emit_message(false, 'filler', repeat('x', 4000000))`); err != nil {
			return
		}
	}
	t.Fatal("the log has room for 400 MB on a full disk of 96 MB")
}
