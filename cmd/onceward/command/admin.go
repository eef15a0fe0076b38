package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/internal/apikey"
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
		return fmt.Errorf("the login of --database-url (ONCEWARD_DATABASE_URL) may not do this: %w", err)
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

type keysCmd struct {
	Create keyCreateCmd `cmd:"" help:"Create an API key; it is shown once."`
	List   keyListCmd   `cmd:"" help:"List a tenant's API keys."`
	Revoke keyRevokeCmd `cmd:"" help:"Revoke an API key; it stops within a second."`
}

func (*keysCmd) Help() string { return (*keyCreateCmd)(nil).Help() }

type keyCreateCmd struct {
	owner
	Tenant  string        `arg:"" help:"Tenant of the key."`
	Actor   string        `required:"" help:"Who will use it: shown in operations and reviews."`
	Role    []string      `required:"" enum:"agent,reviewer,auditor,admin" help:"agent, reviewer, auditor or admin; can be repeated."`
	Expires time.Duration `help:"How long it is valid, as in 720h; for ever when not given."`
}

func (*keyCreateCmd) Help() string {
	return "Example:\n  onceward keys create acme --actor=support-planner --role=agent --database-url=postgres://owner@db/onceward"
}

// Run creates the key and prints it.
func (c *keyCreateCmd) Run(ctx context.Context, s streams) error {
	if c.Expires < 0 {
		return fmt.Errorf("%w: --expires cannot be negative", errUsage)
	}
	return c.do(ctx, func(store *postgres.Store) error {
		key := apikey.New(c.Tenant)
		hash := key.Hash()
		credential := postgres.Credential{Tenant: c.Tenant, KeyID: key.ID, Hash: hash[:], Actor: c.Actor, Roles: c.Role}
		if c.Expires > 0 {
			credential.ExpiresAt = time.Now().Add(c.Expires)
		}
		if err := store.AddCredential(ctx, credential); err != nil {
			if sqlState(err) == pgerrcode.ForeignKeyViolation {
				return fmt.Errorf("no tenant %q: make it with onceward tenants create %s", c.Tenant, c.Tenant)
			}
			return err
		}
		fmt.Fprintln(s.out, key.Text())
		fmt.Fprintln(s.err, "It is shown this once. Client commands take it as ONCEWARD_API_KEY.")
		return nil
	})
}

type keyListCmd struct {
	owner
	Tenant string `arg:"" help:"Tenant."`
}

func (*keyListCmd) Help() string {
	return "Example:\n  onceward keys list acme --database-url=postgres://owner@db/onceward"
}

// Run lists the keys without their secrets.
func (c *keyListCmd) Run(ctx context.Context, s streams) error {
	return c.do(ctx, func(store *postgres.Store) error {
		list, err := store.Credentials(ctx, c.Tenant)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			fmt.Fprintf(s.out, "Tenant %s has no keys, or there is no such tenant.\n", c.Tenant)
			return nil
		}
		w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "ID\tACTOR\tROLES\tCREATED\tSTATE")
		for _, k := range list {
			state := "valid"
			switch {
			case !k.RevokedAt.IsZero():
				state = "revoked " + k.RevokedAt.Format(time.RFC3339)
			case !k.Usable:
				state = "expired " + k.ExpiresAt.Format(time.RFC3339)
			case !k.ExpiresAt.IsZero():
				state = "valid until " + k.ExpiresAt.Format(time.RFC3339)
			}
			fmt.Fprintf(w, "%s\t%s\t%v\t%s\t%s\n", k.KeyID, k.Actor, strings.Join(k.Roles, ","), k.CreatedAt.Format(time.RFC3339), state)
		}
		return w.Flush()
	})
}

type keyRevokeCmd struct {
	owner
	Tenant string `arg:"" help:"Tenant of the key."`
	ID     string `arg:"" help:"Id of the key, as keys list shows it."`
}

func (*keyRevokeCmd) Help() string {
	return "Example:\n  onceward keys revoke acme r18ohanh2hbeoibg --database-url=postgres://owner@db/onceward"
}

// Run revokes the key.
func (c *keyRevokeCmd) Run(ctx context.Context, s streams) error {
	return c.do(ctx, func(store *postgres.Store) error {
		err := store.RevokeCredential(ctx, c.Tenant, c.ID)
		if errors.Is(err, ledger.ErrNotFound) {
			return fmt.Errorf("tenant %s has no key %s", c.Tenant, c.ID)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "Key %s of %s is revoked.\n", c.ID, c.Tenant)
		return nil
	})
}
