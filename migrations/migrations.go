package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	migratepgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/onceward/onceward/internal/pgurl"
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
//
// Each file is one transaction. One that the database refuses leaves nothing
// behind, and Up can be called again when its cause is gone.
func Up(ctx context.Context, url string) (version uint, err error) {
	config, err := pgurl.Parse(url)
	if err != nil {
		return 0, fmt.Errorf("migrations: database url: %w", err)
	}
	db := stdlib.OpenDB(*config)
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.PingContext(ctx); err != nil {
		return 0, fmt.Errorf("migrations: connect: %w", err)
	}
	target, err := migratepgx.WithInstance(db, &migratepgx.Config{MigrationsTable: "onceward_migrations"})
	if err != nil {
		return 0, fmt.Errorf("migrations: %w", err)
	}
	// The driver holds a connection that db.Close does not end.
	defer func() { err = errors.Join(err, target.Close()) }()
	from, err := iofs.New(files, ".")
	if err != nil {
		return 0, fmt.Errorf("migrations: %w", err)
	}
	m, err := migrate.NewWithInstance("iofs", from, "pgx5", target)
	if err != nil {
		return 0, fmt.Errorf("migrations: %w", err)
	}
	m.LockTimeout = lockTimeout
	stop := context.AfterFunc(ctx, func() { m.GracefulStop <- true })
	defer stop()
	if err := m.Up(); err != nil && !errors.Is(err, migrate.ErrNoChange) {
		return 0, undo(from, target, err)
	}
	if err := ctx.Err(); err != nil { // golang-migrate stops between two files without an error
		return 0, fmt.Errorf("migrations: %w", err)
	}
	version, dirty, err := m.Version()
	if err != nil {
		return 0, fmt.Errorf("migrations: version: %w", err)
	}
	if dirty {
		return version, halfWay(version)
	}
	return version, nil
}

// Newest is the version of the schema that this program brings.
func Newest() (uint, error) {
	from, err := iofs.New(files, ".")
	if err != nil {
		return 0, fmt.Errorf("migrations: %w", err)
	}
	defer func() { _ = from.Close() }() // files in memory
	version, err := from.First()
	for next := version; err == nil; next, err = from.Next(version) {
		version = next
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("migrations: %w", err)
	}
	return version, nil
}

// undo takes back the mark that golang-migrate sets before it runs a file, if
// the database answered that it refuses the file: its transaction is rolled
// back then. The session still holds the lock.
func undo(from source.Driver, target database.Driver, err error) error {
	var dirty migrate.ErrDirty
	if errors.As(err, &dirty) {
		return halfWay(uint(dirty.Version))
	}
	var failed database.Error
	var refused *pgconn.PgError
	if !errors.As(err, &failed) || !errors.As(failed.OrigErr, &refused) {
		return fmt.Errorf("migrations: %w", err)
	}
	cause := fmt.Errorf("migrations: %w", refused)
	if refused.Hint != "" {
		cause = fmt.Errorf("%w. %s", cause, refused.Hint)
	}
	if err := target.Run(strings.NewReader("ROLLBACK")); err != nil {
		return errors.Join(cause, err)
	}
	version, _, err := target.Version()
	if err != nil {
		return errors.Join(cause, err)
	}
	before := database.NilVersion
	if previous, err := from.Prev(uint(version)); err == nil {
		before = int(previous)
	}
	return errors.Join(cause, target.SetVersion(before, false))
}

func halfWay(version uint) error {
	return fmt.Errorf("migrations: version %d stopped half way: restore the backup made before it, or finish it by hand and set dirty to false in onceward_migrations", version)
}
