package sqlaction

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/actions"
)

// maxReceiptBytes is what the ledger stores of a receipt.
const maxReceiptBytes = 64 << 10

// rollbackTime bounds the goodbye to a transaction that is not committed. A
// connection that is not done by then is closed, with the same effect.
const rollbackTime = time.Second

// Execute makes one attempt: one transaction that takes the operation's lock,
// looks for an earlier attempt's receipt, and else runs the statement and
// records its receipt beside it.
//
// Nothing can have been applied while COMMIT was not sent, whatever else
// happened; afterwards the server's explicit answer counts and nothing else.
func (r *Remote) Execute(ctx context.Context, call actions.Call) actions.Outcome {
	req, err := r.statement.request(call, r.db.options.Table)
	if err != nil {
		return rejected("not_renderable", "The arguments make no statement.", err.Error(), true)
	}
	ctx, cancel := r.within(ctx)
	defer cancel()
	conn, err := r.db.acquire(ctx)
	if err != nil {
		return notConnected(err)
	}
	defer conn.Release()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return notCommitted("begin", err)
	}
	defer rollBack(ctx, tx)

	earlier, err := r.claim(ctx, tx, call)
	switch {
	case err != nil:
		return notCommitted("lock", err)
	case earlier != nil:
		return earlier.answer(req)
	case late(ctx):
		return notApplied("too_late", "The attempt's time was over before it began.", "deadline passed before the statement; not sent")
	}
	made, refusal := r.run(ctx, tx, req)
	if refusal != nil {
		return *refusal
	}
	_, err = tx.Exec(ctx, r.db.sql.record, call.Tenant, call.OperationID, req.hash[:], made.Reference, made.Receipt)
	if isCode(err, pgerrcode.UniqueViolation) {
		// Somebody wrote it without the lock. Ours is rolled back; the look-up
		// finds theirs.
		return actions.Outcome{Kind: actions.MaybeOurs, Failure: actions.Failure{
			Code: "already_recorded", Message: "Another attempt has recorded this operation.", Evidence: evidence("record", err)}}
	}
	if err != nil {
		return notCommitted("record", err)
	}
	return commit(ctx, conn.Conn().PgConn(), tx, made)
}

// recorded is a row of the table of operation ids.
type recorded struct {
	Hash               []byte
	Reference, Receipt string
}

// claim sets the server's timeouts, takes the operation's lock and returns what
// an earlier attempt has recorded, or nil. The search is a statement of its
// own: one that had begun before the lock was granted would not see what its
// last holder committed.
func (r *Remote) claim(ctx context.Context, tx pgx.Tx, call actions.Call) (*recorded, error) {
	lock, statement := serverTimes(ctx)
	batch := &pgx.Batch{}
	batch.Queue(r.db.sql.settings, lock, statement)
	batch.Queue(r.db.sql.lock, lockOf(call))
	var found *recorded
	batch.Queue(r.db.sql.find, call.Tenant, call.OperationID).Query(func(rows pgx.Rows) (err error) {
		found, err = oneRecorded(rows)
		return err
	})
	return found, tx.SendBatch(ctx, batch).Close()
}

// oneRecorded reads one row, or none.
func oneRecorded(rows pgx.Rows) (*recorded, error) {
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByPos[recorded])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return row, err
}

// answer is the outcome of an attempt that finds an earlier one's row.
func (e *recorded) answer(req request) actions.Outcome {
	if string(e.Hash) != string(req.hash[:]) {
		return actions.Outcome{Kind: actions.KeyMismatch, Failure: actions.Failure{
			Code: "operation_mismatch", Message: "The database holds this operation with another statement or other parameters.",
			Evidence: "the row of the operation has another request hash"}}
	}
	return actions.Outcome{Kind: actions.Applied, Receipt: e.receipt()}
}

func (e *recorded) receipt() actions.Receipt {
	return actions.Receipt{Reference: e.Reference, JSON: json.RawMessage(e.Receipt)}
}

// made is the one row that a statement returns.
type made struct{ Reference, Receipt string }

// run executes the declared statement. Its refusals are rolled back.
func (r *Remote) run(ctx context.Context, tx pgx.Tx, req request) (made, *actions.Outcome) {
	refuse := func(o actions.Outcome) (made, *actions.Outcome) { return made{}, &o }
	rows, err := tx.Query(ctx, req.SQL, req.Args...)
	var m made
	if err == nil {
		m, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[made])
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return refuse(rejected("no_row", "The statement found nothing to change.", "the statement returned no row; rolled back", true))
	case errors.Is(err, pgx.ErrTooManyRows):
		return refuse(rejected("several_rows", "The statement would change more than one row.", "the statement returned several rows; rolled back", false))
	case err != nil:
		return refuse(notRun(tx, err))
	}
	var object map[string]json.RawMessage
	if m.Reference == "" || len(m.Receipt) > maxReceiptBytes || json.Unmarshal([]byte(m.Receipt), &object) != nil || object == nil {
		return refuse(rejected("no_receipt", "The statement returns no reference and receipt.",
			"want a reference that is not empty and a JSON object of at most 64 KiB; rolled back", false))
	}
	return m, nil
}

// commit sends COMMIT, the one message after which an effect may exist. Once it
// was handed to the driver nothing but the server's answer counts:
// pgconn.SafeToRetry calls a COMMIT that was carried out, and whose answer was
// lost, one that was not sent.
func commit(ctx context.Context, conn *pgconn.PgConn, tx pgx.Tx, m made) actions.Outcome {
	if late(ctx) || conn.IsClosed() {
		return notApplied("too_late", "The attempt's time was over before it could be committed.", "COMMIT was not sent")
	}
	clearWarning(conn)
	err := tx.Commit(ctx)
	switch {
	case err == nil && warned(conn) != "":
		// A wait for a synchronous standby that is cancelled is a success with a
		// warning: a failover can lose what was committed.
		return ambiguous("COMMIT was acknowledged with a warning, SQLSTATE " + warned(conn))
	case err == nil:
		return actions.Outcome{Kind: actions.Applied, Receipt: actions.Receipt{Reference: m.Reference, JSON: json.RawMessage(m.Receipt)}}
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return notApplied("rolled_back", "The database rolled the transaction back.", "COMMIT was answered with ROLLBACK")
	}
	return notAcknowledged(err)
}

func rollBack(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
	defer cancel()
	_ = tx.Rollback(ctx) // after a commit it is done already, and a lost connection is a rollback
}

// late reports whether the attempt's deadline has passed by either clock: the
// monotonic one stands still while a machine sleeps.
func late(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	now := time.Now()
	return ctx.Err() != nil || ok && (!now.Before(deadline) || !now.Round(0).Before(deadline.Round(0)))
}

// lockOf is the operation's key among the advisory locks of a database. Two
// that share one wait for each other, and no more.
func lockOf(call actions.Call) int64 {
	sum := sha256.Sum256([]byte("onceward operation\x00" + call.Tenant + "\x00" + call.OperationID))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// warning is where a connection keeps the SQLSTATE of its last warning.
const warning = "onceward.warning"

// noteWarning is called by the driver while it reads an answer.
func noteWarning(conn *pgconn.PgConn, notice *pgconn.Notice) {
	if severity := notice.SeverityUnlocalized; severity == "WARNING" || severity == "" {
		conn.CustomData()[warning] = notice.Code
	}
}

func clearWarning(conn *pgconn.PgConn) { delete(conn.CustomData(), warning) }

// warned returns the SQLSTATE of a warning since clearWarning, or "".
func warned(conn *pgconn.PgConn) string {
	code, _ := conn.CustomData()[warning].(string)
	return code
}
