package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/ledger"
)

// flushTimeout bounds one transaction of a batch, which does not end with any
// of its callers.
const flushTimeout = 10 * time.Second

// fly makes a batch of writes. A second opening of the same key is not done: the
// key is taken. A second change of the same row goes again.
func (s *Store) fly(seats []*seat[*write]) (again []*seat[*write]) {
	slices.SortStableFunc(seats, func(a, b *seat[*write]) int { return byRow(a.job, b.job) })
	var opening, change *write // the last of each
	var twins []twin
	batch := make([]*write, 0, len(seats))
	for _, seat := range seats {
		w := seat.job
		switch {
		case w.opening != nil && opening != nil && byRow(opening, w) == 0:
			twins = append(twins, twin{seat, opening})
			continue
		case w.change != nil && change != nil && byRow(change, w) == 0:
			again = append(again, seat)
			continue
		case w.opening != nil:
			opening = w
		case w.change != nil:
			change = w
		}
		batch = append(batch, w)
	}
	s.flush(batch)
	for _, t := range twins {
		switch w := t.seat.job; {
		case t.first.refusal == nil:
		case sameHolds(t.first.opening, w.opening):
			w.refusal = t.first.refusal
		default: // what the first one could not have it may have
			again = append(again, t.seat)
		}
	}
	return again
}

// twin is an opening of the same key as one before it in a batch.
type twin struct {
	seat  *seat[*write]
	first *write
}

// flush makes writes, in the order of their rows, in one transaction. What the
// database refuses is found by halves, so that a bad row fails alone.
func (s *Store) flush(ws []*write) { s.flushIn(ws, false) }

func (s *Store) flushIn(ws []*write, hurry bool) {
	sent, err := s.transact(ws, hurry)
	if err == nil {
		return
	}
	unsure := sent && ambiguous(err)
	for _, w := range ws {
		w.done, w.refusal, w.err, w.unsure = false, nil, unavailable(err), unsure
	}
	switch {
	case refused(err) && len(ws) > 1:
		for _, w := range ws {
			w.err = nil
		}
		hurry = hurry || sqlState(err) == lockNotAvailable
		s.flushIn(ws[:len(ws)/2], hurry)
		s.flushIn(ws[len(ws)/2:], hurry)
	case !refused(err) && !errors.Is(err, ledger.ErrUnsafeCommit):
		found, looked := s.findOpened(ws)
		// Of other writes the callers look, those of moves in another way.
		if unsure && (looked || !slices.ContainsFunc(ws, func(w *write) bool { return w.looks })) {
			s.observer.AmbiguousCommit(found)
		}
	}
}

// refused reports whether the server has refused something about a statement:
// the transaction is rolled back, and without what was refused it may go
// through. Rows that were in each other's way are such, too.
func refused(err error) bool {
	var connect *pgconn.ConnectError
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &connect):
		return false
	case errors.As(err, &pg):
		// What ends the connection may come after the commit.
		return pg.SeverityUnlocalized == "ERROR" && (!away(pg.Code) || slices.Contains([]string{deadlockDetected, serializationFailure, lockNotAvailable}, pg.Code))
	}
	// Arguments that cannot be encoded are not sent.
	return errors.Is(err, errNotSent)
}

// What rows that are in the way of each other lead to.
const (
	deadlockDetected     = "40P01"
	serializationFailure = "40001"
	lockNotAvailable     = "55P03"
)

// sqlState is what the server answered, or empty.
func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

var errNotSent = errors.New("ledger: not sent")

// transact sends the statements of a batch as one implicit transaction in one
// round trip. Results are valid when it returns nil only: they come before the
// commit does. Without sent nothing can have been committed.
func (s *Store) transact(ws []*write, hurry bool) (sent bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	reading := false
	batch := &pgx.Batch{}
	s.settings(batch, hurry)
	s.statements(batch, ws, &reading)
	err = s.batches.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		delete(conn.Conn().PgConn().CustomData(), unreplicated)
		makeRoom(conn.Conn())
		sent = true
		err := conn.SendBatch(ctx, batch).Close()
		switch {
		case err == nil:
			return safeCommit(conn)
		case !reading && !conn.Conn().IsClosed() && !isAnswer(err):
			return errors.Join(errNotSent, err)
		}
		return err
	})
	return sent, err
}

