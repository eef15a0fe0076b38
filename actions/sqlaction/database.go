package sqlaction

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// DefaultTable is the table of operation ids where none is named.
	DefaultTable = "onceward_operations"
	// DefaultMaxConns is how many connections a Database keeps at most.
	DefaultMaxConns = 4

	connIdleTime = 5 * time.Minute
)

var (
	// ErrLedgerDatabase: the database holds a ledger of Onceward.
	ErrLedgerDatabase = errors.New("sqlaction: this database holds a ledger (tables operations and audit_events): " +
		"declare it as `database: ledger` (sql.ledger: true in a provider's file), so that the statement runs in the transaction that settles the operation")
	// ErrTable: the table of operation ids is missing or cannot do its work. The
	// text says what to do.
	ErrTable = errors.New("sqlaction: table of operation ids")
	// ErrPlainText: the connection could be without TLS to another machine.
	ErrPlainText = errors.New("sqlaction: the connection could be plain text beyond this machine: " +
		"add sslmode=verify-full (or require) to the connection string, or allow plain text for a network that you trust")
	// ErrClosed: the Database was closed.
	ErrClosed = errors.New("sqlaction: the database was closed")
)

// DatabaseOptions describe a Postgres that is not the ledger's.
type DatabaseOptions struct {
	// ConnString returns the connection string, URL or keywords. It is called
	// when the first connection is needed, and again after the server refused
	// the credentials. Of several hosts a writable one is needed:
	// target_session_attrs=read-write.
	ConnString func(ctx context.Context) (string, error)
	// Table is the table of operation ids: name or schema.name, in lower case;
	// default DefaultTable.
	Table string
	// CreateTable makes the table where it is missing.
	CreateTable bool
	// MaxConns bounds the connections; default DefaultMaxConns.
	MaxConns int
	// PlainText allows connections without TLS to other machines.
	PlainText bool
}

// Database is a Postgres that is not the ledger's, for any number of [Remote]
// actions. It connects when it is first needed. It is safe for concurrent use.
// Close it.
//
// # Why a look-up is certain
//
// An attempt is one transaction. Its first statement takes an advisory lock of
// the operation, which the server keeps until the transaction has ended, and
// with the lock in hand the attempt looks at its deadline, on both clocks of
// its machine. So every transaction that commits took the lock before the
// deadline of its attempt. A look-up is made after that deadline, or after the
// attempt has returned; it tries the same lock and reads the table in a later
// statement. If the row is not there and the lock was free, no transaction of
// an earlier attempt is open, and none can begin: the effect is absent, and
// stays absent. If somebody holds the lock, a worker's transaction may still
// commit, and nothing is said. Timeouts of the server's own end transactions
// whose client is gone.
//
// Should a worker's clock be wrong all the same, the unique constraint of the
// table keeps the operation from being applied twice, and the late-landing
// watch finds what an operation that was given up has left.
//
// What this rests on: rows of the table are kept at least as long as operations
// are open, and look-ups and attempts reach the same primary. A failover to a
// standby that lacks the last transactions loses effect and row together.
// Moving to a database without the rows needs another Contract.Version.
type Database struct {
	options DatabaseOptions
	sql     statements

	mu     sync.Mutex
	pool   *pgxpool.Pool
	closed bool
}

