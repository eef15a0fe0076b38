package privatepg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	loopback = "127.0.0.1"
	// startTimeout bounds a start once postgres runs; crash recovery is in it.
	startTimeout = 2 * time.Minute
	// portAttempts bounds how often another free port is tried.
	portAttempts = 8
	// immediateTimeout is how long an immediate shutdown may take before the
	// postmaster is killed; its own limit for its children is 5 s.
	immediateTimeout = 6 * time.Second
)

// Server is a running private Postgres. It is safe for concurrent use. It runs
// until Stop, Kill, or the end of this process.
type Server struct {
	port     int
	password string
	folder   *folder
	log      *os.File
	logFrom  int64
	proc     *process
	patience time.Duration // for an immediate shutdown

	asked atomic.Bool   // somebody asked for the end
	done  chan struct{} // closed when all processes are gone
	err   error         // why it ended; set before done is closed
}

// Start starts the server and returns when it accepts connections, for which
// it makes a real one. ctx bounds the start only, not the server's life.
//
// The error wraps [ErrInUse] when another process uses the folder,
// [ErrPortTaken] when it uses Options.Port, and [ErrNotFound] when there are no
// programs to run. If Postgres itself refuses,
// the error holds the last lines of its log.
func Start(ctx context.Context, o Options) (*Server, error) {
	o, err := o.normalize()
	if err != nil {
		return nil, err
	}
	acct, err := serverAccount()
	if err != nil {
		return nil, err
	}
	f, err := openFolder(ctx, o.Dir, acct)
	if err != nil {
		return nil, err
	}
	s, err := startIn(ctx, f, o, newFinder(acct, o.Log), freePort)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return s, nil
}

// startIn starts a server on a locked folder, on a port that pick names when
// none is given. On success the server owns the lock.
func startIn(ctx context.Context, f *folder, o Options, finder *finder, pick func() (int, error)) (*Server, error) {
	programs, password, err := f.ready(ctx, o, finder)
	if err != nil {
		return nil, err
	}
	log, err := openLog(f.logFile())
	if err != nil {
		return nil, fmt.Errorf("privatepg: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s", startTimeout))
	defer cancel()
	for attempt := 1; ; attempt++ {
		port := o.Port
		if port == 0 {
			if port, err = pick(); err != nil {
				break
			}
		}
		s := &Server{
			port: port, password: password, folder: f, log: log,
			patience: immediateTimeout, done: make(chan struct{}),
		}
		if err = s.launch(ctx, programs, o); err == nil {
			return s, nil
		}
		// Between finding a free port and listening on it another process may
		// have taken it.
		if !errors.Is(err, ErrPortTaken) || o.Port != 0 || attempt == portAttempts {
			break
		}
		o.Log.InfoContext(ctx, "the port was taken meanwhile, trying another", "port", port)
	}
	return nil, errors.Join(err, log.Close())
}

// ready brings the folder to the point at which postgres can be started.
func (f *folder) ready(ctx context.Context, o Options, finder *finder) (Programs, string, error) {
	major, err := f.major()
	if err != nil {
		return Programs{}, "", err
	}
	programs, err := finder.find(ctx, major)
	if version := (*versionError)(nil); errors.As(err, &version) {
		version.data = f.data()
	}
	if err != nil {
		return Programs{}, "", err
	}
	password, err := f.password(o.Password)
	if err != nil {
		return Programs{}, "", err
	}
	if major == 0 {
		noSync := strings.EqualFold(o.Settings["fsync"], "off")
		return programs, password, f.makeCluster(ctx, programs, password, noSync, o.Log)
	}
	if err := f.awaitLeftover(ctx, o.Log); err != nil {
		return Programs{}, "", err
	}
	if err := f.acct.ownTree(f.data()); err != nil {
		return Programs{}, "", fmt.Errorf("privatepg: %w", err)
	}
	return programs, password, nil
}

// ErrPortTaken means that something else listens on the port.
var ErrPortTaken = errors.New("the port is taken")

