package pgcluster

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
)

// Disk says what is on the disk that can fill up. The zero value is all tables,
// and everything else but the log.
type Disk string

// What a full disk means to Postgres: of tables, that statements which need a new
// page are refused (53100); of the write-ahead log, a panic, and no start before
// there is room.
const (
	Tables Disk = "tables"
	WAL    Disk = "wal"
)

// Options say which cluster to run.
type Options struct {
	// Dir is an empty or missing folder that belongs to the cluster. The account
	// that Postgres runs as must be able to reach it. What is in it stays after
	// Close: removing it is the caller's.
	Dir string

	// Standby runs a synchronous standby.
	Standby bool

	// Pooler runs PgBouncer in transaction mode in front of the primary. It must be
	// installed.
	Pooler bool

	// DiskMB is the size of the disk of each server that can fill up; 0: none can.
	// A file system in memory is mounted for it, which needs root on Linux. A
	// migrated database needs 64 MB for its tables, and 64 MB of log.
	DiskMB int
	// Disk is what is on it; default Tables.
	Disk Disk

	// Settings are more server settings, such as max_connections. They cannot take
	// away what is acknowledged: fsync, full_page_writes and synchronous_commit stay.
	Settings map[string]string

	// Log is told of every step. Nil discards that.
	Log *slog.Logger
}

// leastDisk is what a server needs to start with, in MB.
const leastDisk = 64

func (o Options) normalize() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("pgcluster: Options.Dir is empty")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, fmt.Errorf("pgcluster: %w", err)
	}
	o.Dir = dir
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return o, fmt.Errorf("pgcluster: folder %s is not empty", dir)
	}
	switch o.Disk {
	case "":
		o.Disk = Tables
	case Tables, WAL:
	default:
		return o, fmt.Errorf("pgcluster: %q is nothing that can be on a disk; there are %s and %s", o.Disk, Tables, WAL)
	}
	if o.DiskMB != 0 && o.DiskMB < leastDisk {
		return o, fmt.Errorf("pgcluster: a disk of %d MB is too small for a server: give it %d or more", o.DiskMB, leastDisk)
	}
	for _, name := range []string{"fsync", "full_page_writes", "synchronous_commit", "synchronous_standby_names"} {
		if _, given := o.Settings[name]; given {
			return o, fmt.Errorf("pgcluster: setting %s is the cluster's own", name)
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}
