package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/policies"
	"github.com/onceward/onceward/internal/privatepg"
	"github.com/onceward/onceward/internal/providers"
	"github.com/onceward/onceward/internal/secrets"
)

type devCmd struct {
	Listen         string   `env:"ONCEWARD_LISTEN" default:"127.0.0.1:7070" help:"Address of the API (loopback; port 0 takes a free one)."`
	AdminListen    string   `env:"ONCEWARD_ADMIN_LISTEN" default:"127.0.0.1:0" help:"Address for /metrics, /healthz and /readyz (loopback; port 0 takes a free one)."`
	OTLPEndpoint   string   `env:"ONCEWARD_OTLP_ENDPOINT,OTEL_EXPORTER_OTLP_ENDPOINT" name:"otlp-endpoint" placeholder:"URL" help:"Receiver of traces over OTLP/gRPC, such as http://127.0.0.1:4317: every request is traced. Default: no traces."`
	ProviderListen string   `default:"127.0.0.1:0" help:"Address of the fake provider."`
	DataDir        string   `env:"ONCEWARD_DATA_DIR" help:"Folder for the data: kept between starts, never wiped. Default: a folder of your account, named at the start." type:"path"`
	DatabaseURL    string   `env:"ONCEWARD_DATABASE_URL" name:"database-url" help:"Use this Postgres instead of a private one; the role must own the database and may create roles."`
	Config         []string `env:"ONCEWARD_CONFIG" type:"existingpath" placeholder:"PATH" help:"Files and folders with providers and actions, beside the demo ones."`
	Policies       []string `env:"ONCEWARD_POLICIES" type:"existingpath" placeholder:"PATH" help:"Files and folders with policies of the demo tenants, acme and globex. Without, their agents may request everything."`
	Simulate       bool     `help:"Play the providers of --config on this machine, with made-up credentials, instead of calling them."`
	Verbose        bool     `short:"v" help:"Log every request and attempt."`
}

func (*devCmd) Help() string {
	return "Example:\n  onceward dev\n\nEverything listens on loopback, and ends with the process. The data stays in the data folder."
}

