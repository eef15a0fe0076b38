package sqlaction

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/actions"
)

// Lookup reads the row of the operation. It writes nothing; the lock that it
// tries ends with its transaction.
//
// Found is a row: it was committed with the effect. Absent is no row while
// nobody holds the operation's lock; [Database] says why that is certain.
// Anything else is inconclusive.
func (r *Remote) Lookup(ctx context.Context, query actions.Query) actions.Finding {
	ctx, cancel := r.within(ctx)
	defer cancel()
	conn, err := r.db.acquire(ctx)
	if err != nil {
		return actions.Finding{Detail: evidence("connect", err)}
	}
	defer conn.Release()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadOnly})
	if err != nil {
		return actions.Finding{Detail: evidence("begin", err)}
	}
	defer rollBack(ctx, tx)
	lock, statement := serverTimes(ctx)
	batch := &pgx.Batch{}
	batch.Queue(r.db.sql.settings, lock, statement)
	var standby, free bool
	batch.Queue(r.db.sql.probe, lockOf(query.Call)).QueryRow(func(row pgx.Row) error { return row.Scan(&standby, &free) })
	var found *recorded
	batch.Queue(r.db.sql.find, query.Tenant, query.OperationID).Query(func(rows pgx.Rows) (err error) {
		found, err = oneRecorded(rows)
		return err
	})
	err = tx.SendBatch(ctx, batch).Close()
	switch {
	case err != nil:
		return actions.Finding{Detail: evidence("look-up", err)}
	case standby:
		return actions.Finding{Detail: "the database is a standby, which may lag and knows no locks of the primary"}
	case found != nil:
		return actions.Finding{Kind: actions.Found, Receipt: found.receipt(), Detail: "the row of the operation is committed"}
	case !free:
		return actions.Finding{Detail: "a transaction of the operation is still open"}
	}
	return actions.Finding{Kind: actions.Absent, Detail: "no row of the operation, and no transaction that could write it"}
}
