package doctor

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed facts.sql
var factsSQL string

//go:embed ledger.sql
var ledgerSQL string

//go:embed restores.sql
var restoresSQL string

// facts are what a database says of itself (facts.sql).
type facts struct {
	VersionNum          int      `db:"version_num"`
	Version             string   `db:"version"`
	Standby             bool     `db:"standby"`
	SynchronousCommit   string   `db:"synchronous_commit"`
	StandbyNames        string   `db:"standby_names"`
	Walsenders          int      `db:"walsenders"`
	Fsync               bool     `db:"fsync"`
	FullPageWrites      bool     `db:"full_page_writes"`
	Checksums           bool     `db:"checksums"`
	Autovacuum          bool     `db:"autovacuum"`
	Encoding            string   `db:"encoding"`
	Isolation           string   `db:"isolation"`
	ReadOnly            bool     `db:"read_only"`
	StatementTimeout    int64    `db:"statement_timeout_ms"`
	MaxConnections      int      `db:"max_connections"`
	ReservedConnections int      `db:"reserved_connections"`
	Connections         int      `db:"connections"`
	SharedBuffers       int64    `db:"shared_buffers"`
	MaxWALSize          int64    `db:"max_wal_size"`
	ArchiveMode         string   `db:"archive_mode"`
	XIDAge              int      `db:"xid_age"`
	OldestTransaction   *float64 `db:"oldest_transaction"` // seconds
	Superuser           bool     `db:"superuser"`
	Serves              bool     `db:"serves"`
	Migrated            bool     `db:"migrated"`
	SeesVersion         bool     `db:"sees_version"`
	SeesLedger          bool     `db:"sees_ledger"`
	SeesRestores        bool     `db:"sees_restores"`
	MayChangeRecord     bool     `db:"may_change_record"`
}

// holdings are what the ledger holds that somebody should know of (ledger.sql).
type holdings struct {
	Fingerprint        []byte   `db:"fingerprint"`
	Tenants            []string `db:"tenants"`
	KillSwitches       int      `db:"kill_switches"`
	OldestLeaseOverdue *float64 `db:"oldest_lease_overdue"` // seconds; negative: not yet due
	OldestReview       *float64 `db:"oldest_review"`        // seconds
	Tomorrow           bool     `db:"tomorrow"`             // the audit record has its partition
}

// Database is what the doctor needs to know beside the database itself.
type Database struct {
	// Schema is the newest version that this program brings.
	Schema uint
	// Fingerprint is of the provider key secret; nil where no secrets were given.
	Fingerprint *[32]byte
	// Replicas and Connections say how many connections will be used: processes, and
	// what each may open.
	Replicas, Connections int
	// PolicyTenants are those that have a policy; nil: nobody said.
	PolicyTenants []string
}

// Look asks the database that conn leads to, and judges its answers. It fails only
// when the database does not answer; whatever it answers is a finding.
func (d Database) Look(ctx context.Context, conn *pgx.Conn) ([]Finding, error) {
	f, err := collect[facts](ctx, conn, factsSQL)
	if err != nil {
		return nil, err
	}
	findings := d.judge(f)
	offset, uncertainty, err := clockOffset(ctx, conn)
	if err != nil {
		return nil, err
	}
	findings = append(findings, judgeClock(offset, uncertainty))
	if f.Standby || !f.Migrated {
		return append(findings, d.judgeSchema(f, 0, false)...), nil
	}
	if f.SeesVersion {
		var version int64
		var dirty bool
		err := conn.QueryRow(ctx, `SELECT version, dirty FROM onceward_migrations`).Scan(&version, &dirty)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return nil, fmt.Errorf("the schema's version: %w", err)
		}
		findings = append(findings, d.judgeSchema(f, uint(version), dirty)...)
	}
	if !f.SeesLedger {
		return findings, nil
	}
	h, err := collect[holdings](ctx, conn, ledgerSQL)
	if err != nil {
		return nil, err
	}
	findings = append(findings, d.judgeHoldings(h)...)
	if !f.SeesRestores { // a schema from before there were any
		return findings, nil
	}
	r, err := collect[recovery](ctx, conn, restoresSQL)
	if err != nil {
		return nil, err
	}
	return append(findings, judgeRecovery(r)...), nil
}

// recovery is what a ledger says of its restores (restores.sql).
type recovery struct {
	InForce int        `db:"in_force"`
	Since   *time.Time `db:"since"` // nil where none is in force
}

func collect[T any](ctx context.Context, conn *pgx.Conn, sql string) (T, error) {
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		var none T
		return none, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[T])
}

// clockLooks is how often the clock is read: the quickest answer says most.
const clockLooks = 5

// clockOffset is by how much the database's clock is ahead of this machine's, give
// or take half the time that the answer took (the way of RFC 5905 with one server).
func clockOffset(ctx context.Context, conn *pgx.Conn) (offset, uncertainty time.Duration, err error) {
	for i := range clockLooks {
		var there time.Time
		sent := time.Now()
		if err := conn.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&there); err != nil {
			return 0, 0, fmt.Errorf("the database's clock: %w", err)
		}
		way := time.Since(sent) / 2
		if i == 0 || way < uncertainty {
			offset, uncertainty = there.Sub(sent.Add(way)), way
		}
	}
	return offset, uncertainty, nil
}
