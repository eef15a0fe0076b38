package privatepg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// leftoverTimeout is how long a start waits for a server whose owner died and
// which is still shutting down. The watchdog needs 15 s at most.
const leftoverTimeout = 20 * time.Second

// major reads which major version of Postgres made the cluster; 0 means that
// there is none.
func (f *folder) major() (int, error) {
	text, err := os.ReadFile(filepath.Join(f.data(), "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("privatepg: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("privatepg: %s does not hold a version of Postgres: %q", filepath.Join(f.data(), "PG_VERSION"), text)
	}
	return major, nil
}

// makeCluster runs initdb in a folder beside data and renames it to data when
// all went well: an initdb that is interrupted leaves a folder that no start
// takes for a cluster. The lock must be held, so what earlier ones left can be
// removed.
func (f *folder) makeCluster(ctx context.Context, p Programs, password string, noSync bool, log *slog.Logger) error {
	began := time.Now()
	log.InfoContext(ctx, "making a Postgres cluster, once", "folder", f.data(), "version", p.Version)
	if err := f.removeUnfinished(); err != nil {
		return fmt.Errorf("privatepg: %w", err)
	}
	fresh, err := os.MkdirTemp(f.dir, newClusterPrefix)
	if err != nil {
		return fmt.Errorf("privatepg: %w", err)
	}
	defer os.RemoveAll(fresh) // nothing is left of it after the rename
	passwordFile := fresh + ".password"
	defer os.Remove(passwordFile)
	err = os.WriteFile(passwordFile, []byte(password+"\n"), 0o600)
	if err := errors.Join(err, f.acct.own(passwordFile), f.acct.own(fresh)); err != nil {
		return fmt.Errorf("privatepg: %w", err)
	}

	args := []string{
		"-D", fresh,
		"--username=" + superuser,
		"--pwfile=" + passwordFile,
		"--auth=scram-sha-256",
		"--encoding=UTF8",
		"--locale=C",
	}
	if noSync {
		args = append(args, "--no-sync")
	}
	if out, err := f.acct.command(ctx, p.initdb(), args...).CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("privatepg: %s%s: %w%s", p.initdb(), f.acct.suffix(), err, quote(string(out)))
	}
	if err := os.Rename(fresh, f.data()); err != nil {
		return fmt.Errorf("privatepg: %w", err)
	}
	log.InfoContext(ctx, "made a Postgres cluster", "took", time.Since(began).Round(time.Millisecond))
	return nil
}

func (f *folder) removeUnfinished() error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), newClusterPrefix) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(f.dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// awaitLeftover waits until no server runs on the data. The lock is ours, so
// one that does has lost its owner and is being ended by its watchdog, or was
// started by hand.
func (f *folder) awaitLeftover(ctx context.Context, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, leftoverTimeout)
	defer cancel()
	for told := false; ; told = true {
		pid, err := f.runningServer(ctx)
		if err != nil {
			return fmt.Errorf("privatepg: %w", err)
		}
		if pid == 0 {
			return nil
		}
		if !told {
			log.InfoContext(ctx, "waiting for an earlier Postgres to end", "pid", pid, "folder", f.data())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("privatepg: a Postgres (process %d) runs on %s and does not end; stop it with: kill -INT %d: %w",
				pid, f.data(), pid, ErrInUse)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// runningServer returns the process id of the server that runs on the data, or
// 0. A postmaster.pid that a killed server left is no hindrance: Postgres
// replaces it, unless the number now belongs to another process of its
// account, or to a zombie, which it would take for a server. That file is
// removed here.
func (f *folder) runningServer(ctx context.Context) (int, error) {
	path := filepath.Join(f.data(), "postmaster.pid")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	switch {
	case err != nil, pid <= 0, !alive(pid):
		return 0, nil //nolint:nilerr // Postgres knows what to do with a file without a number
	case isPostgres(ctx, pid):
		return pid, nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	return 0, nil
}

// isPostgres says whether a process that exists is a Postgres that runs. In
// doubt it is.
func isPostgres(ctx context.Context, pid int) bool {
	var state, name string
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil { // Linux, proc(5)
		_, rest, _ := strings.Cut(string(stat), "(")
		end := max(strings.LastIndex(rest, ")"), 0)
		name, state = rest[:end], strings.TrimLeft(rest[end:], ") ")
	} else {
		out, err := exec.CommandContext(ctx, "ps", "-o", "stat=", "-o", "comm=", "-p", strconv.Itoa(pid)).Output()
		if err != nil {
			return true
		}
		state, name, _ = strings.Cut(strings.TrimSpace(string(out)), " ")
	}
	// A zombie has ended; in a container often nobody takes note of it.
	return !strings.HasPrefix(state, "Z") && (strings.Contains(name, "postgres") || strings.Contains(name, "postmaster"))
}

// saysReady says whether the postmaster with this process id has written into
// its postmaster.pid that it accepts connections. Asking the file first means
// that no connection goes to another server on the same port, and that no
// refused ones fill the log.
func (f *folder) saysReady(pid int) bool {
	text, err := os.ReadFile(filepath.Join(f.data(), "postmaster.pid"))
	if err != nil {
		return false
	}
	// Line 1 is the process id, line 8 the state (miscadmin.h, since
	// Postgres 10).
	lines := strings.Split(string(text), "\n")
	return len(lines) >= 8 && lines[0] == strconv.Itoa(pid) && strings.TrimSpace(lines[7]) == "ready"
}
