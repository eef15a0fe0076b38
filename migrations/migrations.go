// Package migrations holds the ledger's schema as forward-only SQL files, and
// applies them.
//
// Each version of the program runs on the schema before and after its own
// migration, so that replicas can be replaced one by one. The package must not
// know what the tables mean; it imports golang-migrate and pgx.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/golang-migrate/migrate/v4"
	migratepgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

//go:embed *.sql
var files embed.FS

// lockTimeout is how long a migrator waits for another one to finish.
const lockTimeout = 2 * time.Minute

// Up brings the database at url to the newest schema and returns its version.
// Concurrent callers wait for each other. The url must lead to Postgres
// directly, not through a pooler: the lock lives in the session. The role must
// be allowed to create tables, and roles unless onceward_serve and
// onceward_read exist.
func Up(ctx context.Context, url string) (version uint, err error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return 0, fmt.Errorf("migrations: database url: %w", err)
	}
	db := stdlib.OpenDB(*config)
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.PingContext(ctx); err != nil {
		return 0, fmt.Errorf("migrations: connect: %w", err)
	}
	driver, err := migratepgx.WithInstance(db, &migratepgx.Config{MigrationsTable: "onceward_migrations"})
	if err != nil {
		return 0, fmt.Errorf("migrations: %w", err)
	}
	source, err := iofs.New(files, ".")
	if err != nil {
		return 0, fmt.Errorf("migrations: %w", err)
	}
	m, err := migrate.NewWithInstance("iofs", source, "pgx5", driver)
	if err != nil {
		return 0, fmt.Errorf("migrations: %w", err)
	}
	m.LockTimeout = lockTimeout
	stop := context.AfterFunc(ctx, func() { m.GracefulStop <- true })
	defer stop()
	if err := m.Up(); err != nil && !errors.Is(err, migrate.ErrNoChange) {
		return 0, fmt.Errorf("migrations: %w", err)
	}
	version, dirty, err := m.Version()
	if err != nil {
		return 0, fmt.Errorf("migrations: version: %w", err)
	}
	if dirty {
		return version, fmt.Errorf("migrations: version %d stopped half way: restore the backup made before it, or finish it by hand and set dirty to false in onceward_migrations", version)
	}
	return version, nil
}
