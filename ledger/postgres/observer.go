package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/ledger"
)

// Observer is told how the store does. It is called from many goroutines at
// once, with transactions waiting for it: it must not block. Nothing is told for
// each row.
type Observer interface {
	// Batch: rows shared a transaction, which took that long. The parts of one that
	// was refused and tried again by halves count as one.
	Batch(lane ledger.Lane, rows int, took time.Duration)
	// Overloaded: a row was refused because too many wait.
	Overloaded(lane ledger.Lane)
	// AmbiguousCommit: the answer to a commit was lost, and this is what a look
	// found afterwards.
	AmbiguousCommit(found ledger.Found)
	// Unanswered: the ledger did not answer a statement, or gave no connection for
	// one. A caller who left does not count.
	Unanswered()
}

// unobserved is a store of which nobody is told.
type unobserved struct{}

func (unobserved) Batch(ledger.Lane, int, time.Duration) {}
func (unobserved) Overloaded(ledger.Lane)                {}
func (unobserved) AmbiguousCommit(ledger.Found)          {}
func (unobserved) Unanswered()                           {}

// Option changes how a store is opened.
type Option func(*Store)

// ObservedBy tells an observer how the store does.
func ObservedBy(o Observer) Option { return func(s *Store) { s.observer = o } }

// Load says how busy the store is. It asks nobody.
func (s *Store) Load() ledger.Load {
	l := ledger.Load{Waiting: [ledger.Lanes]int{
		ledger.Writes: s.writes.crowded(), ledger.Alterations: s.alterations.crowded(), ledger.Reads: s.reads.crowded(),
	}}
	for _, pool := range []*pgxpool.Pool{s.pool, s.batches, s.looks} {
		stat := pool.Stat()
		l.Idle += int(stat.IdleConns())
		l.Used += int(stat.AcquiredConns())
		l.Limit += int(stat.MaxConns())
	}
	return l
}

// tracer counts statements without an answer, for an observer. The driver calls it
// around each statement, whoever sent it.
type tracer struct{ observer Observer }

var (
	_ pgx.QueryTracer       = tracer{}
	_ pgx.BatchTracer       = tracer{}
	_ pgxpool.AcquireTracer = tracer{}
)

// TraceQueryStart implements pgx.QueryTracer.
func (tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (t tracer) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	t.count(data.Err)
}

// TraceBatchStart implements pgx.BatchTracer.
func (tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (t tracer) TraceBatchEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchEndData) {
	t.count(data.Err)
}

// TraceAcquireStart implements pgxpool.AcquireTracer.
func (tracer) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	return ctx
}

// TraceAcquireEnd implements pgxpool.AcquireTracer.
func (t tracer) TraceAcquireEnd(_ context.Context, _ *pgxpool.Pool, data pgxpool.TraceAcquireEndData) {
	t.count(data.Err)
}

// count counts what is no answer. What comes and goes by itself between rows (a
// deadlock, a lock that was not given) is one.
func (t tracer) count(err error) {
	if err == nil || errors.Is(err, context.Canceled) || refused(err) || !errors.Is(unavailable(err), ledger.ErrUnavailable) {
		return
	}
	t.observer.Unanswered()
}

// ambiguous reports whether an error of a statement that was sent in a transaction
// of its own leaves open whether it was committed.
func ambiguous(err error) bool {
	var connect *pgconn.ConnectError
	return err != nil && !refused(err) && !errors.Is(err, ledger.ErrUnsafeCommit) && !errors.As(err, &connect) && !pgconn.SafeToRetry(err)
}