// freePort asks the system for a port that is free now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp4", loopback+":0")
	if err != nil {
		return 0, fmt.Errorf("privatepg: finding a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// launch starts postgres and waits until it is ready. On an error nothing runs
// any more; the log and the lock stay the caller's.
func (s *Server) launch(ctx context.Context, p Programs, o Options) error {
	info, err := s.log.Stat()
	if err != nil {
		return fmt.Errorf("privatepg: %w", err)
	}
	s.logFrom = info.Size()
	s.proc, err = startProcess(s.folder.acct, s.log, p.postgres(), o.serverArgs(s.folder.data(), s.port)...)
	if err != nil {
		return fmt.Errorf("privatepg: starting %s%s: %w", p.postgres(), s.folder.acct.suffix(), err)
	}
	gone := make(chan string, 1)
	go func() { gone <- s.proc.wait() }()
	if err := s.awaitReady(ctx, gone, o.Log); err != nil {
		return err
	}
	go s.watch(gone)
	return nil
}

// awaitReady returns nil when the server accepts a real connection. Otherwise
// it makes sure that the server is gone.
func (s *Server) awaitReady(ctx context.Context, gone <-chan string, log *slog.Logger) error {
	told := time.Now()
	for !s.folder.saysReady(s.proc.pid()) {
		if time.Since(told) > 3*time.Second {
			told = time.Now()
			log.InfoContext(ctx, "waiting for Postgres to be ready", "log", s.folder.logFile())
		}
		select {
		case how := <-gone:
			return s.startError(how)
		case <-ctx.Done():
			s.abandon(gone)
			return fmt.Errorf("privatepg: waiting for Postgres to be ready: %w%s", context.Cause(ctx), s.lastWords())
		case <-time.After(5 * time.Millisecond):
		}
	}
	if err := s.ping(ctx); err != nil {
		s.abandon(gone)
		if pgErr := (*pgconn.PgError)(nil); errors.As(err, &pgErr) && pgErr.Code == "28P01" { // invalid_password
			return fmt.Errorf("privatepg: the cluster in %s has another password than the one given or kept in %s: %w",
				s.folder.data(), s.folder.passwordFile(), err)
		}
		return fmt.Errorf("privatepg: Postgres cannot be used: %w%s", err, s.lastWords())
	}
	return nil
}

// abandon ends a server that nobody will get to see.
func (s *Server) abandon(gone <-chan string) {
	if s.proc.signal(syscall.SIGQUIT) == nil {
		<-gone
	}
}

func (s *Server) ping(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.URL(maintenanceDB))
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// startError explains a postmaster that ended before it was ready.
func (s *Server) startError(how string) error {
	words := logSince(s.folder.logFile(), s.logFrom)
	if strings.Contains(words, "could not create any TCP/IP sockets") {
		return fmt.Errorf("privatepg: port %d of %s: %w%s", s.port, loopback, ErrPortTaken, s.lastWords())
	}
	return fmt.Errorf("privatepg: Postgres did not start (%s)%s", how, s.lastWords())
}

// lastWords quotes what the server logged since its start.
func (s *Server) lastWords() string {
	return "\nlog: " + s.folder.logFile() + quote(logSince(s.folder.logFile(), s.logFrom))
}

// watch waits for the end and gives back what the server held. The lock goes
// before done is closed, so that who waits for done can start again.
func (s *Server) watch(gone <-chan string) {
	how := <-gone
	if !s.asked.Load() {
		s.err = fmt.Errorf("privatepg: Postgres ended by itself (%s)%s", how, s.lastWords())
	}
	// Nothing was written through the log by us, and the lock goes with its file
	// even if closing fails.
	_ = s.log.Close()
	_ = s.folder.close()
	close(s.done)
}

// URL is the superuser's connection URL for a database, password included: do
// not log it. It stays the same after the server has ended.
func (s *Server) URL(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, s.password),
		Host:     net.JoinHostPort(loopback, strconv.Itoa(s.port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Port is the port on 127.0.0.1 that the server listens on.
func (s *Server) Port() int { return s.port }

// PID is the process id of the postmaster.
func (s *Server) PID() int { return s.proc.pid() }

// Done is closed when the server and all its processes are gone, for whatever
// reason; Err then says which. The folder is free by then.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err is nil while the server runs and after an end that Stop or Kill asked
// for. Otherwise it says how the server ended, with the end of its log.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Stop shuts the server down: open transactions are rolled back, connections
// are closed, and all is written to disk (Postgres' fast shutdown). It returns
// when all processes are gone. When ctx ends first, the server is ended
// without mercy, which its next start repairs by recovery, and the error says
// so. Stopping a server that has ended does nothing.
func (s *Server) Stop(ctx context.Context) error {
	s.asked.Store(true)
	if err := s.proc.signal(syscall.SIGINT); err != nil {
		return fmt.Errorf("privatepg: stopping Postgres: %w", err)
	}
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
	}
	err := s.proc.signal(syscall.SIGQUIT)
	select {
	case <-s.done:
	case <-time.After(s.patience):
		err = s.Kill()
	}
	return errors.Join(fmt.Errorf("privatepg: Postgres did not stop in time and was ended: %w", context.Cause(ctx)), err)
}

// Kill ends the postmaster with SIGKILL, as a crash would, and returns when
// its children, which notice that by themselves, are gone too. Nothing is
// flushed or cleaned up: the next start has to recover. Killing a server that
// has ended does nothing.
func (s *Server) Kill() error {
	s.asked.Store(true)
	if err := s.proc.signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("privatepg: killing Postgres: %w", err)
	}
	<-s.done
	return nil
}