var tableName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?$`)

// NewDatabase checks the options. It contacts nobody; [Database.Check] does.
func NewDatabase(o DatabaseOptions) (*Database, error) {
	if o.Table == "" {
		o.Table = DefaultTable
	}
	if o.MaxConns == 0 {
		o.MaxConns = DefaultMaxConns
	}
	switch {
	case o.ConnString == nil:
		return nil, errors.New("sqlaction: no connection string")
	case !tableName.MatchString(o.Table):
		return nil, fmt.Errorf("sqlaction: table %.80q: want name or schema.name of lower-case letters, digits and _", o.Table)
	case o.MaxConns < 0 || o.MaxConns > 1000:
		return nil, fmt.Errorf("sqlaction: %d connections: want 1 to 1000", o.MaxConns)
	}
	return &Database{options: o, sql: statementsFor(o.Table)}, nil
}

// Check connects, and reports with an error what would keep actions from
// working: a database that cannot be reached, ErrLedgerDatabase, ErrTable (with
// the statement that creates the table), ErrPlainText. It makes the table where
// the options say so.
func (d *Database) Check(ctx context.Context) error {
	conn, err := d.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	for _, sql := range []string{d.sql.find, d.sql.record} {
		if _, err := conn.Conn().PgConn().Prepare(ctx, "", sql, nil); err != nil {
			return d.tableError("has other columns", err)
		}
	}
	return nil
}

// Close ends the connections, after those who use one. Later uses fail with
// ErrClosed. Closing twice is harmless.
func (d *Database) Close() {
	d.mu.Lock()
	pool := d.pool
	d.pool, d.closed = nil, true
	d.mu.Unlock()
	if pool != nil {
		pool.Close()
	}
}

// acquire returns a connection to a database that is known to be fit. Nothing
// was written when it fails.
func (d *Database) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	pool, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := pool.Acquire(ctx)
	if err != nil && refusesCredentials(err) {
		d.forget(pool)
	}
	return conn, err
}

// open returns the pool. Making it connects to nobody.
func (d *Database) open(ctx context.Context) (*pgxpool.Pool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, ErrClosed
	}
	if d.pool != nil {
		return d.pool, nil
	}
	text, err := d.options.ConnString(ctx)
	if err != nil {
		return nil, fmt.Errorf("sqlaction: connection string: %w", err)
	}
	config, err := pgxpool.ParseConfig(text)
	if err != nil {
		// The driver's text repeats the connection string.
		return nil, errors.New("sqlaction: the connection string cannot be read: want postgres://user:password@host:5432/database?sslmode=verify-full")
	}
	if !d.options.PlainText && plainText(&config.ConnConfig.Config) {
		return nil, ErrPlainText
	}
	config.MaxConns, config.MinConns, config.MinIdleConns = int32(d.options.MaxConns), 0, 0
	config.MaxConnIdleTime = connIdleTime
	// Prepared statements with names live in a session, which a pooler gives to
	// somebody else.
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	config.ConnConfig.RuntimeParams["application_name"] = "onceward"
	config.ConnConfig.OnNotice = noteWarning
	config.AfterConnect = d.verify
	d.pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	return d.pool, err
}

// forget drops a pool whose credentials were refused, so that the next use asks
// for the connection string again.
func (d *Database) forget(pool *pgxpool.Pool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pool == pool {
		d.pool = nil
		go pool.Close() // waits for those who have a connection
	}
}

// verify looks at the database that a new connection leads to.
func (d *Database) verify(ctx context.Context, conn *pgx.Conn) error {
	state, err := d.inspect(ctx, conn)
	if err != nil {
		return err
	}
	if state.Ledger {
		return ErrLedgerDatabase
	}
	if !state.There && d.options.CreateTable {
		_, made := conn.Exec(ctx, d.sql.table)
		// Two who create it at one moment: one gets an error, both have it.
		if state, err = d.inspect(ctx, conn); err != nil {
			return err
		}
		if !state.There {
			return d.tableError("cannot be created", made)
		}
	}
	switch {
	case !state.There:
		return d.tableError("is missing", nil)
	case !state.Durable:
		return d.tableError("is no ordinary table that survives a crash", nil)
	case state.Hides:
		return d.tableError("has row-level security that hides rows from this role", nil)
	case !state.Usable:
		return d.tableError("cannot be used: GRANT SELECT, INSERT on it to this role", nil)
	case !state.Unambiguous:
		return d.tableError("has no unique constraint on (tenant_id, operation_id)", nil)
	}
	return nil
}

// inspected is a row of inspect.sql.
type inspected struct{ Ledger, There, Durable, Hides, Usable, Unambiguous bool }

func (d *Database) inspect(ctx context.Context, conn *pgx.Conn) (inspected, error) {
	rows, err := conn.Query(ctx, d.sql.inspect, d.options.Table)
	if err != nil {
		return inspected{}, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[inspected])
}

// tableError says what is wrong with the table, and how it is created.
func (d *Database) tableError(what string, cause error) error {
	advice := "\ncreate it as its owner, or set create_table:\n\n" + d.sql.table + "GRANT SELECT, INSERT ON " + d.options.Table + " TO the role of the connection string;"
	if cause != nil {
		return fmt.Errorf("%w %s %s: %w%s", ErrTable, d.options.Table, what, cause, advice)
	}
	return fmt.Errorf("%w %s %s%s", ErrTable, d.options.Table, what, advice)
}

// plainText reports whether any way to connect that the configuration allows
// leaves this machine without TLS.
func plainText(c *pgconn.Config) bool {
	if c.TLSConfig == nil && !onThisMachine(c.Host) {
		return true
	}
	for _, f := range c.Fallbacks {
		if f.TLSConfig == nil && !onThisMachine(f.Host) {
			return true
		}
	}
	return false
}

func onThisMachine(host string) bool {
	if host == "localhost" || strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
