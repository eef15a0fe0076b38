package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// answerTimeout bounds a single statement, the wait for a connection included.
	// Many callers have no deadline of their own (the reconciler's rounds), and a
	// connection whose other end is gone without a word would hold them for as long
	// as TCP likes: a quarter of an hour, or for ever behind something that answers
	// in the other end's place.
	answerTimeout = 10 * time.Second
	// sweepTimeout is for statements that touch thousands of rows.
	sweepTimeout = time.Minute
	// pingTimeout is how long a connection that was idle may take to say that it is
	// alive before another one is taken.
	pingTimeout = 2 * time.Second
)

// bounded is a pool whose statements end. Its own Pool is for those that may take as
// long as they need, for a person at a console.
type bounded struct {
	*pgxpool.Pool
	answer time.Duration // answerTimeout, but in tests
}

func (b bounded) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	ctx, cancel := context.WithTimeout(ctx, b.answer)
	defer cancel()
	return b.Pool.Exec(ctx, sql, args...)
}

// sweep is Exec for statements that touch thousands of rows.
func (b bounded) sweep(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	return b.Pool.Exec(ctx, sql, args...)
}

func (b bounded) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	ctx, cancel := context.WithTimeout(ctx, b.answer)
	rows, err := b.Pool.Query(ctx, sql, args...)
	if err != nil {
		cancel()
		return rows, err
	}
	return boundedRows{rows, cancel}, nil
}

func (b bounded) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	ctx, cancel := context.WithTimeout(ctx, b.answer)
	return boundedRow{b.Pool.QueryRow(ctx, sql, args...), cancel}
}

func (b bounded) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.answer)
	defer cancel()
	return b.Pool.Ping(ctx)
}

// AcquireFunc does something on one connection, in a context that ends.
func (b bounded) AcquireFunc(ctx context.Context, f func(context.Context, *pgxpool.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, b.answer)
	defer cancel()
	return b.Pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error { return f(ctx, conn) })
}

// boundedRows give their context back when they are closed, which whoever collects
// rows does.
type boundedRows struct {
	pgx.Rows
	cancel context.CancelFunc
}

func (r boundedRows) Close() { r.Rows.Close(); r.cancel() }

type boundedRow struct {
	pgx.Row
	cancel context.CancelFunc
}

func (r boundedRow) Scan(dest ...any) error {
	defer r.cancel()
	return r.Row.Scan(dest...)
}
