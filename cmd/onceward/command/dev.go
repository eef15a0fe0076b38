package command

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/apikey"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/privatepg"
	"github.com/onceward/onceward/internal/secrets"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/postgres"
	"github.com/onceward/onceward/migrations"
)

type devCmd struct {
	Listen         string `default:"127.0.0.1:7070" help:"Address of the API (loopback; port 0 takes a free one)."`
	ProviderListen string `default:"127.0.0.1:0" help:"Address of the fake provider."`
	DataDir        string `help:"Folder for the data: kept between starts, never wiped. Default: a folder of your account; see the README." type:"path"`
	DatabaseURL    string `name:"database-url" help:"Use this Postgres instead of a private one; the role must own the database and may create roles."`
	Verbose        bool   `short:"v" help:"Log every request and attempt."`
}

func (*devCmd) Help() string {
	return "Example:\n  onceward dev\n\nEverything listens on loopback, and ends with the process. The data stays in the data folder."
}

// demoTenants are the tenants of dev, with the actors of their keys.
const (
	demoTenant  = "acme"
	otherTenant = "globex"
)

// Run starts everything and prints what listens where.
func (c *devCmd) Run(ctx context.Context, s streams, o Options) (err error) {
	level := slog.LevelWarn
	if c.Verbose {
		level = slog.LevelInfo
	}
	log := newLog(s.err, level, false)
	dir, err := dataDir(c.DataDir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // Postgres runs as another account and must pass through; the files in it are private.
		return err
	}
	state, err := loadDevState(dir)
	if err != nil {
		return err
	}
	ownerURL := c.DatabaseURL
	pgDown := make(<-chan struct{}) // never, for a Postgres of others
	if ownerURL == "" {
		pg, err := privatepg.Start(ctx, privatepg.Options{Dir: filepath.Join(dir, "postgres"), Log: newLog(s.err, slog.LevelInfo, false)})
		if err != nil {
			return err
		}
		defer stopPostgres(pg, log)
		pgDown = pg.Done()
		if ownerURL, err = ensureDatabase(ctx, pg.URL("postgres"), "onceward"); err != nil {
			return err
		}
	}
	serveURL, err := prepareLedger(ctx, ownerURL, state)
	if err != nil {
		return err
	}
	provider, err := fakeprovider.Start(fakeprovider.New(fakeprovider.Options{}), c.ProviderListen)
	if err != nil {
		return fmt.Errorf("fake provider: %w", err)
	}
	defer func() { err = errors.Join(err, provider.Close()) }()
	registry, err := demoRegistry(provider.URL(), fakeprovider.DefaultToken, o.Adapters)
	if err != nil {
		return err
	}
	keys, err := loadOrCreateSecrets(filepath.Join(dir, "secrets"))
	if err != nil {
		return err
	}
	listener, err := listen(ctx, c.Listen)
	if err != nil {
		return err
	}
	service, err := app.New(ctx, app.Config{
		DatabaseURL: serveURL, Secrets: keys, Registry: registry, Log: log, Listener: listener,
		Reconcile: true, ReconcileInterval: 200 * time.Millisecond, ShutdownGrace: 10 * time.Second,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	printBanner(s, dir, listener.Addr().String(), provider.URL(), serveURL, state)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-pgDown:
			cancel(errPostgresGone)
		case <-ctx.Done():
		}
	}()
	err = service.Run(ctx)
	if errors.Is(context.Cause(ctx), errPostgresGone) {
		return errPostgresGone
	}
	return err
}

var errPostgresGone = errors.New("the private Postgres ended; its log is server.log in the postgres folder of the data folder")

func stopPostgres(pg *privatepg.Server, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := pg.Stop(ctx); err != nil {
		log.Error("stopping Postgres", "error", err)
	}
}

func dataDir(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	return privatepg.DefaultDir("dev")
}

