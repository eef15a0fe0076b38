package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/ledger"
)

// The methods of this file are the owner's: what becomes of the audit record
// when it is old. Its partitions are by the day on which an operation was
// recorded.

// AuditDay names a partition of the audit record: a day in UTC as 2006-01-02, or
// AuditDefault.
type AuditDay string

// AuditDefault is the partition for operations of days that have none. It is
// never dropped.
const AuditDefault AuditDay = "default"

// ParseAuditDay reads a day as people write it, or "default".
func ParseAuditDay(text string) (AuditDay, error) {
	if text == string(AuditDefault) {
		return AuditDefault, nil
	}
	if _, err := time.Parse(time.DateOnly, text); err != nil {
		return "", fmt.Errorf("%q is not a day: want one such as 2026-10-01", text)
	}
	return AuditDay(text), nil
}

// partition is the name of the table, as SQL has it.
func (d AuditDay) partition() string {
	return pgx.Identifier{"public", "audit_events_" + strings.ReplaceAll(string(d), "-", "")}.Sanitize()
}

// date is the day as a parameter; NULL for AuditDefault.
func (d AuditDay) date() *string {
	if d == AuditDefault {
		return nil
	}
	return nullIfEmpty(string(d))
}

// in puts the partition where a statement asks for it.
func (d AuditDay) in(sql string) string {
	return strings.ReplaceAll(sql, "/* partition */", d.partition())
}

type auditPartition struct {
	there   bool // there is a table of that name
	regular bool // which is the day's partition
	age     *int // in days; nil for AuditDefault
}

// AuditPartition is a partition as Store.AuditPartitions shows it.
type AuditPartition struct {
	Day AuditDay
	// Over: the day is over in UTC. Of AuditDefault it is always true.
	Over bool
	// Rows is how many events it has; an estimate unless RowsExact.
	Rows      int64
	RowsExact bool
	// Bytes includes indexes.
	Bytes int64
	// Operations is how many operations of the day are still in the ledger. They
	// are found through their events, so that these cannot go.
	Operations int64
}

// AuditDigest says what a partition holds: how many events, and the SHA-256 of
// their lines (see ExportAudit), each with its newline.
type AuditDigest struct {
	Rows   int64
	SHA256 [sha256.Size]byte
}

var (
	// ErrAuditDayOpen: the day is not over, or not for long enough.
	ErrAuditDayOpen = errors.New("ledger: the day is not over for long enough")
	// ErrAuditDefault: the default partition is not dropped.
	ErrAuditDefault = errors.New("ledger: audit_events_default is never dropped: it takes what belongs to no day")
	// ErrAuditDiffers: what was exported is not what the partition holds.
	ErrAuditDiffers = errors.New("ledger: the export is not what the ledger has of this day")
)

// AuditNeededError: operations of the day are still in the ledger. The finished
// ones go when their window is over; the unresolved ones never go by
// themselves.
type AuditNeededError struct {
	Day                    AuditDay
	Operations, Unresolved int64
	Oldest                 []AuditNeed
}

// AuditNeed is an operation that still needs its audit record.
type AuditNeed struct {
	Tenant, ID string
	State      ledger.State
}

func (e *AuditNeededError) Error() string {
	oldest := make([]string, len(e.Oldest))
	for i, o := range e.Oldest {
		oldest[i] = fmt.Sprintf("%s of %s (%s)", o.ID, o.Tenant, o.State)
	}
	return fmt.Sprintf("ledger: %d operations of %s still need their audit record, %d of them unresolved; the oldest: %s",
		e.Operations, e.Day, e.Unresolved, strings.Join(oldest, ", "))
}

// AuditBusyError: the lock that the drop needs could not be had in time.
type AuditBusyError struct {
	Blockers []Blocker // as far as they are known
}

// Blocker is a database session in a transaction that keeps others waiting.
type Blocker struct {
	PID               int
	User, Application string
	Since             time.Time
}

func (e *AuditBusyError) Error() string {
	text := "ledger: the audit record is in use"
	for _, b := range e.Blockers {
		text += fmt.Sprintf("; process %d (%s, user %s) is in a transaction since %s", b.PID, b.Application, b.User, b.Since.UTC().Format(time.RFC3339))
	}
	return text
}

