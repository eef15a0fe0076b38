package postgres

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/onceward/onceward/ledger"
)

// The statements that read the audit record. Each is used by one method.
var (
	//go:embed sql/events.sql
	eventsSQL string
	//go:embed sql/audit_record.sql
	auditRecordSQL string
	//go:embed sql/audit_unrecorded.sql
	auditUnrecordedSQL string

	// A text of its own: a plan for both could not use the index of denials.
	deniedSQL = strings.Replace(eventsSQL, "/* denied */", "AND e.event = 'deny'", 1)
)

// Events returns at most limit events of a tenant's audit record that match, in
// the order of operation id and sequence, after a position (zero: from the
// first). Times are those in the operations' ids, in milliseconds; with them only
// the partitions of those days are read. An OperationID of the filter, and of the
// position, must be a UUID or empty.
func (s *Store) Events(ctx context.Context, tenant string, f ledger.EventFilter, after ledger.EventPosition, limit int) ([]ledger.AuditEvent, error) {
	from, to := idsBetween(f.RecordedAfter, f.RecordedBefore)
	if f.OperationID != "" {
		from = later(from, uuidOf(f.OperationID))
		to = earlier(to, uuidOf(f.OperationID))
	}
	if after.OperationID == "" {
		after.OperationID = pgtype.UUID{Valid: true}.String()
	}
	sql := eventsSQL
	if f.DeniedOnly {
		sql = deniedSQL
	}
	rows, err := s.pool.Query(ctx, sql, pgx.NamedArgs{
		"tenant": tenant, "from": later(from, uuidOf(after.OperationID)), "to": to,
		"after": uuidOf(after.OperationID), "sequence": after.Sequence,
		"action_type": f.ActionType, "actor": f.Actor, "limit": limit,
	})
	if err != nil {
		return nil, unavailable(err)
	}
	events, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (ledger.AuditEvent, error) {
		e := ledger.AuditEvent{Tenant: tenant}
		var hash []byte
		var context *string
		err := row.Scan(&e.OperationID, &e.Sequence, &e.At, &e.Event, &e.From, &e.To, &e.Attempt, &e.Epoch, &hash, &e.Actor, &e.Detail,
			&e.Outcome, &e.Reference, &context, &e.Chain)
		if err != nil {
			return e, err
		}
		e.At = e.At.UTC()
		copy(e.ArgsHash[:], hash) // empty where no arguments were known
		if context != nil {
			e.Context = &ledger.EventContext{}
			if err := json.Unmarshal([]byte(*context), e.Context); err != nil {
				return e, fmt.Errorf("context of event %s/%d: %w", e.OperationID, e.Sequence, err)
			}
		}
		return e, nil
	})
	return events, unavailable(err)
}

// AuditRecord hands the audit record over for verification, each event as a line
// of JSON as ExportAudit does, but for "last": the first event of an operation has
// the "head" that the ledger keeps of it, empty where the operation is gone. The
// order is that of tenant, operation and sequence. It is of one tenant unless that
// is empty, and of operations that were recorded at or after since. A line is
// valid during the call only. All are of one moment.
func (s *Store) AuditRecord(ctx context.Context, tenant string, since time.Time, each func(line []byte) error) error {
	from, _ := idsBetween(since, time.Time{})
	rows, err := s.pool.Pool.Query(ctx, auditRecordSQL, pgx.NamedArgs{"tenant": tenant, "from": from})
	if err != nil {
		return unavailable(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.RawValues()[0]); err != nil {
			return err
		}
	}
	return unavailable(rows.Err())
}

// Unrecorded returns operations that have no event in the audit record at all, at
// most limit, of one tenant unless that is empty. It reads the table of operations
// once.
func (s *Store) Unrecorded(ctx context.Context, tenant string, since time.Time, limit int) ([]AuditNeed, error) {
	from, _ := idsBetween(since, time.Time{})
	rows, err := s.pool.Pool.Query(ctx, auditUnrecordedSQL, pgx.NamedArgs{"tenant": tenant, "from": from, "limit": limit})
	if err != nil {
		return nil, unavailable(err)
	}
	operations, err := pgx.CollectRows(rows, pgx.RowToStructByPos[AuditNeed])
	return operations, unavailable(err)
}

// idsBetween are the smallest and the largest time-ordered UUID (RFC 9562,
// version 7: 48 bits of milliseconds lead) of a time: at or after from, before to.
// A zero time is no bound.
func idsBetween(from, to time.Time) (first, last pgtype.UUID) {
	first.Valid, last.Valid = true, true
	for i := range last.Bytes {
		last.Bytes[i] = 0xff
	}
	const whole = int64(time.Millisecond)
	if ms := (from.UnixNano() + whole - 1) / whole; !from.IsZero() && from.Unix() > 0 {
		putMillis(&first, ms)
	}
	switch {
	case to.IsZero():
	case to.Unix() <= 0:
		last.Bytes = [16]byte{}
	default:
		putMillis(&last, (to.UnixNano()+whole-1)/whole-1)
	}
	return first, last
}

func putMillis(id *pgtype.UUID, ms int64) {
	for i := range 6 {
		id.Bytes[i] = byte(ms >> (8 * (5 - i)))
	}
}

func later(a, b pgtype.UUID) pgtype.UUID {
	if string(a.Bytes[:]) < string(b.Bytes[:]) {
		return b
	}
	return a
}

func earlier(a, b pgtype.UUID) pgtype.UUID {
	if later(a, b) == a {
		return b
	}
	return a
}
