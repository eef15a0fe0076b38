package pgcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/onceward/onceward/internal/privatepg"
)

// poolerPatience is how long PgBouncer may take to start or to end.
const poolerPatience = 15 * time.Second

// ErrNoPooler means that PgBouncer is not installed.
var ErrNoPooler = errors.New("pgcluster: pgbouncer is not installed (Debian and Ubuntu: apt-get install pgbouncer; macOS: brew install pgbouncer)")

// pooler is PgBouncer in transaction mode.
type pooler struct {
	program string
	dir     string
	port    int
	proc    *privatepg.Companion
	log     *os.File
}

// findPooler looks on PATH, and where Debian has what is for administrators.
func findPooler() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNoPooler
}

func newPooler(dir string) (*pooler, error) {
	program, err := findPooler()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.Mkdir(dir, 0o700), privatepg.Own(dir)); err != nil {
		return nil, fmt.Errorf("pgcluster: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(dir, "pgbouncer.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("pgcluster: %w", err)
	}
	return &pooler{program: program, dir: dir, log: log}, nil
}

func (p *pooler) address() string { return net.JoinHostPort(loopback, strconv.Itoa(p.port)) }

func (p *pooler) file(name string) string { return filepath.Join(p.dir, name) }

// configure writes the files for a primary at port.
func (p *pooler) configure(primaryPort int, login, password string) error {
	if p.port == 0 {
		// Another process may take it before we listen; then the start fails.
		listener, err := net.Listen("tcp4", loopback+":0")
		if err != nil {
			return fmt.Errorf("pgcluster: a port for the pooler: %w", err)
		}
		if tcp, ok := listener.Addr().(*net.TCPAddr); ok {
			p.port = tcp.Port
		}
		if err := listener.Close(); err != nil {
			return fmt.Errorf("pgcluster: a port for the pooler: %w", err)
		}
	}
	files := map[string]string{
		"users.txt": fmt.Sprintf("%q %q\n", login, password),
		"pgbouncer.ini": fmt.Sprintf(`[databases]
%s = host=%s port=%d
[pgbouncer]
listen_addr = %s
listen_port = %d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
pool_mode = transaction
default_pool_size = 10
max_client_conn = 200
; A server that was away is tried again after a second, not after 15.
server_login_retry = 1
`, databaseName, loopback, primaryPort, loopback, p.port, p.file("users.txt")),
	}
	for name, text := range files {
		if err := errors.Join(os.WriteFile(p.file(name), []byte(text), 0o600), privatepg.Own(p.file(name))); err != nil {
			return fmt.Errorf("pgcluster: %w", err)
		}
	}
	return nil
}

// start runs it and waits until it listens.
func (p *pooler) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, poolerPatience)
	defer cancel()
	var err error
	if p.proc, err = privatepg.StartCompanion(p.log, p.program, p.file("pgbouncer.ini")); err != nil {
		return err
	}
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.address())
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.proc.Done():
			text, _ := os.ReadFile(p.file("pgbouncer.log"))
			return fmt.Errorf("pgcluster: pgbouncer did not start (%s): %s", p.proc.How(), text)
		case <-ctx.Done():
			return fmt.Errorf("pgcluster: pgbouncer does not listen: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// reload lets it read its files again; connections to another primary are closed
// once they are free.
func (p *pooler) reload() error { return p.proc.Signal(syscall.SIGHUP) }

// stop ends it at once, with its connections.
func (p *pooler) stop() error {
	if p.proc == nil {
		return nil
	}
	if err := p.proc.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("pgcluster: pgbouncer: %w", err)
	}
	select {
	case <-p.proc.Done():
		return nil
	case <-time.After(poolerPatience):
		return errors.New("pgcluster: pgbouncer does not end")
	}
}
