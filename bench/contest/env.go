package contest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/bench/machine"
)

// Env is what an entry is given to run in.
type Env struct {
	Postgres   string // superuser's URL of the server's maintenance database
	Postmaster int    // its process id
	Programs   string // folder of the Postgres programs
	Dir        string // a folder for files, that goes with the run
	Kept       bool   // it stays, and the databases in it that took long to make
	Password   string // for logins that are made; they belong to the whole server
	Self       string // the program that runs, to be started again as a server
	Logf       func(format string, args ...any)
}

// Database makes an empty database, where there was one of that name too, and
// returns its URL. A checkpoint before it leaves every entry the same start.
func (e Env) Database(ctx context.Context, name string) (string, error) {
	return e.DatabaseLike(ctx, name, "template1")
}

// DatabaseLike is Database, with all that another one holds.
func (e Env) DatabaseLike(ctx context.Context, name, template string) (string, error) {
	conn, err := pgx.Connect(ctx, e.Postgres)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	quoted := pgx.Identifier{name}.Sanitize()
	for _, sql := range []string{
		"DROP DATABASE IF EXISTS " + quoted + " WITH (FORCE)",
		"CREATE DATABASE " + quoted + " TEMPLATE " + pgx.Identifier{template}.Sanitize(),
		"CHECKPOINT",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return "", fmt.Errorf("database %s: %w", name, err)
		}
	}
	u, err := url.Parse(e.Postgres)
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), nil
}

// Drop removes databases, whoever is connected.
func (e Env) Drop(ctx context.Context, names ...string) error {
	conn, err := pgx.Connect(ctx, e.Postgres)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, failed := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); failed != nil {
			err = errors.Join(err, failed)
		}
	}
	return errors.Join(err, conn.Close(ctx))
}

// Databases are the names of those there are.
func (e Env) Databases(ctx context.Context) ([]string, error) {
	conn, err := pgx.Connect(ctx, e.Postgres)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	rows, err := conn.Query(ctx, "SELECT datname::text FROM pg_database")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// DatabaseCPU is the processor time that the whole Postgres server has used.
// The second result is false where the system does not tell.
func (e Env) DatabaseCPU() (time.Duration, bool) { return machine.FamilyCPU(e.Postmaster) }
