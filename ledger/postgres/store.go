package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/pgurl"
	"github.com/onceward/onceward/ledger"
)

// illegalMove is the SQLSTATE that the operations_guard trigger raises.
const illegalMove = "OW001"

// unreplicated marks a connection on which a commit was not confirmed by its
// standby, in the connection's custom data.
const unreplicated = "onceward.unreplicated"

// Store is the ledger on Postgres. It is safe for concurrent use.
//
// Callers who write at the same time share transactions; each gets its own
// result, after the commit. The errors of methods that write:
// ledger.ErrFenced when the operation is no longer as the caller knew it,
// ledger.ErrIllegalMove when the state machine has no such move,
// ledger.ErrOverloaded when too many wait (nothing was written),
// ledger.ErrUnavailable when the database did not answer (whether the write
// was made is then unknown), ledger.ErrUnsafeCommit when it is on the primary
// only, ledger.ErrNotFound when there is no such row in this tenant.
type Store struct {
	pool    bounded       // single statements
	batches *pgxpool.Pool // those that callers share
	looks   *pgxpool.Pool // those that no request waits for, and that must not wait for requests
	pooled  bool          // connections come from a pooler

	writes      *lane[*write] // new operations and changes
	alterations *lane[*write] // the rest, which is rare
	reads       *lane[*read]

	refusals suspects

	observer Observer
}

// How writes share transactions (docs/performance.md has the measurements).
// More rows in a batch, or more flights, gain nothing and cost the tail.
const (
	maxBatch          = 512
	alterationFlights = 1
	writeFlights      = 2
	writeCrowd        = 16
	maxBatchBytes     = 4 << 20
	maxWaiting        = 4096
	readFlights       = 4
	readCrowd         = 16
	minReads          = 8 // connections
	sharedConnections = writeFlights + alterationFlights + readFlights
	looking           = 2 // connections: one for Look, one for Census
)

// Connections is how many connections a store at url may use. It asks nobody.
func Connections(url string) (int, error) {
	config, err := pgurl.ParsePool(url)
	if err != nil {
		return 0, fmt.Errorf("ledger: database url: %w", err)
	}
	return int(singles(url, config)) + sharedConnections + looking, nil
}

// singles is how many connections there may be for single statements.
func singles(url string, config *pgxpool.Config) int32 {
	if strings.Contains(url, "pool_max_conns") {
		return config.MaxConns
	}
	return max(config.MaxConns, minReads)
}

// Open connects to the ledger at url (a Postgres URL or DSN, with pgx's pool
// settings) and checks that the database keeps what it acknowledges. Behind a
// pooler in transaction mode add default_query_exec_mode=cache_describe.
//
// It uses up to pool_max_conns connections (8 unless it is given) for single
// statements, seven more for those that callers share, and two for Look and Census.
func Open(ctx context.Context, url string, options ...Option) (*Store, error) {
	s := &Store{observer: unobserved{}}
	for _, option := range options {
		option(s)
	}
	config, err := pgurl.ParsePool(url)
	if err != nil {
		return nil, fmt.Errorf("ledger: database url: %w", err)
	}
	switch config.ConnConfig.DefaultQueryExecMode {
	case pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe:
	default:
		// The others know no types of ours, or describe a statement on one
		// connection of a pooler and run it on another.
		return nil, errors.New("ledger: default_query_exec_mode: want cache_describe behind a pooler, and nothing otherwise")
	}
	config.ConnConfig.RuntimeParams["application_name"] = "onceward"
	config.ConnConfig.OnNotice = markUnreplicated
	config.PingTimeout = pingTimeout
	config.MaxConns = singles(url, config)
	types, err := checkDatabase(ctx, config.ConnConfig)
	if err != nil {
		return nil, err
	}
	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		m := remembers(conn)
		for i, t := range rowTypes() {
			t.register(conn, m, types[i].OID, types[i].ArrayOID)
		}
		return nil
	}
	if _, nobody := s.observer.(unobserved); !nobody {
		config.ConnConfig.Tracer = tracer{s.observer}
	}
	s.pooled = config.ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement
	if err := s.connect(ctx, config); err != nil {
		return nil, err
	}
	s.writes = &lane[*write]{fly: s.fly, weigh: (*write).bytes, batch: maxBatch, flights: writeFlights, crowd: writeCrowd, limit: maxWaiting, flown: s.flown(ledger.Writes)}
	s.alterations = &lane[*write]{fly: s.fly, weigh: (*write).bytes, batch: maxBatch, flights: alterationFlights, crowd: maxBatch, limit: maxWaiting, flown: s.flown(ledger.Alterations)}
	s.reads = &lane[*read]{fly: s.flyReads, weigh: func(*read) int { return 0 }, batch: maxBatch, flights: readFlights, crowd: readCrowd, limit: maxWaiting, flown: s.flown(ledger.Reads)}
	return s, nil
}

