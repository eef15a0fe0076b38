package pgcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/privatepg"
)

const (
	loopback = "127.0.0.1"
	// standbyName is the application_name of whichever server follows the primary.
	standbyName = "standby"
	// portPatience is how long a server waits for its port, which was free while it
	// did not run.
	portPatience = 15 * time.Second
	stopTimeout  = 20 * time.Second
)

// node is one server: its folder, its port, and the process while it runs. Its
// methods are not safe for concurrent use.
type node struct {
	name     string
	dir      string // privatepg's folder: data and log
	password string
	disk     *disk // nil: one that does not fill up
	port     int   // 0 before the first start
	server   *privatepg.Server
}

func (n *node) data() string { return filepath.Join(n.dir, "data") }

func (n *node) address() string { return net.JoinHostPort(loopback, strconv.Itoa(n.port)) }

// start runs the server, on the port that it had before.
func (n *node) start(ctx context.Context, o Options) error {
	settings := map[string]string{
		"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on",
		"shared_buffers": "64MB", "max_connections": "100",
		// A standby that was away for some seconds finds what it missed.
		"wal_keep_size": "64MB",
		// Promotion and catching up do not wait for a checkpoint's spread.
		"checkpoint_timeout": "30s", "wal_receiver_status_interval": "1s", "wal_retrieve_retry_interval": "100ms",
		// In the data folder, so that a killed server leaves nothing elsewhere.
		"dynamic_shared_memory_type": "mmap",
	}
	if n.disk != nil {
		// As many segments as fit, and none kept.
		maps.Copy(settings, map[string]string{"wal_keep_size": "0", "min_wal_size": "32MB", "max_wal_size": "48MB"})
	}
	maps.Copy(settings, o.Settings)
	deadline := time.Now().Add(portPatience)
	for {
		server, err := privatepg.Start(ctx, privatepg.Options{
			Dir: n.dir, Password: n.password, Port: n.port, Settings: settings, Log: o.Log,
		})
		if err == nil {
			n.server = server
			if n.port == 0 { // from then on others may be reading it
				n.port = server.Port()
			}
			return nil
		}
		if ctx.Err() != nil || !errors.Is(err, privatepg.ErrPortTaken) || time.Now().After(deadline) {
			return fmt.Errorf("pgcluster: starting %s: %w", n.name, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond): // nobody tells when a port is free
		}
	}
}

// stop ends the server in order, or not.
func (n *node) stop(ctx context.Context) error {
	if n.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	return n.server.Stop(ctx)
}

// exec runs statements as the superuser, each by itself.
func (n *node) exec(ctx context.Context, database string, statements ...string) (err error) {
	conn, err := pgx.Connect(ctx, n.server.URL(database))
	if err != nil {
		return fmt.Errorf("pgcluster: %s: %w", n.name, err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("pgcluster: %s: %s: %w", n.name, statement, err)
		}
	}
	return nil
}

// await polls a condition on the server until it holds.
func (n *node) await(ctx context.Context, what, query string) (err error) {
	conn, err := pgx.Connect(ctx, n.server.URL("postgres"))
	if err != nil {
		return fmt.Errorf("pgcluster: %s: %w", n.name, err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	for {
		var holds bool
		if err := conn.QueryRow(ctx, query).Scan(&holds); err != nil {
			return fmt.Errorf("pgcluster: waiting until %s: %w", what, err)
		}
		if holds {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("pgcluster: waiting until %s: %w", what, context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// ErrNoBaseBackup means that pg_basebackup, which makes a standby, is not installed.
var ErrNoBaseBackup = errors.New("pgcluster: pg_basebackup is not installed (Debian and Ubuntu: apt-get install postgresql-client)")

// copyFrom makes the folder of a standby: a base backup of the primary, with the
// settings to follow it.
func (n *node) copyFrom(ctx context.Context, primary *node) error {
	programs, err := privatepg.Find(ctx, nil)
	if err != nil {
		return err
	}
	program := filepath.Join(programs.Dir, "pg_basebackup")
	if _, err := os.Stat(program); errors.Is(err, fs.ErrNotExist) {
		return ErrNoBaseBackup
	}
	if err := os.Mkdir(n.dir, 0o711); err != nil {
		return fmt.Errorf("pgcluster: %w", err)
	}
	err = os.Chmod(n.dir, 0o711)
	if n.disk != nil && n.disk.data != "" {
		err = errors.Join(err, os.Symlink(n.disk.data, n.data()))
	} else {
		err = errors.Join(err, os.Mkdir(n.data(), 0o700), privatepg.Own(n.data()))
	}
	if err != nil {
		return fmt.Errorf("pgcluster: %w", err)
	}
	source := fmt.Sprintf("host=%s port=%d user=onceward password=%s sslmode=disable application_name=%s",
		loopback, primary.port, primary.password, standbyName)
	args := []string{"-D", n.data(), "-d", source, "-R", "-X", "stream", "-c", "fast"}
	if n.disk != nil && n.disk.wal != "" {
		args = append(args, "--waldir="+n.disk.wal)
	}
	cmd, err := privatepg.Command(ctx, program, args...)
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pgcluster: %s: %w: %s", program, err, out)
	}
	return nil
}