// statements adds those of writes: one for all new operations, one for all
// changes, one for each of the rest. It sets reading when the first result is
// read: from then on an error proves nothing.
func (s *Store) statements(batch *pgx.Batch, ws []*write, reading *bool) {
	openings, changes := make([]*write, 0, len(ws)), make([]*write, 0, len(ws))
	for _, w := range ws {
		switch {
		case w.opening != nil:
			openings = append(openings, w)
		case w.change != nil:
			changes = append(changes, w)
		}
	}
	defer func() {
		for _, q := range batch.QueuedQueries {
			if read := q.Fn; read != nil {
				q.Fn = func(br pgx.BatchResults) error { *reading = true; return read(br) }
			}
		}
	}()
	// Openings first: a transaction that waits for a key of another one then
	// holds no row that the other could want.
	if len(openings) > 0 {
		queueOpenings(batch, openings)
	}
	if len(changes) > 0 {
		queueChanges(batch, changes)
	}
	// Counters and intents last, whatever else is done: see hold.sql.
	if takers := takers(ws); len(takers) > 0 {
		queueHolds(batch, takers)
	}
	for _, w := range ws {
		if w.statement != "" {
			batch.Queue(w.statement, w.args).Query(w.take)
		}
	}
}

func isAnswer(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg)
}

// batchSettings make the plans of a batch's statements independent of how the
// tables looked when they were made: rows are reached by their keys, in the
// order in which they are given. A connection of our own starts with them.
var batchSettings = map[string]string{
	"plan_cache_mode": "force_generic_plan",
	"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_seqscan": "off", "enable_bitmapscan": "off",
	"jit": "off", // the costs of what is switched off would call for it
	// A row that somebody holds (a person at a console, a transaction whose
	// client is gone) must not hold up those who want other rows.
	"lock_timeout": "1s",
}

// hurriedLockTimeout is for those that were in a batch with a row that is held:
// it is found by halves, and each half would wait for it again.
const hurriedLockTimeout = "20ms"

// settings makes them for one transaction on a connection that a pooler hands
// out, and says how long to wait for a row in a hurry.
func (s *Store) settings(batch *pgx.Batch, hurry bool) {
	if !s.pooled && !hurry {
		return
	}
	wanted := map[string]string{}
	if s.pooled {
		maps.Copy(wanted, batchSettings)
	}
	if hurry {
		wanted["lock_timeout"] = hurriedLockTimeout
	}
	names := slices.Sorted(maps.Keys(wanted))
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = wanted[name]
	}
	batch.Queue(batchSettingsSQL, pgx.NamedArgs{"names": names, "values": values})
}

// findOpened looks openings up again whose answer was lost. Finding one is
// proof that this very call made it, since the id is its alone; not finding it
// proves nothing, and the error stays. They were made by one transaction: what is
// found of one counts for all. Without openings it does not look.
func (s *Store) findOpened(ws []*write) (f ledger.Found, looked bool) {
	var openings []*write
	for _, w := range ws {
		if w.opening != nil {
			openings = append(openings, w)
		}
	}
	if len(openings) == 0 {
		return ledger.FoundUnknown, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookAgainTimeout)
	defer cancel()
	if !s.visibleIsSafe(ctx) {
		return ledger.FoundUnknown, true
	}
	keys := make([]rowKey, len(openings))
	for i, w := range openings {
		keys[i] = rowKey{w.tenant, w.key}
	}
	found, err := s.holders(ctx, keys)
	if err != nil {
		return ledger.FoundUnknown, true
	}
	f = ledger.FoundLost
	for _, w := range openings {
		h, ok := found[rowKey{w.tenant, w.key}]
		if ok && h.op.ID == w.opening.Operation.ID {
			f = ledger.FoundCommitted
		}
		switch {
		case !ok || h.op.ID != w.opening.Operation.ID:
		case h.op.Attempt > 1 || w.opening.Event == ledger.Claim && h.op.State != ledger.Running:
			// Made, and moved on since: its attempt is not ours any more.
			w.err = nil
		default:
			w.stored, w.done, w.err = &h.op, true, nil
		}
	}
	return f, true
}

// uuidOf is NULL where a text is none: the database refuses it where one is
// needed.
func uuidOf(text string) pgtype.UUID {
	id, err := uuid.Parse(text)
	return pgtype.UUID{Bytes: id, Valid: err == nil}
}

// newUUID returns a time-ordered UUID.
func newUUID() pgtype.UUID {
	return pgtype.UUID{Bytes: uuid.Must(uuid.NewV7()), Valid: true}
}
