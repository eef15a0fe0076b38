//go:build unix

package privatepg

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func start(t *testing.T, o Options) *Server {
	t.Helper()
	began := time.Now()
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("start took %s", time.Since(began).Round(time.Millisecond))
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// closeConn closes a connection whose server may be gone.
func closeConn(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if err := conn.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Logf("closing a connection: %v", err)
	}
}

func query(t *testing.T, s *Server, statement string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL(maintenanceDB))
	if err != nil {
		t.Fatal(err)
	}
	defer closeConn(t, conn)
	var text string
	err = conn.QueryRow(t.Context(), statement).Scan(&text)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatalf("%s: %v", statement, err)
	}
	return text
}

// bystander starts a process of the server's account that is no Postgres.
func bystander(t *testing.T, acct *account) int {
	t.Helper()
	cmd := acct.command(context.WithoutCancel(t.Context()), shell, "-c", "read -r line")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(stdin.Close(), cmd.Wait()); err == nil {
			t.Error("the bystander read a line that nobody wrote")
		}
	})
	return cmd.Process.Pid
}

// TestLife takes one folder through a server's whole life, since each step
// begins with what the one before left.
func TestLife(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openDir(t), "named", "server")
	o := forTests(dir)
	o.Settings["work_mem"] = "3MB"
	s := start(t, o)
	password := s.password

	for setting, want := range map[string]string{
		"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": "200",
		"work_mem": "3MB", "server_encoding": "UTF8", "TimeZone": "UTC",
		"password_encryption": "scram-sha-256", "fsync": "off",
	} {
		if got := query(t, s, "SELECT current_setting('"+setting+"')"); got != want {
			t.Errorf("setting %s is %q, want %q", setting, got, want)
		}
	}
	if got := query(t, s, "SELECT datcollate FROM pg_database WHERE datname = 'postgres'"); got != "C" {
		t.Errorf("locale is %s, want C", got)
	}
	if got := query(t, s, "SELECT string_agg(DISTINCT auth_method, ' ') FROM pg_hba_file_rules"); got != "scram-sha-256" {
		t.Errorf("authentication is %s, want scram-sha-256 only", got)
	}
	for _, name := range []string{"password", "server.log", "lock"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("file %s has mode %o, want 600", name, info.Mode().Perm())
		}
	}
	wrong := strings.Replace(s.URL(maintenanceDB), password, "wrong", 1)
	if conn, err := pgx.Connect(t.Context(), wrong); err == nil {
		t.Errorf("the server took a wrong password; closing: %v", conn.Close(t.Context()))
	}

	// A second process. The lock decides, not who is asking.
	if _, err := Start(t.Context(), o); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("second start: error is %v, want ErrInUse with our process id", err)
	}

	query(t, s, "CREATE TABLE kept AS SELECT 1 AS id")
	stop(t, s)
	stop(t, s)
	if err := s.Kill(); err != nil {
		t.Errorf("kill after stop: %v", err)
	}
	if err := s.Err(); err != nil {
		t.Errorf("after Stop, Err is %v", err)
	}

	// Again, on the port that is known now; then as after a crash.
	o.Port = s.Port()
	s = start(t, o)
	if s.password != password || s.Port() != o.Port {
		t.Errorf("second start has another password or port %d, want %d", s.Port(), o.Port)
	}
	query(t, s, "INSERT INTO kept VALUES (2)")
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "data", "postmaster.pid")); err != nil {
		t.Fatalf("the kill left no postmaster.pid, so nothing is tested: %v", err)
	}
	s = start(t, o)
	if got := query(t, s, "SELECT count(*)::text FROM kept"); got != "2" {
		t.Errorf("after the kill %s rows are there, want 2", got)
	}
	stop(t, s)

	// The number in a stale postmaster.pid now belongs to another process of
	// the same account, for which Postgres alone would refuse to start.
	pidFile := filepath.Join(dir, "data", "postmaster.pid")
	write(t, pidFile, fmt.Sprintf("%d\n%s\n1\n%d\n", bystander(t, s.folder.acct), filepath.Join(dir, "data"), o.Port), 0o600)
	s = start(t, o)

	// It ends by itself.
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("Done was not closed")
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "server.log") {
		t.Errorf("Err is %v, want one that names the log", err)
	}

	// Another password than the cluster's.
	other := o
	other.Password = "another"
	if _, err := Start(t.Context(), other); err == nil || !strings.Contains(err.Error(), "another password") {
		t.Errorf("start with another password: error is %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "password")); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "restore that file") {
		t.Errorf("start without the kept password: error is %v", err)
	}
	o.Password = password
	s = start(t, o)
	if got := query(t, s, "SELECT count(*)::text FROM kept"); got != "2" {
		t.Errorf("in the end %s rows are there, want 2", got)
	}
}

