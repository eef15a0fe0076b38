package pgtest

import (
	"context"
	"os"
	"testing"

	"github.com/onceward/onceward/internal/privatepg"
)

// Server is a Postgres that belongs to one test, which may stop, kill and
// start it. Its folder and port stay the same over restarts, and so do its
// URLs. The methods that take a testing.TB fail that test at once when they
// fail. They must not be called at the same time, except NewDatabase and URL.
type Server struct {
	options privatepg.Options
	current *privatepg.Server
	cluster *cluster
}

// NewServer starts a server of the test's own and ends it with the test. The
// settings win over those of the tests' server (fsync off, and so on); nil is
// none. ONCEWARD_TEST_POSTGRES_URL does not count here: a server that is not
// ours cannot be stopped. A start takes about a second.
func NewServer(t testing.TB, settings map[string]string) *Server {
	t.Helper()
	dir, err := tempDir()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	s := &Server{options: options(dir, 0, settings)}
	t.Cleanup(func() {
		if s.current != nil {
			s.Stop(t) // not Kill, which leaves the system's shared memory behind
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	s.Start(t)
	s.options.Port = s.current.Port()
	s.cluster = newCluster(s.current.URL)
	return s
}

// URL is the superuser's URL for a database of the server.
func (s *Server) URL(database string) string { return s.cluster.url(database) }

// NewDatabase is like the function of that name, on this server. The database
// goes with the server.
func (s *Server) NewDatabase(t testing.TB, tpl Template) string {
	t.Helper()
	url, _ := s.cluster.create(t, tpl)
	return url
}

// Start starts the server again after Stop or Kill and waits until it accepts
// connections; after Kill it has to recover first.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	server, err := privatepg.Start(ctx, s.options)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	s.current = server
}

// Stop shuts the server down in order: connections are closed, transactions
// rolled back. It does nothing if the server does not run.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	// Without cancel, since this also serves a test's cleanup.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stopTimeout)
	defer cancel()
	if err := s.current.Stop(ctx); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
}

// Kill ends the server as a crash would. It does nothing if the server does
// not run.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if err := s.current.Kill(); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
}