// flown tells the observer of the transactions of a lane.
func (s *Store) flown(l ledger.Lane) func(rows int, took time.Duration) {
	return func(rows int, took time.Duration) { s.observer.Batch(l, rows, took) }
}

// connect makes the pools, all or none. They connect when they are used.
func (s *Store) connect(ctx context.Context, config *pgxpool.Config) (err error) {
	defer func() {
		if err != nil {
			s.Close()
			err = fmt.Errorf("ledger: %w", err)
		}
	}()
	s.pool.answer = answerTimeout
	single := config.Copy()
	s.prefer(single, singleSettings)
	if s.pool.Pool, err = pgxpool.NewWithConfig(ctx, single); err != nil {
		return err
	}
	shared := config.Copy()
	shared.MaxConns, shared.MinConns = sharedConnections, 0
	s.prefer(shared, batchSettings)
	if s.batches, err = pgxpool.NewWithConfig(ctx, shared); err != nil {
		return err
	}
	aside := single.Copy()
	aside.MaxConns, aside.MinConns = looking, 0
	s.looks, err = pgxpool.NewWithConfig(ctx, aside)
	return err
}

// singleSettings are for statements that mostly want some rows by an index. Where a
// planner takes a large table for the smaller evil it would compile that before.
var singleSettings = map[string]string{"jit": "off"}

// prefer makes settings those that a pool's connections start with, but for what the
// url says. A pooler's connections are not ours to set.
func (s *Store) prefer(config *pgxpool.Config, settings map[string]string) {
	if s.pooled {
		return
	}
	for name, value := range settings {
		if _, given := config.ConnConfig.RuntimeParams[name]; !given {
			config.ConnConfig.RuntimeParams[name] = value
		}
	}
}

// markUnreplicated notes on the connection that a wait for a synchronous
// standby was cancelled: Postgres reports that as a success with a warning. The
// warning has no SQLSTATE of its own and its text is translated, so the name of
// the server's routine decides.
func markUnreplicated(conn *pgconn.PgConn, notice *pgconn.Notice) {
	if notice.Routine == "SyncRepWaitForLSN" {
		conn.CustomData()[unreplicated] = true
	}
}

// rowTypeOIDs are how this database calls a row type and arrays of it.
type rowTypeOIDs struct{ OID, ArrayOID uint32 }

// ErrOldSchema: the database was not migrated to what this program needs.
var ErrOldSchema = errors.New("ledger: the schema is missing or older than this program: run onceward migrate, then start again")

