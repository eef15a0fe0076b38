package postgres

import (
	"cmp"
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

// write is one caller's write, to be made in a batch with others. One of
// opening, change and statement is set.
type write struct {
	tenant, key string
	opening     *ledger.Opening // of a new operation
	change      *ledger.Change  // of one that exists
	statement   string          // anything else about one that exists, with args
	args        pgx.NamedArgs

	// What came of it. Not done without an error is a key that is taken, or an
	// operation that has moved on.
	op   ledger.Operation
	done bool
	err  error
}

// byRow is the order in which all batches take their rows, so that no two wait
// for each other. It is that of the tables' collation.
func byRow(a, b *write) int {
	return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.key, b.key))
}

// fly makes a batch of writes. A second opening of the same key is not done: the
// key is taken. A second change of the same row goes again.
func (s *Store) fly(seats []*seat[*write]) (again []*seat[*write]) {
	slices.SortStableFunc(seats, func(a, b *seat[*write]) int { return byRow(a.job, b.job) })
	var opening, change *write // the last of each
	batch := make([]*write, 0, len(seats))
	for _, seat := range seats {
		w := seat.job
		switch {
		case w.opening != nil && opening != nil && byRow(opening, w) == 0:
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
	return again
}

// flush makes writes, in the order of their rows, in one transaction. What the
// database refuses is found by halves, so that a bad row fails alone.
func (s *Store) flush(ws []*write) {
	err := s.transact(ws)
	if err == nil {
		return
	}
	for _, w := range ws {
		w.done, w.err = false, unavailable(err)
	}
	switch {
	case refused(err) && len(ws) > 1:
		for _, w := range ws {
			w.err = nil
		}
		s.flush(ws[:len(ws)/2])
		s.flush(ws[len(ws)/2:])
	case !refused(err) && !errors.Is(err, ledger.ErrUnsafeCommit):
		s.findOpened(ws)
	}
}

// refused reports whether the server has refused something about a statement:
// the transaction is rolled back, and without what was refused it may go
// through. Rows that were in each other's way are such, too.
func refused(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return !away(pg.Code) || pg.Code == "40P01" || pg.Code == "40001"
	}
	// Arguments that cannot be encoded are not sent.
	return errors.Is(err, errNotSent)
}

var errNotSent = errors.New("ledger: not sent")

// transact sends the statements of a batch as one implicit transaction in one
// round trip. Results are valid when it returns nil only: they come before the
// commit does.
func (s *Store) transact(ws []*write) error {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	reading := false
	batch := s.statements(ws, &reading)
	return s.batches.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		delete(conn.Conn().PgConn().CustomData(), unreplicated)
		err := conn.SendBatch(ctx, batch).Close()
		switch {
		case err == nil:
			return safeCommit(conn)
		case !reading && !conn.Conn().IsClosed() && !isAnswer(err):
			return errors.Join(errNotSent, err)
		}
		return err
	})
}

// statements are those of a batch: one for all new operations, one for all
// changes, one for each of the rest. It sets reading when the first result is
// read: from then on an error proves nothing.
func (s *Store) statements(ws []*write, reading *bool) *pgx.Batch {
	batch := &pgx.Batch{}
	s.settings(batch)
	var openings, changes []*write
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
	for _, w := range ws {
		if w.statement != "" {
			batch.Queue(w.statement, w.args).Query(func(rows pgx.Rows) error {
				ops, err := pgx.CollectRows(rows, scanOperation)
				if len(ops) == 1 {
					w.op, w.done = ops[0], true
				}
				return err
			})
		}
	}
	return batch
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
}

// settings makes them for one transaction on a connection that a pooler hands
// out.
func (s *Store) settings(batch *pgx.Batch) {
	if s.pooled {
		names := slices.Sorted(maps.Keys(batchSettings))
		values := make([]string, len(names))
		for i, name := range names {
			values[i] = batchSettings[name]
		}
		batch.Queue(batchSettingsSQL, pgx.NamedArgs{"names": names, "values": values})
	}
}

// findOpened looks openings up again whose answer was lost. Finding one is
// proof that this very call made it, since the id is its alone; not finding it
// proves nothing, and the error stays.
func (s *Store) findOpened(ws []*write) {
	var openings []*write
	for _, w := range ws {
		if w.opening != nil {
			openings = append(openings, w)
		}
	}
	if len(openings) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookAgainTimeout)
	defer cancel()
	if !s.visibleIsSafe(ctx) {
		return
	}
	keys := make([]rowKey, len(openings))
	for i, w := range openings {
		keys[i] = rowKey{w.tenant, w.key}
	}
	found, err := s.holders(ctx, keys)
	if err != nil {
		return
	}
	for _, w := range openings {
		if h, ok := found[rowKey{w.tenant, w.key}]; ok && h.op.ID == w.opening.Operation.ID {
			w.op, w.done, w.err = h.op, true, nil
		}
	}
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