// How a drop gets its locks.
const (
	auditGap    = 500 * time.Millisecond // between two tries: who serves catches up
	auditNeeds  = 5                      // operations that a refusal names
	auditReport = 10000                  // rows between two reports of progress
)

// AuditPartitions lists the partitions of the audit record, the oldest first and
// the default one last. Rows are counted where exact is set and where the
// database has no estimate. It reads the table of operations once.
func (s *Store) AuditPartitions(ctx context.Context, exact bool) ([]AuditPartition, error) {
	rows, err := s.pool.Pool.Query(ctx, auditPartitionsSQL)
	if err != nil {
		return nil, unavailable(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (AuditPartition, error) {
		var p AuditPartition
		var bytes int64
		err := row.Scan(&p.Day, &p.Rows, &bytes, &p.Bytes, &p.Operations, &p.Over)
		if bytes == 0 {
			p.Rows, p.RowsExact = 0, true
		}
		return p, err
	})
	if err != nil {
		return nil, unavailable(err)
	}
	kept := list[:0]
	for _, p := range list {
		if !p.RowsExact && (exact || p.Rows < 0) {
			p.Rows, err = s.CountAudit(ctx, p.Day)
			if errors.Is(err, ledger.ErrNotFound) { // dropped meanwhile
				continue
			}
			if err != nil {
				return nil, err
			}
			p.RowsExact = true
		}
		kept = append(kept, p)
	}
	return kept, nil
}

// CountAudit counts the events of a partition. ErrNotFound when there is none.
func (s *Store) CountAudit(ctx context.Context, day AuditDay) (rows int64, err error) {
	err = s.pool.Pool.QueryRow(ctx, day.in(auditCountText)).Scan(&rows)
	return rows, goneOr(err)
}

// ExportAudit hands the events of a partition over, one after the other, each as
// JSON in one line without its newline: every column under its name, args_hash
// in hex, in the order of tenant, operation and sequence. A line is valid during
// the call only. All are of one moment.
//
// It fails with ledger.ErrNotFound when there is no such partition, and with
// ErrAuditDayOpen while the day is not over.
func (s *Store) ExportAudit(ctx context.Context, day AuditDay, each func(line []byte) error) error {
	p, err := s.auditPartition(ctx, day)
	switch {
	case err != nil:
		return err
	case p.age != nil && *p.age < 1:
		return ErrAuditDayOpen
	case !p.regular:
		return ledger.ErrNotFound
	}
	rows, err := s.pool.Pool.Query(ctx, day.in(auditLinesText))
	if err != nil {
		return goneOr(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.RawValues()[0]); err != nil {
			return err
		}
	}
	return goneOr(rows.Err())
}

// AuditDrop says what is to be dropped.
type AuditDrop struct {
	Day AuditDay
	// Exported returns what was exported of the day. It is asked for when
	// nothing else is in the way; its error is returned as it is.
	Exported func() (AuditDigest, error)
	// Compared is told, now and then, how many events were compared with the
	// export.
	Compared func(rows int64)
	// Patience is for how long the lock is tried for.
	Patience time.Duration
}

// DropAudit removes the partition of a day for good. It reads the whole
// partition, compares it with the export, and takes it out of the audit record
// in a short transaction. Who serves waits for it for a fifth of a second at a
// time, and only if somebody else keeps the audit record locked.
//
// It changes nothing and fails with ErrAuditDefault, ledger.ErrNotFound (there
// is no such partition), ErrAuditDayOpen unless the day has been over for a day,
// *AuditNeededError, ErrAuditDiffers, *AuditBusyError.
func (s *Store) DropAudit(ctx context.Context, d AuditDrop) error {
	if d.Day == AuditDefault {
		return ErrAuditDefault
	}
	p, err := s.auditPartition(ctx, d.Day)
	switch {
	case err != nil:
		return err
	case *p.age < 2:
		return ErrAuditDayOpen
	case !p.there:
		return ledger.ErrNotFound
	case !p.regular:
		return fmt.Errorf("ledger: %s is not the partition of that day", d.Day.partition())
	}
	// An operation that is recorded with an id of that day after this look has
	// an event that is not in the export.
	if err := s.auditNeeded(ctx, d.Day); err != nil {
		return err
	}
	exported, err := d.Exported()
	if err != nil {
		return err
	}
	held, err := s.digestAudit(ctx, d)
	if err != nil {
		return err
	}
	if held.Rows != exported.Rows {
		return fmt.Errorf("%w: %d events in the export, %d in the ledger", ErrAuditDiffers, exported.Rows, held.Rows)
	}
	if held != exported {
		return fmt.Errorf("%w: as many events, but not the same", ErrAuditDiffers)
	}
	for until := time.Now().Add(d.Patience); ; {
		err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return dropAudit(ctx, tx, d.Day, exported.Rows) })
		if !isBusy(err) {
			return goneOr(err)
		}
		if !time.Now().Add(auditGap).Before(until) {
			return s.auditBusy(ctx, d.Day)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(auditGap):
		}
	}
}