// TestDiesWithItsOwner kills a process that owns a server as kill -9 does and
// expects the postmaster and a busy child to go, and the folder to be usable
// at once.
func TestDiesWithItsOwner(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openDir(t), "server")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	owner := exec.Command(self)
	owner.Env = append(os.Environ(), envOwner+"="+dir)
	stdout, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	killed := sync.OnceFunc(func() {
		if err := owner.Process.Kill(); err != nil {
			t.Error(err)
		}
		if err := owner.Wait(); err == nil {
			t.Error("the owner ended well though it was killed")
		}
	})
	t.Cleanup(killed)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var postmaster int
	var url string
	if _, err := fmt.Sscan(line, &postmaster, &url); err != nil {
		t.Fatalf("the owner said %q", line)
	}
	t.Cleanup(func() {
		if t.Failed() { // nobody else ends it then
			t.Logf("ending postmaster %d: %v", postmaster, syscall.Kill(postmaster, syscall.SIGINT))
		}
	})
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer closeConn(t, conn)
	busy := int(conn.PgConn().PID())
	asleep := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), "SELECT pg_sleep(600)")
		asleep <- err
	}()

	killed()
	s := start(t, forTests(dir)) // while the old one may still be ending
	if got := query(t, s, "SELECT 1::text"); got != "1" {
		t.Errorf("the new server answers %q", got)
	}
	eventually(t, 10*time.Second, "postmaster gone", func() bool { return !alive(postmaster) })
	eventually(t, 10*time.Second, "its child gone", func() bool { return !alive(busy) })
	if err := <-asleep; err == nil {
		t.Error("a statement of 600 s ended well")
	}
}

func TestPorts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openDir(t), "server")
	listener, err := net.Listen("tcp4", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	taken := listener.Addr().(*net.TCPAddr).Port

	o := forTests(dir)
	o.Port = taken
	if _, err := Start(t.Context(), o); !errors.Is(err, ErrPortTaken) || !strings.Contains(err.Error(), strconv.Itoa(taken)) {
		t.Fatalf("start on a taken port: error is %v", err)
	}

	// A port that looked free and is not.
	o.Port = 0
	if o, err = o.normalize(); err != nil {
		t.Fatal(err)
	}
	f := folderOf(t, dir)
	picks := 0
	s, err := startIn(t.Context(), f, o, newFinder(f.acct, o.Log), func() (int, error) {
		if picks++; picks < 3 {
			return taken, nil
		}
		return freePort()
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	if picks != 3 || s.Port() == taken {
		t.Errorf("server runs on port %d after %d picks, want another than %d after 3", s.Port(), picks, taken)
	}
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openDir(t), "server")
	o := forTests(dir)
	o.Settings["work_mem"] = "nonsense"
	_, err := Start(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), `invalid value for parameter "work_mem"`) ||
		!strings.Contains(err.Error(), filepath.Join(dir, "server.log")) {
		t.Errorf("error is %v, want Postgres' own words and the log's path", err)
	}

	// The cluster is there now; the next start is cut short.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, forTests(dir)); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want context.Canceled", err)
	}
	start(t, forTests(dir)) // neither left a lock or a process
}

func TestStopTimesOut(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openDir(t), "server")
	s := start(t, forTests(dir))
	s.patience = 10 * time.Millisecond
	// A postmaster that stands still answers no polite signal.
	if err := syscall.Kill(s.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v, want DeadlineExceeded", err)
	}
	if alive(s.PID()) {
		t.Error("the postmaster is still there")
	}
	start(t, forTests(dir)) // recovers, and clears what a killed server leaves in the system
}
