package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgerrcode"

	"github.com/onceward/onceward/internal/apikey"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/postgres"
	"github.com/onceward/onceward/policy"
)

type keysCmd struct {
	Create keyCreateCmd `cmd:"" help:"Create an API key; it is shown once."`
	List   keyListCmd   `cmd:"" help:"List a tenant's API keys."`
	Rotate keyRotateCmd `cmd:"" help:"Make a new API key in the place of another, which ends a while later."`
	Revoke keyRevokeCmd `cmd:"" help:"Revoke an API key; it stops within a second."`
}

func (*keysCmd) Help() string { return (*keyCreateCmd)(nil).Help() }

type keyCreateCmd struct {
	owner
	Tenant  string   `arg:"" help:"Tenant of the key."`
	Actor   string   `required:"" help:"Who will use it: shown in operations and reviews."`
	Role    []string `required:"" enum:"agent,reviewer,auditor,admin" help:"agent, reviewer, auditor or admin; auditor can be given beside another."`
	Expires span     `placeholder:"TIME" help:"How long it is valid, as in 12h or 90d; for ever when not given."`
}

func (*keyCreateCmd) Help() string {
	return "Example:\n  onceward keys create acme --actor=support-planner --role=agent --database-url=postgres://owner@db/onceward"
}

// Run creates the key and prints it.
func (c *keyCreateCmd) Run(ctx context.Context, s streams) error {
	if err := checkRoles(c.Role); err != nil {
		return fmt.Errorf("%w: --role: %w", errUsage, err)
	}
	return c.do(ctx, func(store *postgres.Store) error {
		key := apikey.New(c.Tenant)
		hash := key.Hash()
		credential := postgres.Credential{Tenant: c.Tenant, KeyID: key.ID, Hash: hash[:], Actor: c.Actor, Roles: c.Role}
		if c.Expires > 0 {
			credential.ExpiresAt = time.Now().Add(time.Duration(c.Expires))
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

// checkRoles says whether a key may have these roles.
func checkRoles(names []string) error {
	roles := make([]policy.Role, len(names))
	for i, name := range names {
		roles[i] = policy.Role(name)
	}
	return policy.CheckRoles(roles)
}

type keyRotateCmd struct {
	owner
	Tenant  string        `arg:"" help:"Tenant of the key."`
	ID      string        `arg:"" help:"Id of the key, as keys list shows it."`
	Overlap time.Duration `default:"24h" help:"How long the former key is still good; 0s ends it within a second."`
	Expires span          `placeholder:"TIME" help:"How long the new key is valid, as in 12h or 90d; as long as the former was when not given."`
}

func (*keyRotateCmd) Help() string {
	return `Example:
  onceward keys rotate acme r18ohanh2hbeoibg --overlap=24h --database-url=postgres://owner@db/onceward

The new key has the same actor and roles, and is shown once. Give it to the client
before the overlap is over. Of a key that leaked nothing should overlap: revoke it.`
}

// Run makes the new key and prints it.
func (c *keyRotateCmd) Run(ctx context.Context, s streams) error {
	if c.Overlap < 0 {
		return fmt.Errorf("%w: --overlap cannot be negative", errUsage)
	}
	return c.do(ctx, func(store *postgres.Store) error {
		key := apikey.New(c.Tenant)
		hash := key.Hash()
		next := postgres.Credential{KeyID: key.ID, Hash: hash[:]}
		if c.Expires > 0 {
			next.ExpiresAt = time.Now().Add(time.Duration(c.Expires))
		}
		made, err := store.RotateCredential(ctx, c.Tenant, c.ID, next, c.Overlap)
		if errors.Is(err, ledger.ErrNotFound) {
			return fmt.Errorf("tenant %s has no key %s that is valid: make a new one with onceward keys create", c.Tenant, c.ID)
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(s.out, key.Text())
		fmt.Fprintf(s.err, "It is shown this once, for %s with %s. Key %s ends in %s.\n", made.Actor, strings.Join(made.Roles, ","), c.ID, c.Overlap)
		if err := checkRoles(made.Roles); err != nil {
			fmt.Fprintf(s.err, "Both are from before roles were kept apart: %v.\n", err)
		}
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
			if k.Usable && checkRoles(k.Roles) != nil {
				state += ", roles that are not for one key"
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
