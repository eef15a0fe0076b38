package command

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/internal/apikey"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/postgres"
	"github.com/onceward/onceward/migrations"
)

// ensureDatabase creates a database unless it is there, and returns its URL.
func ensureDatabase(ctx context.Context, maintenanceURL, name string) (string, error) {
	conn, err := pgx.Connect(ctx, maintenanceURL)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	var there bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name).Scan(&there); err != nil {
		return "", err
	}
	if !there {
		if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
			return "", err
		}
	}
	u, err := url.Parse(maintenanceURL)
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), nil
}

// refuseForeignLedger fails when a ledger is somebody's own, in which demo keys
// have no place: it has tenants that are not of dev, or it serves with other
// secrets than those with this fingerprint, or has tenants and has never served.
// Tenants alone prove nothing: acme is a name that others give, too.
func refuseForeignLedger(ctx context.Context, ownerURL string, fingerprint [32]byte) error {
	conn, err := pgx.Connect(ctx, ownerURL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	var there bool
	if err := conn.QueryRow(ctx, `SELECT to_regclass('tenants') IS NOT NULL`).Scan(&there); err != nil || !there {
		return err
	}
	const advice = "run onceward serve on it, or unset ONCEWARD_DATABASE_URL for a private Postgres"
	var tenant string
	err = conn.QueryRow(ctx, `SELECT tenant_id FROM tenants ORDER BY tenant_id IN ($1, $2) LIMIT 1`, demoTenant, otherTenant).Scan(&tenant)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	case tenant != demoTenant && tenant != otherTenant:
		return fmt.Errorf("the ledger at --database-url (ONCEWARD_DATABASE_URL) has tenant %q, which is not one of dev's: %s", tenant, advice)
	}
	var own bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM installation WHERE provider_key_fingerprint = $1)`, fingerprint[:]).Scan(&own); err != nil {
		return err
	}
	if !own {
		return fmt.Errorf("the ledger at --database-url (ONCEWARD_DATABASE_URL) has tenant %q, and was not made by this dev: its secrets are not those of the data folder: %s", tenant, advice)
	}
	return nil
}

// serveLogin is the login of dev's serving role.
const serveLogin = "onceward_dev_serve"

// prepareLedger migrates, makes the demo's table, tenants and keys, and returns
// the URL of a login that may only serve. A login belongs to the whole server;
// the password becomes its password. The ledger is bound to the secrets with this
// fingerprint before it has a key: that is how dev knows it again.
func prepareLedger(ctx context.Context, ownerURL, login, password string, keys []demoKey, fingerprint [32]byte) (string, error) {
	if _, err := migrations.Up(ctx, ownerURL); err != nil {
		return "", err
	}
	conn, err := pgx.Connect(ctx, ownerURL)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, demo.NotesTable()); err != nil {
		return "", fmt.Errorf("table of notes.insert: %w", err)
	}
	// DDL takes no parameters; the password is base32 of our own making.
	if _, err := conn.Exec(ctx, fmt.Sprintf(`
		DO $$ BEGIN
			IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '%[1]s') THEN CREATE ROLE %[1]s LOGIN; END IF;
		END $$;
		ALTER ROLE %[1]s PASSWORD '%[2]s';
		GRANT onceward_serve TO %[1]s;`, login, password)); err != nil {
		return "", fmt.Errorf("serving role: %w", err)
	}
	if err := ensureDemoKeys(ctx, ownerURL, keys, fingerprint); err != nil {
		return "", err
	}
	u, err := url.Parse(ownerURL)
	if err != nil {
		return "", err
	}
	u.User = url.UserPassword(login, password)
	return u.String(), nil
}

// ensureDemoKeys stores demo keys and makes their tenants.
func ensureDemoKeys(ctx context.Context, ownerURL string, keys []demoKey, fingerprint [32]byte) error {
	store, err := postgres.Open(ctx, ownerURL)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.CheckInstallation(ctx, fingerprint); err != nil {
		return err
	}
	for _, demo := range keys {
		key, err := apikey.Parse(demo.text)
		if err != nil {
			return err
		}
		if err := store.CreateTenant(ctx, key.Tenant); err != nil {
			return err
		}
		_, err = store.Credential(ctx, key.Tenant, key.ID)
		if err == nil {
			continue
		}
		if !errors.Is(err, ledger.ErrNotFound) {
			return err
		}
		hash := key.Hash()
		err = store.AddCredential(ctx, postgres.Credential{Tenant: key.Tenant, KeyID: key.ID, Hash: hash[:], Actor: demo.actor, Roles: demo.roles})
		if err != nil {
			return err
		}
	}
	return nil
}
