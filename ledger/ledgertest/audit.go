package ledgertest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/ledger"
)

// AuditEvent is one line of the audit record.
type AuditEvent struct {
	Sequence       int64 // the operation's revision after the event
	Event          string
	From, To       ledger.State
	Attempt, Epoch int
	ArgsHash       ledger.Hash
	Actor, Detail  string
}

// Audit returns the audit record of an operation, oldest first. It outlives the
// operation.
func (d Database) Audit(t testing.TB, op ledger.Operation) []AuditEvent {
	t.Helper()
	var events []AuditEvent
	d.asOwner(t, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT sequence, event, from_status, to_status, attempt, epoch, args_hash, actor, detail
			FROM audit_events WHERE tenant_id = $1 AND operation_id = $2::uuid ORDER BY sequence`, op.Tenant, op.ID)
		if err != nil {
			return err
		}
		events, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (AuditEvent, error) {
			var e AuditEvent
			var hash []byte
			err := row.Scan(&e.Sequence, &e.Event, &e.From, &e.To, &e.Attempt, &e.Epoch, &hash, &e.Actor, &e.Detail)
			if err == nil {
				e.ArgsHash = ledger.Hash(hash)
			}
			return e, err
		})
		return err
	})
	return events
}

// Count returns what a query that counts says, as the owner.
func (d Database) Count(t testing.TB, query string, args ...any) int {
	t.Helper()
	var n int
	d.asOwner(t, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, query, args...).Scan(&n)
	})
	return n
}

// Row returns the whole row of an operation as JSON, to see whether anything
// about it changed; empty when it is gone.
func (d Database) Row(t testing.TB, op ledger.Operation) string {
	t.Helper()
	var text string
	d.asOwner(t, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT coalesce((SELECT row_to_json(o)::text FROM operations o WHERE tenant_id = $1 AND id = $2::uuid), '')`,
			op.Tenant, op.ID).Scan(&text)
	})
	return text
}
