//go:build unix

package pgtest

import (
	"context"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/onceward/onceward/internal/privatepg"
)

// Backup is the server as it was when it was taken.
type Backup struct{ data string }

// Backup takes a base backup of the running server, which goes on serving. The test
// is skipped where this Postgres comes without pg_basebackup.
func (s *Server) Backup(t testing.TB) Backup {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	programs, err := privatepg.Find(ctx, nil)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	program := filepath.Join(programs.Dir, "pg_basebackup")
	if _, err := os.Stat(program); err != nil {
		t.Skipf("pgtest: no base backups with this Postgres: %v", err)
	}
	dir, err := tempDir()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	b := Backup{filepath.Join(dir, "data")}
	out, err := osexec.CommandContext(ctx, program, "--pgdata="+b.data, "--dbname="+s.URL("postgres"), "--checkpoint=fast", "--wal-method=stream", "--no-sync").CombinedOutput()
	if err != nil {
		t.Fatalf("pgtest: pg_basebackup: %v: %s", err, out)
	}
	return b
}

// Restore loses the server's data, if it is there, and starts the server with those
// of a backup, which cannot be restored again. Its address stays the same.
func (s *Server) Restore(t testing.TB, b Backup) {
	t.Helper()
	s.Stop(t)
	data := filepath.Join(s.options.Dir, "data")
	info, err := os.Stat(data)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatalf("pgtest: no owner of %s", data)
	}
	if err := os.RemoveAll(data); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	if err := os.Rename(b.data, data); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	if err := filepath.WalkDir(data, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(owner.Uid), int(owner.Gid))
	}); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	s.Start(t)
}