// demoRegistry has the demo actions on a provider, and more.
func demoRegistry(providerURL, token string, more []actions.Adapter) (*actions.Registry, error) {
	adapters, err := demo.New(demo.Options{
		ProviderURL: providerURL, Token: token,
		MailSettleTime: 5 * time.Second, ContactSettleTime: 2 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	return actions.NewRegistry(append(adapters, more...)...)
}

func loadOrCreateSecrets(dir string) (*secrets.Secrets, error) {
	if !secrets.Exist(dir) {
		if err := secrets.Create(dir); err != nil {
			return nil, err
		}
	}
	return secrets.Load(dir)
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w (choose another address with --listen)", err)
	}
	return l, nil
}

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

// serveLogin is the login of dev's serving role.
const serveLogin = "onceward_dev_serve"

// prepareLedger migrates, makes the demo's table, tenants and keys, and returns
// the URL of a login that may only serve.
func prepareLedger(ctx context.Context, ownerURL string, state devState) (string, error) {
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
		GRANT onceward_serve TO %[1]s;`, serveLogin, state.DatabasePassword)); err != nil {
		return "", fmt.Errorf("serving role: %w", err)
	}
	if err := ensureDemoKeys(ctx, ownerURL, state); err != nil {
		return "", err
	}
	u, err := url.Parse(ownerURL)
	if err != nil {
		return "", err
	}
	u.User = url.UserPassword(serveLogin, state.DatabasePassword)
	return u.String(), nil
}

// ensureDemoKeys makes the demo tenants and stores their keys.
func ensureDemoKeys(ctx context.Context, ownerURL string, state devState) error {
	store, err := postgres.Open(ctx, ownerURL)
	if err != nil {
		return err
	}
	defer store.Close()
	for _, demo := range state.demoKeys() {
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

// devState is what dev keeps beside its database: demo credentials, readable by
// their owner only. The client commands use them when no key is given.
type devState struct {
	DatabasePassword string `json:"database_password"`
	AgentKey         string `json:"agent_key"`
	ReviewerKey      string `json:"reviewer_key"`
	OtherAgentKey    string `json:"other_agent_key"`
	// Address is where the last dev listened.
	Address string `json:"address,omitempty"`
}

type demoKey struct {
	text, actor string
	roles       []string
}

func (d devState) demoKeys() []demoKey {
	return []demoKey{
		{d.AgentKey, "demo-planner", []string{"agent"}},
		{d.ReviewerKey, "demo-reviewer", []string{"reviewer", "auditor"}},
		{d.OtherAgentKey, "demo-planner", []string{"agent"}},
	}
}

func devStateFile(dir string) string { return filepath.Join(dir, "dev.json") }

// readDevState reads the state of a dev folder; fs.ErrNotExist when there is
// none.
func readDevState(dir string) (devState, error) {
	var state devState
	data, err := os.ReadFile(devStateFile(dir))
	if err != nil {
		return state, err
	}
	if err := json.Unmarshal(data, &state); err != nil {
		return state, fmt.Errorf("%s: %w", devStateFile(dir), err)
	}
	return state, nil
}

func loadDevState(dir string) (devState, error) {
	state, err := readDevState(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return state, err
	}
	state = devState{
		DatabasePassword: rand.Text(),
		AgentKey:         apikey.New(demoTenant).Text(),
		ReviewerKey:      apikey.New(demoTenant).Text(),
		OtherAgentKey:    apikey.New(otherTenant).Text(),
	}
	return state, state.write(dir)
}

// write replaces the file as a whole, so that a reader never sees half of it.
func (d devState) write(dir string) error {
	data, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	next := devStateFile(dir) + ".new"
	if err := os.WriteFile(next, append(data, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(next, devStateFile(dir))
}

func printBanner(s streams, dir, api, providerURL, serveURL string, state devState) {
	database := serveURL
	if u, err := url.Parse(serveURL); err == nil {
		database = u.Redacted()
	}
	fmt.Fprintf(s.out, `
Onceward is ready.
  API            %[1]s (gRPC, plain text, reflection on)
  fake provider  %[2]s (%[2]s/_fake/ says what it can do)
  ledger         %[3]s
  data folder    %[4]s (kept; delete it to start anew)

Tenant %[5]s. Keys of this machine's demo:
  agent          %[6]s
  reviewer       %[7]s

Try it:
  grpcurl -plaintext %[1]s list
  grpcurl -plaintext %[1]s describe onceward.v1.RequestActionRequest
  grpcurl -plaintext -H 'authorization: Bearer %[6]s' -d '{"action_type":"payments.refund.create","arguments":{"charge_id":"ch_42","amount":4900,"currency":"usd"},"run":{"run_id":"run_1","step_id":"refund"}}' %[1]s onceward.v1.ActionService/RequestAction

Run the last line again: the same receipt, and still one refund at the provider.
Without grpcurl: onceward list, onceward request --help. Stop with Ctrl-C.
`, api, providerURL, database, dir, demoTenant, state.AgentKey, state.ReviewerKey)
	state.Address = api
	if err := state.write(dir); err != nil {
		fmt.Fprintln(s.err, "onceward: the address is not remembered for the client commands:", err)
	}
}
