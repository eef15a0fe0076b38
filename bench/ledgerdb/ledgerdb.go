package ledgerdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/bench/contest"
	"github.com/onceward/onceward/internal/apikey"
	"github.com/onceward/onceward/internal/secrets"
	"github.com/onceward/onceward/ledger/postgres"
	"github.com/onceward/onceward/migrations"
)

// Tenant is the one that acts.
const Tenant = "bench"

// login is a member of the serving role.
const login = "onceward_bench_serve"

// Database is a ledger that is ready to serve.
type Database struct {
	Name       string
	OwnerURL   string
	ServeURL   string
	Key        string // API key of an agent of the tenant
	SecretsDir string
}

// Create makes the database, where there was one of that name too. The first of
// a run takes a while; the others are copies.
func Create(ctx context.Context, env contest.Env, name string) (Database, error) {
	if _, err := os.Stat(keyFile(env)); errors.Is(err, fs.ErrNotExist) {
		if err := makeTemplate(ctx, env); err != nil {
			return Database{}, err
		}
	}
	if _, err := env.DatabaseLike(ctx, name, Template); err != nil {
		return Database{}, err
	}
	return At(ctx, env, name)
}

// At is a database that Create made, in a run before this one perhaps: it is
// brought to the present schema.
func At(ctx context.Context, env contest.Env, name string) (Database, error) {
	key, err := os.ReadFile(keyFile(env))
	if err != nil {
		return Database{}, err
	}
	owner, err := url.Parse(env.Postgres)
	if err != nil {
		return Database{}, err
	}
	owner.Path = "/" + name
	if env.Kept {
		if _, err := migrations.Up(ctx, owner.String()); err != nil {
			return Database{}, err
		}
	}
	serve := *owner
	serve.User = url.UserPassword(login, env.Password)
	return Database{Name: name, OwnerURL: owner.String(), ServeURL: serve.String(), Key: string(key), SecretsDir: secretsDir(env)}, nil
}

// Template is the database that others are copies of.
const Template = "bench_template"

// keyFile holds the agent's key once the template is complete.
func keyFile(env contest.Env) string { return filepath.Join(env.Dir, "agent.key") }

// secretsDir is the folder of all that Create makes.
func secretsDir(env contest.Env) string { return filepath.Join(env.Dir, "secrets") }

func makeTemplate(ctx context.Context, env contest.Env) error {
	// What a run that was interrupted here has left.
	if err := os.RemoveAll(secretsDir(env)); err != nil {
		return err
	}
	ownerURL, err := env.Database(ctx, Template)
	if err != nil {
		return err
	}
	if _, err := migrations.Up(ctx, ownerURL); err != nil {
		return err
	}
	if err := serveRole(ctx, ownerURL, env.Password); err != nil {
		return err
	}
	if err := secrets.Create(secretsDir(env)); err != nil {
		return err
	}
	key, err := agentKey(ctx, ownerURL)
	if err != nil {
		return err
	}
	return os.WriteFile(keyFile(env), []byte(key), 0o600)
}

// serveRole makes the serving login. It belongs to the whole server.
func serveRole(ctx context.Context, ownerURL, password string) error {
	conn, err := pgx.Connect(ctx, ownerURL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	// DDL takes no parameters; the password is base32 of our own making.
	_, err = conn.Exec(ctx, fmt.Sprintf(`DROP ROLE IF EXISTS %[1]s; CREATE ROLE %[1]s LOGIN PASSWORD '%[2]s'; GRANT onceward_serve TO %[1]s`, login, password))
	return err
}

func agentKey(ctx context.Context, ownerURL string) (string, error) {
	store, err := postgres.Open(ctx, ownerURL)
	if err != nil {
		return "", err
	}
	defer store.Close()
	key := apikey.New(Tenant)
	hash := key.Hash()
	if err := store.CreateTenant(ctx, Tenant); err != nil {
		return "", err
	}
	return key.Text(), store.AddCredential(ctx, postgres.Credential{Tenant: Tenant, KeyID: key.ID, Hash: hash[:], Actor: "bench", Roles: []string{"agent"}})
}

// Check fails unless the ledger holds exactly so many finished actions, with two
// audit events each, and nothing else.
func (d Database) Check(ctx context.Context, actions int64) error {
	conn, err := pgx.Connect(ctx, d.OwnerURL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var succeeded, all, events int64
	if err := conn.QueryRow(ctx, `SELECT
		(SELECT count(*) FROM operations WHERE status = 'succeeded'),
		(SELECT count(*) FROM operations),
		(SELECT count(*) FROM audit_events)`).Scan(&succeeded, &all, &events); err != nil {
		return err
	}
	return errors.Join(
		contest.Same("succeeded operations", succeeded, actions),
		contest.Same("operations", all, actions),
		contest.Same("audit events", events, 2*actions))
}
