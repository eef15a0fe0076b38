package scenarios

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/onceward/onceward/chaos/edge"
	"github.com/onceward/onceward/internal/pgtest"
	"github.com/onceward/onceward/internal/privatepg"
	"github.com/onceward/onceward/ledger/ledgertest"
)

// The database's clock jumps by hours, forwards and back, under load. Leases, delays,
// windows and horizons are measured with it, so they end early or late; what that
// leads to is doubt that is looked into, never a second effect. What it does to
// replicas is the same as if their clocks jumped the other way: they compare nothing
// but the database's times with their own. (A Go program reads the clock without the C
// library, so that libfaketime cannot move a replica's.)
func TestDatabaseClockJumps(t *testing.T) {
	clock := fakeClock(t)
	server := pgtest.NewServer(t, nil)
	db := ledgertest.At(t, server.NewDatabase(t, ledgertest.Template()))
	s := newStage(t, newEdges(t), db)
	r := s.replica(t, "")
	// Attempts take a while, so that some are under way when the clock jumps.
	if _, err := s.toProvider.Apply(edge.Fault{Kind: edge.Latency, Delay: 100 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	conn := db.Owner(t)
	for _, step := range []struct {
		name string
		by   time.Duration
	}{
		{"forwards", 3 * time.Hour}, {"back", 0}, {"backwards", -3 * time.Hour}, {"forwards_again", 0},
	} {
		t.Run(step.name, func(t *testing.T) {
			l := s.begin(t, "clock_"+step.name, 6, r)
			l.wantMore(t, 10)
			clock(step.by)
			var skew float64
			if err := conn.QueryRow(t.Context(), `SELECT extract(epoch FROM clock_timestamp())`).Scan(&skew); err != nil {
				t.Fatal(err)
			}
			if off := time.Duration(skew*1e9)*time.Nanosecond - time.Duration(time.Now().UnixNano()) - step.by; off.Abs() > time.Minute {
				t.Fatalf("the database's clock is %s off what it was set to: the test tests nothing", off)
			}
			over := time.Now()
			l.wantMore(t, 20)
			l.end()
			s.judge(t, l, over)
			s.repeat(t, l, r) // every key is still taken
		})
	}
}

// fakeClock lets every Postgres that the test starts read a clock that the result
// moves. It changes the environment, so the test is not parallel.
func fakeClock(t *testing.T) (set func(by time.Duration)) {
	t.Helper()
	libraries, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if err != nil || len(libraries) == 0 {
		t.Fatalf("libfaketime is not installed (Debian and Ubuntu: apt-get install faketime): %v", err)
	}
	programs, err := privatepg.Find(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := folder(t)
	offset := filepath.Join(dir, "offset")
	set = func(by time.Duration) {
		t.Helper()
		// In one step: half a number is another time.
		err := os.WriteFile(offset+".new", fmt.Appendf(nil, "%+d\n", int(by.Seconds())), 0o644)
		if err := errors.Join(err, os.Rename(offset+".new", offset)); err != nil {
			t.Fatal(err)
		}
	}
	set(0)
	// Programs that become Postgres' own with the library before them.
	for name, before := range map[string]string{
		"initdb": "",
		"postgres": fmt.Sprintf("env LD_PRELOAD=%s FAKETIME_TIMESTAMP_FILE=%s FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 NO_FAKE_STAT=1 ",
			libraries[0], offset),
	} {
		script := fmt.Sprintf("#!/bin/sh\nexec %s%s \"$@\"\n", before, filepath.Join(programs.Dir, name))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv(privatepg.EnvBin, dir)
	return set
}
