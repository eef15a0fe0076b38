package sqlaction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/onceward/onceward/actions"
)

// Remote is an action on a [Database]. It is immutable and safe for concurrent
// use.
type Remote struct {
	spec      actions.Spec
	check     func(actions.Arguments) error
	db        *Database
	statement Declared
}

var (
	_ actions.Adapter  = (*Remote)(nil)
	_ actions.Renderer = (*Remote)(nil)
	_ actions.Looker   = (*Remote)(nil)
)

// NewRemote makes an action of spec on a database, which it does not close.
// check may be nil; it is Adapter.Validate.
//
// The contract's look-up is declared authoritative here, with the settle time
// and the number of reads that the spec gives; [Database] says why. A
// LateLanding that the spec leaves open becomes its timeout.
func NewRemote(db *Database, spec actions.Spec, check func(actions.Arguments) error, statement Declared) (*Remote, error) {
	if err := statement.check(); err != nil {
		return nil, fmt.Errorf("action type %s: %w", spec.Type, err)
	}
	if check == nil {
		check = func(actions.Arguments) error { return nil }
	}
	if spec.Timeout == 0 {
		spec.Timeout = actions.DefaultTimeout
	}
	if spec.Contract.LateLanding == 0 {
		spec.Contract.LateLanding = spec.Timeout
	}
	spec.Contract.Lookup.Authoritative = true
	return &Remote{spec: spec, check: check, db: db, statement: statement}, nil
}

// Spec describes the action type.
func (r *Remote) Spec() actions.Spec { return r.spec }

// Validate runs the check.
func (r *Remote) Validate(args actions.Arguments) error { return r.check(args) }

// Render returns the statement, its parameters and the table of operation ids
// as JSON.
func (r *Remote) Render(call actions.Call) ([]byte, error) {
	req, err := r.statement.request(call, r.db.options.Table)
	return req.rendered, err
}

// Check is [Database.Check], and has the database parse the statement: one that
// it cannot run, or that does not return a reference (text) and a receipt
// (json or jsonb), is an error. Nothing is executed.
func (r *Remote) Check(ctx context.Context) error {
	if err := r.db.Check(ctx); err != nil {
		return err
	}
	conn, err := r.db.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	parsed, err := conn.Conn().PgConn().Prepare(ctx, "", r.statement.SQL, nil)
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Position > 0:
		return fmt.Errorf("sqlaction: %s: the statement cannot be run, at character %d: %w", r.spec.Type, pg.Position, err)
	case err != nil:
		return fmt.Errorf("sqlaction: %s: the statement cannot be run: %w", r.spec.Type, err)
	}
	columns := make([]uint32, len(parsed.Fields))
	for i, f := range parsed.Fields {
		columns[i] = f.DataTypeOID
	}
	if !slices.Equal(columns, []uint32{pgtype.TextOID, pgtype.JSONOID}) && !slices.Equal(columns, []uint32{pgtype.TextOID, pgtype.JSONBOID}) {
		return fmt.Errorf("sqlaction: %s: the statement returns %d columns: want two, the reference (text) and the receipt (json or jsonb), "+
			"such as RETURNING id::text, json_build_object('id', id)", r.spec.Type, len(columns))
	}
	return nil
}

// within gives ctx the attempt's timeout where it has no end of its own.
func (r *Remote) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, r.spec.Timeout)
}

// serverTimes divides what is left of an attempt: how long the server may wait
// for a lock, and how long it may work on one statement or wait for the next.
// They end before the attempt does, so that the server can still say so.
func serverTimes(ctx context.Context) (lock, statement string) {
	deadline, _ := ctx.Deadline()
	left := time.Until(deadline)
	left -= min(left/5, time.Second)
	return milliseconds(left / 2), milliseconds(left)
}

// milliseconds is a duration as a setting of Postgres, for which 0 means for ever.
func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", max(d.Milliseconds(), 1)) }