// devReloadInterval is short: files are edited while dev runs.
const devReloadInterval = 500 * time.Millisecond

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
	log := newLog(s.err, level)
	if err := checkOTLP(c.OTLPEndpoint); err != nil {
		return err
	}
	dir, err := dataDir(c.DataDir)
	if err != nil {
		return err
	}
	// Postgres may run as another account and must pass through; the files are private.
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	state, err := loadDevState(dir)
	if err != nil {
		return err
	}
	// What is wrong with the files is said before a database is made.
	provider, err := fakeprovider.Start(fakeprovider.New(fakeprovider.Options{}), c.ProviderListen)
	if err != nil {
		return fmt.Errorf("fake provider: %w", err)
	}
	defer func() { err = errors.Join(err, provider.Close()) }()
	adapters, err := demo.New(demo.Options{
		ProviderURL: provider.URL(), Token: fakeprovider.DefaultToken,
		MailSettleTime: 5 * time.Second, ArrivalTime: 2 * time.Second,
	})
	if err != nil {
		return err
	}
	played, err := c.simulate()
	if err != nil {
		return faulty(s, err)
	}
	defer func() { err = errors.Join(err, played.close()) }()
	observed, flushSpans, err := telemetryFlags{OTLPEndpoint: c.OTLPEndpoint, TraceSampleRatio: 1}.open(ctx, newLog(s.err, slog.LevelWarn))
	if err != nil {
		return err
	}
	defer flushSpans()
	actionTypes, err := providers.Open(ctx, providers.Options{
		Paths: c.Config, Adapters: append(adapters, o.Adapters...), Declared: played.options(),
		// Who edits a file waits for the word that it was taken over.
		Log: newLog(s.err, slog.LevelInfo), Interval: devReloadInterval,
		Refused: observed.Reloads.Refused("definitions"),
	})
	if err != nil {
		return notOpened(s, err)
	}
	defer actionTypes.Close()
	rules := allowingAll()
	if len(c.Policies) > 0 {
		if rules, err = openPolicies(policies.Options{Paths: c.Policies, Log: newLog(s.err, slog.LevelInfo), Interval: devReloadInterval, Refused: observed.Reloads.Refused("policies")}, actionTypes.Registry()); err != nil {
			return notOpened(s, err)
		}
	}
	keys, err := loadOrCreateSecrets(filepath.Join(dir, "secrets"))
	if err != nil {
		return err
	}
	ownerURL := c.DatabaseURL
	pgDown := make(<-chan struct{}) // never, for a Postgres of others
	if ownerURL != "" {
		if err := refuseForeignLedger(ctx, ownerURL, keys.Fingerprint()); err != nil {
			return err
		}
	} else {
		pg, err := privatepg.Start(ctx, privatepg.Options{Dir: filepath.Join(dir, "postgres"), Log: newLog(s.err, slog.LevelInfo)})
		if errors.Is(err, privatepg.ErrInUse) {
			return fmt.Errorf("%w (--data-dir names another)", err)
		}
		if err != nil {
			return err
		}
		defer stopPostgres(pg, log)
		pgDown = pg.Done()
		if ownerURL, err = ensureDatabase(ctx, pg.URL("postgres"), "onceward"); err != nil {
			return err
		}
	}
	serveURL, err := prepareLedger(ctx, ownerURL, serveLogin, state.DatabasePassword, state.demoKeys(), keys.Fingerprint())
	if err != nil {
		return err
	}
	listener, err := listen(ctx, c.Listen)
	if err != nil {
		return err
	}
	state.Address = listener.Addr().String()
	if err := state.write(dir); err != nil {
		return errors.Join(err, listener.Close())
	}
	adminListener, err := listen(ctx, c.AdminListen)
	if err != nil {
		return errors.Join(fmt.Errorf("--admin-listen: %w", err), listener.Close())
	}
	service, err := app.New(ctx, app.Config{
		Policies:    rules.For,
		DatabaseURL: serveURL, Secrets: keys, Registry: actionTypes.Registry(), Log: log, Listener: listener,
		Admin: adminListener, Telemetry: observed,
		Reconcile: true, ReconcileInterval: 200 * time.Millisecond, ShutdownGrace: 10 * time.Second,
	})
	if err != nil {
		return errors.Join(err, closeAll(listener, adminListener))
	}
	printBanner(s, dir, provider.URL(), serveURL, adminListener.Addr().String(), state)
	if c.DatabaseURL == "" {
		// Of the demo, as the keys above; a URL that was given is known to who gave it.
		fmt.Fprintf(s.out, "For commands that want the database (keys, audit verify, observe report): --database-url='%s'\n", ownerURL)
	}
	played.print(s)
	if usual, err := dataDir(""); err != nil || dir != usual {
		fmt.Fprintf(s.out, "For the client commands: export ONCEWARD_DATA_DIR=%s\n", dir)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go actionTypes.Watch(ctx)
	go rules.Watch(ctx)
	go keys.Watch(ctx, devReloadInterval, newLog(s.err, slog.LevelInfo)) // so that rotating can be tried here
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

// printBanner says what listens where, and what to do now.
func printBanner(s streams, dir, providerURL, serveURL, adminAddress string, state devState) {
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
  metrics        http://%[8]s/metrics (/readyz beside it)

Tenant %[5]s. Keys of this machine's demo:
  agent          %[6]s
  reviewer       %[7]s

Try it:
  grpcurl -plaintext %[1]s list
  grpcurl -plaintext %[1]s describe onceward.v1.RequestActionRequest
  grpcurl -plaintext -H 'authorization: Bearer %[6]s' -d '{"action_type":"payments.refund.create","arguments":{"charge_id":"ch_42","amount":4900,"currency":"usd"},"run":{"run_id":"run_1","step_id":"refund"}}' %[1]s onceward.v1.ActionService/RequestAction

Run the last line again: the same receipt, and still one refund at the provider.
Without grpcurl, in another terminal: onceward list, onceward request --help. Stop with Ctrl-C.
`, state.Address, providerURL, database, dir, demoTenant, state.AgentKey, state.ReviewerKey, adminAddress)
}
