package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/postgres"
)

// owner is what the administrative commands share: they work on the ledger
// directly, as the role that owns the schema.
type owner struct {
	DatabaseURL string `env:"ONCEWARD_DATABASE_URL" name:"database-url" required:"" help:"Postgres URL of the role that owns the schema."`
}

func (o owner) do(ctx context.Context, f func(*postgres.Store) error) error {
	store, err := postgres.Open(ctx, o.DatabaseURL)
	if err != nil {
		return err
	}
	defer store.Close()
	return withAdvice(f(store))
}

// withAdvice says what to do about a login that has no business here.
func withAdvice(err error) error {
	if sqlState(err) == pgerrcode.InsufficientPrivilege {
		return fmt.Errorf("the login of --database-url (ONCEWARD_DATABASE_URL) may not do this: %w (the command's --help says which login may)", err)
	}
	return err
}

// sqlState returns the SQLSTATE of a statement that Postgres refused, else "".
func sqlState(err error) string {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return ""
	}
	return refused.Code
}

type tenantsCmd struct {
	Create  tenantCreateCmd  `cmd:"" help:"Create a tenant."`
	List    tenantListCmd    `cmd:"" help:"List the tenants."`
	Enable  tenantEnableCmd  `cmd:"" help:"Switch a tenant on."`
	Disable tenantDisableCmd `cmd:"" help:"Switch a tenant off: its credentials are refused within a second."`
}

func (*tenantsCmd) Help() string { return (*tenantCreateCmd)(nil).Help() }

type tenantCreateCmd struct {
	owner
	Tenant string `arg:"" help:"Name: lower-case letters, digits, - and _."`
}

func (*tenantCreateCmd) Help() string {
	return "Example:\n  onceward tenants create acme --database-url=postgres://owner@db/onceward"
}

// Run creates the tenant.
func (c *tenantCreateCmd) Run(ctx context.Context, s streams) error {
	return c.do(ctx, func(store *postgres.Store) error {
		if err := store.CreateTenant(ctx, c.Tenant); err != nil {
			if sqlState(err) == pgerrcode.CheckViolation {
				return fmt.Errorf("tenant %q: want lower-case letters, digits, - and _, at most 63, the first a letter or a digit", c.Tenant)
			}
			return err
		}
		fmt.Fprintf(s.out, "Tenant %s exists. Give it a key: onceward keys create %s --actor=NAME --role=agent\n", c.Tenant, c.Tenant)
		return nil
	})
}

type tenantListCmd struct{ owner }

func (*tenantListCmd) Help() string {
	return "Example:\n  onceward tenants list --database-url=postgres://owner@db/onceward"
}

// Run lists the tenants, and which are switched off.
func (c *tenantListCmd) Run(ctx context.Context, s streams) error {
	return c.do(ctx, func(store *postgres.Store) error {
		list, err := store.Tenants(ctx)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			fmt.Fprintln(s.out, "There are no tenants. To make one: onceward tenants create NAME")
			return nil
		}
		rows := [][]string{{"TENANT", "CREATED", "STATE"}}
		for _, t := range list {
			state := "off"
			if t.Active {
				state = "on"
			}
			rows = append(rows, []string{t.Name, t.CreatedAt.UTC().Format(time.RFC3339), state})
		}
		return printTable(s.out, rows)
	})
}

// tenantSwitch is what enable and disable share.
type tenantSwitch struct {
	owner
	Tenant string `arg:"" help:"Name."`
}

func (c *tenantSwitch) set(ctx context.Context, s streams, active bool, done string) error {
	return c.do(ctx, func(store *postgres.Store) error {
		err := store.SetTenantActive(ctx, c.Tenant, active)
		if errors.Is(err, ledger.ErrNotFound) {
			return fmt.Errorf("no tenant %q", c.Tenant)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "Tenant %s is %s.\n", c.Tenant, done)
		return nil
	})
}

type tenantEnableCmd struct{ tenantSwitch }

func (*tenantEnableCmd) Help() string {
	return "Example:\n  onceward tenants enable acme --database-url=postgres://owner@db/onceward"
}

// Run switches the tenant on.
func (c *tenantEnableCmd) Run(ctx context.Context, s streams) error { return c.set(ctx, s, true, "on") }

type tenantDisableCmd struct{ tenantSwitch }

func (*tenantDisableCmd) Help() string {
	return "Example:\n  onceward tenants disable acme --database-url=postgres://owner@db/onceward\n\nAttempts that are under way end, and doubt is still resolved."
}

// Run switches the tenant off.
func (c *tenantDisableCmd) Run(ctx context.Context, s streams) error {
	return c.set(ctx, s, false, "off")
}
