package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/apikey"
	"github.com/onceward/onceward/internal/demo"
)

const (
	// demoStartTimeout is how long a service may take to start.
	demoStartTimeout = 30 * time.Second
	// demoCleanUpTimeout bounds the removal of a database.
	demoCleanUpTimeout = 10 * time.Second
)

// demoTheatre makes the services of the demo: databases on one server, files in
// one folder, and this program as a child process.
type demoTheatre struct {
	dir       string
	serverURL string // of a role that may create databases and roles
	// fail ends the demo: a service ended that nobody killed.
	fail context.CancelCauseFunc

	mu sync.Mutex // roles are made one after the other
}

// demoService is an Onceward on a database of its own.
type demoService struct {
	theatre           *demoTheatre
	database, login   string
	ownerURL, address string
	keys              map[string]string // by tenant
	arguments         []string
	environment       []string
	logFile           string

	child *demoChild // nil while none runs
}

// demoChild is a process that serves.
type demoChild struct {
	process *os.Process
	ended   chan struct{} // closed when the process is gone
	err     error         // why; set before ended is closed
	wanted  chan struct{} // closed before it is killed on purpose
}

// open prepares a service that is not started yet.
func (t *demoTheatre) open(ctx context.Context, setup demo.Setup) (_ demo.Service, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := strings.ToLower(rand.Text()[:10]) // the server may have other demos on it
	s := &demoService{
		theatre: t, database: "onceward_demo_" + id, login: "onceward_demo_serve_" + id,
		keys: map[string]string{}, logFile: filepath.Join(t.dir, setup.Name+".log"),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.ownerURL, err = ensureDatabase(ctx, t.serverURL, s.database); err != nil {
		return nil, err
	}
	var keys []demoKey
	for _, tenant := range setup.Tenants {
		s.keys[tenant] = apikey.New(tenant).Text()
		keys = append(keys, demoKey{s.keys[tenant], "demo-planner", []string{"agent"}})
	}
	secretsDir, tokenFile := filepath.Join(t.dir, setup.Name+"-secrets"), filepath.Join(t.dir, setup.Name+"-token")
	own, err := loadOrCreateSecrets(secretsDir)
	if err != nil {
		return nil, err
	}
	serveURL, err := prepareLedger(ctx, s.ownerURL, s.login, rand.Text(), keys, own.Fingerprint())
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(tokenFile, []byte(fakeprovider.DefaultToken), 0o600); err != nil {
		return nil, err
	}
	if s.address, err = freeAddress(ctx); err != nil {
		return nil, err
	}
	s.arguments = []string{
		"serve", "--allow-all", "--secrets-dir=" + secretsDir, "--listen=" + s.address,
		"--demo-provider-url=" + setup.ProviderURL, "--demo-provider-token-file=" + tokenFile,
		"--demo-attempt-timeout=" + setup.AttemptTimeout.String(), "--demo-settle-time=" + setup.SettleTime.String(),
		"--lease-grace=" + setup.LeaseGrace.String(), "--reconcile-interval=" + setup.ReconcileInterval.String(),
		"--reconcile-lease=" + setup.ReconcileLease.String(),
	}
	// The URL holds a password, which the list of processes must not show; and
	// what the user has set for another service is not meant for this one.
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "ONCEWARD_") {
			s.environment = append(s.environment, entry)
		}
	}
	s.environment = append(s.environment, "ONCEWARD_DATABASE_URL="+serveURL)
	return s, nil
}

// freeAddress finds an address on loopback to listen on.
func freeAddress(ctx context.Context) (string, error) {
	l, err := listen(ctx, "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Address implements demo.Service.
func (s *demoService) Address() string { return s.address }

// Key implements demo.Service.
func (s *demoService) Key(tenant string) string { return s.keys[tenant] }

// Start implements demo.Service.
func (s *demoService) Start(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(s.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	// The process outlives its start: Kill and Close end it.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, s.arguments...) //nolint:gosec // itself
	cmd.Env, cmd.Stdout, cmd.Stderr = s.environment, log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	child := &demoChild{process: cmd.Process, ended: make(chan struct{}), wanted: make(chan struct{})}
	s.child = child
	go func() {
		child.err = cmd.Wait()
		close(child.ended)
		select {
		case <-child.wanted:
		default:
			s.theatre.fail(s.endedEarly(child))
		}
	}()
	return s.awaitHealth(ctx, child)
}

// endedEarly says why a child ended, with the end of its log.
func (s *demoService) endedEarly(child *demoChild) error {
	text, _ := os.ReadFile(s.logFile) // without it the error says less
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Errorf("onceward serve ended by itself (%w): %s", child.err, lines[len(lines)-1])
}

// awaitHealth returns when the service says that it serves.
func (s *demoService) awaitHealth(ctx context.Context, child *demoChild) error {
	ctx, cancel := context.WithTimeoutCause(ctx, demoStartTimeout, fmt.Errorf("onceward serve does not serve after %s", demoStartTimeout))
	defer cancel()
	go func() {
		select {
		case <-child.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.2, MaxDelay: 50 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // it holds nothing
	_, err = healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	select {
	case <-child.ended:
		return s.endedEarly(child)
	default:
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Kill implements demo.Service.
func (s *demoService) Kill() error {
	if s.child == nil {
		return nil
	}
	close(s.child.wanted)
	err := s.child.process.Kill()
	<-s.child.ended
	s.child = nil
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Notes implements demo.Service.
func (s *demoService) Notes(ctx context.Context) ([]demo.Note, error) {
	conn, err := pgx.Connect(ctx, s.ownerURL)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, `SELECT tenant_id, subject, body FROM demo_notes`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[demo.Note])
}

// Close implements demo.Service.
func (s *demoService) Close() error {
	err := s.Kill()
	ctx, cancel := context.WithTimeout(context.Background(), demoCleanUpTimeout)
	defer cancel()
	conn, connErr := pgx.Connect(ctx, s.theatre.serverURL)
	if connErr != nil {
		return errors.Join(err, connErr)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, statement := range []string{
		"DROP DATABASE IF EXISTS " + pgx.Identifier{s.database}.Sanitize() + " WITH (FORCE)",
		"DROP ROLE IF EXISTS " + pgx.Identifier{s.login}.Sanitize(),
	} {
		_, dropErr := conn.Exec(ctx, statement)
		err = errors.Join(err, dropErr)
	}
	return err
}
