package command

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/migrations"
)

type migrateCmd struct {
	DatabaseURL string `env:"ONCEWARD_DATABASE_URL" name:"database-url" required:"" help:"Postgres URL of the role that owns the schema; directly, not through a pooler."`
	Demo        bool   `help:"Also make the table of notes.insert."`
}

func (*migrateCmd) Help() string {
	return "Example:\n  onceward migrate --database-url=postgres://owner@db/onceward\n\nRunning it again, or twice at once, is harmless. It makes the group roles onceward_serve and onceward_read;\ngive your logins membership: GRANT onceward_serve TO my_login."
}

// Run migrates.
func (c *migrateCmd) Run(ctx context.Context, s streams) error {
	version, err := migrations.Up(ctx, c.DatabaseURL)
	if err != nil {
		return withAdvice(err)
	}
	if c.Demo {
		conn, err := pgx.Connect(ctx, c.DatabaseURL)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(ctx) }()
		if _, err := conn.Exec(ctx, demo.NotesTable()); err != nil {
			return err
		}
	}
	fmt.Fprintf(s.out, "The ledger's schema is at version %d.\n", version)
	return nil
}
