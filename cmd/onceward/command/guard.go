package command

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/onceward/onceward/guard"
	"github.com/onceward/onceward/guard/guardsql"
)

type guardCmd struct {
	List    guardListCmd    `cmd:"" help:"List the operations of which an internal service does not know how they ended."`
	Resolve guardResolveCmd `cmd:"" help:"Say how one of them ended."`
}

func (*guardCmd) Help() string { return (*guardListCmd)(nil).Help() }

// guarded is the database of an internal service with the guard's table.
type guarded struct {
	GuardDatabaseURL string `env:"ONCEWARD_GUARD_DATABASE_URL" name:"guard-database-url" required:"" help:"Postgres URL of the internal service's own database, which has the table onceward_guard."`
}

func (g guarded) do(f func(*guardsql.Store) error) error {
	config, err := pgx.ParseConfig(g.GuardDatabaseURL)
	if err != nil {
		// The library's error may repeat a part of the URL, which has a password.
		return fmt.Errorf("%w: --guard-database-url: want a Postgres URL such as postgres://billing@db/billing", errUsage)
	}
	db := stdlib.OpenDB(*config)
	err = f(guardsql.New(db))
	if sqlState(err) == pgerrcode.UndefinedTable {
		err = fmt.Errorf("that database has no table onceward_guard: --guard-database-url is the internal service's own, with the table of guardsql.Schema (docs/enforce.md): %w", err)
	}
	return errors.Join(err, db.Close())
}

type guardListCmd struct {
	guarded
	Limit int `default:"100" help:"How many at most, the oldest first."`
}

func (*guardListCmd) Help() string {
	return `Example:
  onceward guard list --guard-database-url=postgres://billing@db/billing

A request that died, or ended in doubt, leaves its operation unresolved: no further one is performed until somebody has
found out whether the write was made. Onceward shows the same operation as unknown, or in review.`
}

// Run prints them.
func (c *guardListCmd) Run(ctx context.Context, s streams) error {
	if c.Limit <= 0 {
		return fmt.Errorf("%w: --limit: want a number above 0", errUsage)
	}
	return c.do(func(store *guardsql.Store) error {
		list, err := store.Unresolved(ctx, c.Limit)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			fmt.Fprintln(s.out, "Nothing is unresolved.")
			return nil
		}
		w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "TENANT\tOPERATION\tACTION\tBEGUN")
		for _, u := range list {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", u.Operation.Tenant, u.Operation.ID, u.ActionType, u.BegunAt.UTC().Format(time.RFC3339))
		}
		return w.Flush()
	})
}

type guardResolveCmd struct {
	guarded
	Tenant       string `arg:"" help:"Tenant of the operation."`
	Operation    string `arg:"" help:"Id of the operation."`
	Performed    bool   `help:"The write was made: the next request is told so, and makes none."`
	NotPerformed bool   `help:"It is proved that nothing was written: the next request makes the write."`
}

func (*guardResolveCmd) Help() string {
	return `Example:
  onceward guard resolve acme 0199f6f0-7c1e-7b1a-9d63-4f0a1b2c3d4e --performed --guard-database-url=postgres://billing@db/billing

Look into the service first: whoever says --not-performed of a write that was made makes a second one. What is finished, or
what a request may still be at work on, is refused.`
}

// Run ends one.
func (c *guardResolveCmd) Run(ctx context.Context, s streams) error {
	if c.Performed == c.NotPerformed {
		return fmt.Errorf("%w: say either --performed or --not-performed", errUsage)
	}
	return c.do(func(store *guardsql.Store) error {
		err := store.Resolve(ctx, guard.Operation{Tenant: c.Tenant, ID: c.Operation}, c.Performed)
		switch {
		case errors.Is(err, guardsql.ErrNotUnresolved):
			return fmt.Errorf("operation %s of tenant %s is not unresolved there: onceward guard list shows those that are", c.Operation, c.Tenant)
		case err != nil:
			return err
		case c.Performed:
			fmt.Fprintln(s.out, "Resolved: it was performed. The next request is told so.")
		default:
			fmt.Fprintln(s.out, "Resolved: nothing was done. The next request performs it.")
		}
		return nil
	})
}