// digestAudit reads a whole partition.
func (s *Store) digestAudit(ctx context.Context, d AuditDrop) (AuditDigest, error) {
	var digest AuditDigest
	hash := sha256.New()
	err := s.ExportAudit(ctx, d.Day, func(line []byte) error {
		hash.Write(line)
		hash.Write([]byte{'\n'})
		digest.Rows++
		if d.Compared != nil && digest.Rows%auditReport == 0 {
			d.Compared(digest.Rows)
		}
		return nil
	})
	hash.Sum(digest.SHA256[:0])
	return digest, err
}

// dropAudit drops a partition that has this many rows. Events are only added, so
// that the number says whether any came since they were compared.
func dropAudit(ctx context.Context, tx pgx.Tx, day AuditDay, rows int64) error {
	if _, err := tx.Exec(ctx, day.in(auditHoldText), pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	var held int64
	if err := tx.QueryRow(ctx, day.in(auditCountText)).Scan(&held); err != nil {
		return err
	}
	if held != rows {
		return fmt.Errorf("%w: %d events in the export, %d in the ledger", ErrAuditDiffers, rows, held)
	}
	_, err := tx.Exec(ctx, day.in(auditDropText), pgx.QueryExecModeSimpleProtocol)
	return err
}

// auditPartition looks whether a partition is there.
func (s *Store) auditPartition(ctx context.Context, day AuditDay) (auditPartition, error) {
	var p auditPartition
	err := s.pool.Pool.QueryRow(ctx, auditPartitionSQL, pgx.NamedArgs{"partition": day.partition(), "day": day.date()}).Scan(&p.there, &p.regular, &p.age)
	return p, unavailable(err)
}

// auditNeeded fails with *AuditNeededError if operations of the day are in the
// ledger.
func (s *Store) auditNeeded(ctx context.Context, day AuditDay) error {
	rows, err := s.pool.Pool.Query(ctx, auditNeededSQL, pgx.NamedArgs{"day": day.date(), "limit": auditNeeds})
	if err != nil {
		return unavailable(err)
	}
	needed := &AuditNeededError{Day: day}
	needed.Oldest, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (AuditNeed, error) {
		var n AuditNeed
		return n, row.Scan(&n.Tenant, &n.ID, &n.State, &needed.Operations, &needed.Unresolved)
	})
	if err != nil {
		return unavailable(err)
	}
	if len(needed.Oldest) > 0 {
		return needed
	}
	return nil
}

// auditBusy is a *AuditBusyError that names those who are in the way.
func (s *Store) auditBusy(ctx context.Context, day AuditDay) error {
	rows, err := s.pool.Pool.Query(ctx, auditBlockersSQL, pgx.NamedArgs{"partition": day.partition()})
	if err != nil {
		return unavailable(err)
	}
	blockers, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Blocker])
	if err != nil {
		return unavailable(err)
	}
	return &AuditBusyError{Blockers: blockers}
}

// isBusy reports whether a lock could not be had: not in time, or because who
// has it waits for one of ours.
func isBusy(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == pgerrcode.LockNotAvailable || pg.Code == pgerrcode.DeadlockDetected)
}

// goneOr is unavailable where a table that is not there is a partition that was
// dropped.
func goneOr(err error) error {
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Code == pgerrcode.UndefinedTable:
		return ledger.ErrNotFound
	case errors.Is(err, ErrAuditDiffers):
		return err
	}
	return unavailable(err)
}