// checkDatabase refuses a database that acknowledges before it has written,
// for L2 would not hold, and one with another schema. It returns what this one
// calls the row types.
func checkDatabase(ctx context.Context, config *pgx.ConnConfig) (types []rowTypeOIDs, err error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("ledger: connect: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	var commit string
	var recovery, restorable bool
	if err := conn.QueryRow(ctx, durabilitySQL).Scan(&commit, &recovery, &restorable); err != nil {
		return nil, fmt.Errorf("ledger: connect: %w", err)
	}
	if recovery {
		return nil, ErrStandby
	}
	if commit == "off" {
		return nil, errors.New("ledger: synchronous_commit is off: an acknowledged claim could be lost; set it to on for this role or database")
	}
	names, columns := knownTypes()
	rows, err := conn.Query(ctx, rowTypesSQL, pgx.NamedArgs{"names": names, "columns": columns})
	if err != nil {
		return nil, fmt.Errorf("ledger: connect: %w", err)
	}
	types, err = pgx.CollectRows(rows, pgx.RowToStructByPos[rowTypeOIDs])
	if err != nil {
		return nil, fmt.Errorf("ledger: connect: %w", err)
	}
	if len(types) != len(names) || !restorable {
		return nil, ErrOldSchema
	}
	return types, nil
}

// Close ends all connections, after the statements under way.
func (s *Store) Close() {
	for _, pool := range []*pgxpool.Pool{s.looks, s.batches, s.pool.Pool} {
		if pool != nil {
			pool.Close()
		}
	}
}

// Ping checks that the ledger answers.
func (s *Store) Ping(ctx context.Context) error { return unavailable(s.pool.Ping(ctx)) }

// write runs one statement that returns operations, in its own transaction,
// and checks that its commit is as safe as the database was told to make it.
func (s *Store) write(ctx context.Context, sql string, args pgx.NamedArgs) ([]ledger.Operation, error) {
	var ops []ledger.Operation
	err := s.pool.AcquireFunc(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		delete(conn.Conn().PgConn().CustomData(), unreplicated)
		var err error
		ops, err = queryOperations(ctx, conn, sql, args)
		if err == nil {
			return safeCommit(conn)
		}
		if ambiguous(err) { // nobody looks: what was taken comes up again
			s.observer.AmbiguousCommit(ledger.FoundUnknown)
		}
		return err
	})
	return ops, unavailable(err)
}

func safeCommit(conn *pgxpool.Conn) error {
	if conn.Conn().PgConn().CustomData()[unreplicated] != nil {
		return ledger.ErrUnsafeCommit
	}
	return nil
}

// visibleIsSafe reports whether a row that can be read is as safe as it was to
// be made. Where commits wait for a standby it may not be: a connection that is
// ended while it waits leaves its commit on the primary only, and the warning
// is lost with it.
func (s *Store) visibleIsSafe(ctx context.Context) bool {
	var standbys string
	err := s.pool.QueryRow(ctx, standbysSQL).Scan(&standbys)
	return err == nil && standbys == ""
}

// querier is a pool, a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func queryOperations(ctx context.Context, q querier, sql string, args pgx.NamedArgs) ([]ledger.Operation, error) {
	rows, err := q.Query(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanOperation)
}

// unavailable turns what the driver reports into the ledger's errors. What the
// server answered (an SQLSTATE) is kept; everything else means that no answer
// came.
func unavailable(err error) error {
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case err == nil,
		errors.Is(err, ledger.ErrUnsafeCommit), errors.Is(err, ledger.ErrFenced), errors.Is(err, ledger.ErrNotFound),
		errors.Is(err, ledger.ErrServing):
		return err
	case errors.As(err, &connect):
		return fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
	case errors.As(err, &pg):
		if pg.Code == illegalMove {
			return fmt.Errorf("%w: %s", ledger.ErrIllegalMove, pg.Message)
		}
		if away(pg.Code) {
			return fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
		}
		return fmt.Errorf("ledger: %w", err)
	default:
		return fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
	}
}

// away reports whether an SQLSTATE means that the database cannot serve now:
// connection trouble, no resources, shutting down, cancelled, read-only.
func away(code string) bool {
	switch code[:2] {
	case "08", "53", "57", "58":
		return true
	}
	return code == "25006" || code == "40001" || code == "40P01" || code == "55P03"
}

// micros is how durations go into statements.
func micros(d time.Duration) int64 { return d.Microseconds() }

// oneIf is how flags that are counted with go into statements.
func oneIf(flag bool) int32 {
	if flag {
		return 1
	}
	return 0
}
