package pgtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/privatepg"
)

// EnvURL names the environment variable that holds the URL of a Postgres to
// use instead of a private one.
const EnvURL = "ONCEWARD_TEST_POSTGRES_URL"

const (
	tempPattern = "onceward-pgtest-"
	// staleAfter is the age at which a folder of a test binary that could not
	// tidy up (a panic, a timeout, a kill) is removed by a later one.
	staleAfter   = 24 * time.Hour
	startTimeout = 2 * time.Minute
	stopTimeout  = 30 * time.Second
)

// running is the session that Main opened. It is the one global of this
// module: a server that is shared by a whole test binary must be reachable
// from each test, and the testing package offers no other place for it than a
// variable.
var running atomic.Pointer[session]

// session is what one test binary shares. Once begun, it does not change.
type session struct {
	once    sync.Once
	err     error
	cluster *cluster
	server  *privatepg.Server // nil when the server is not ours
	dir     string
}

// Main runs the tests, then ends the server that they started, if any, and
// removes its data. Its result is for os.Exit. A server that crashed under the
// tests makes it fail.
func Main(m *testing.M) int {
	s := &session{}
	if !running.CompareAndSwap(nil, s) {
		fmt.Fprintln(os.Stderr, "pgtest: Main was called twice")
		return 2
	}
	code := m.Run()
	if err := s.end(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		return max(code, 1)
	}
	return code
}

// NewDatabase returns the URL of a database that belongs to the test: a fresh
// copy of the template, owned by the server's superuser. It is dropped at the
// end of the test, open connections or not. It may be called from parallel
// tests. The test fails at once if there is no server or no template.
func NewDatabase(t testing.TB, tpl Template) string {
	t.Helper()
	return shared(t).newDatabase(t, tpl)
}

// AdminURL is the superuser's URL for the server's maintenance database, for
// what concerns the server as a whole, such as roles. All tests of the binary
// share it, and with ONCEWARD_TEST_POSTGRES_URL other binaries too.
func AdminURL(t testing.TB) string {
	t.Helper()
	return shared(t).admin
}

// shared returns the session's server and starts it if this is its first use.
func shared(t testing.TB) *cluster {
	t.Helper()
	s := running.Load()
	if s == nil {
		t.Fatal("pgtest: the package needs func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }")
	}
	s.once.Do(s.begin)
	if s.err != nil {
		t.Fatalf("pgtest: no server: %v", s.err)
	}
	return s.cluster
}

func (s *session) begin() {
	if url := os.Getenv(EnvURL); url != "" {
		s.cluster, s.err = externalCluster(url)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if s.dir, s.err = tempDir(); s.err != nil {
		return
	}
	s.server, s.err = privatepg.Start(ctx, options(s.dir, 0, nil))
	if s.err == nil {
		s.cluster = newCluster(s.server.URL)
	}
}

func (s *session) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	var errs []error
	switch {
	case s.server != nil:
		errs = append(errs, s.server.Err(), s.server.Stop(ctx))
	case s.cluster != nil:
		errs = append(errs, s.cluster.dropTemplates(ctx))
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// options are those of a server for tests. What a killed server leaves is in
// the operating system's hands, which survives it, so fsync and
// full_page_writes protect nothing here. synchronous_commit stays on: without
// it a kill would lose commits that were acknowledged.
func options(dir string, port int, settings map[string]string) privatepg.Options {
	o := privatepg.Options{
		Dir:  dir,
		Port: port,
		Settings: map[string]string{
			"fsync":            "off",
			"full_page_writes": "off",
			"autovacuum":       "off", // its workers hinder DROP DATABASE and make timings vary
			"max_wal_size":     "128MB",
			// In the data folder, so that a killed server leaves nothing elsewhere.
			"dynamic_shared_memory_type": "mmap",
		},
	}
	maps.Copy(o.Settings, settings)
	return o
}

// tempDir makes a folder that the account that Postgres runs as can reach,
// which testing.T's own folders are not when the tests run as root.
func tempDir() (string, error) {
	base := memoryDir()
	if base == "" || os.Getenv("TMPDIR") != "" { // who sets TMPDIR is obeyed
		base = os.TempDir()
	}
	removeStale(base)
	dir, err := os.MkdirTemp(base, tempPattern)
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o711)
}

// removeStale removes what test binaries that ended badly left. Their servers
// ended with them. It is a courtesy: errors, such as other users' folders, are
// of no interest.
func removeStale(base string) {
	dirs, err := filepath.Glob(filepath.Join(base, tempPattern+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() && time.Since(info.ModTime()) > staleAfter {
			os.RemoveAll(dir)
		}
	}
}
