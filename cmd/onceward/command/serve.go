package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/logs"
	"github.com/onceward/onceward/internal/providers"
	"github.com/onceward/onceward/internal/secrets"
)

type serveCmd struct {
	DatabaseURL    string        `env:"ONCEWARD_DATABASE_URL" name:"database-url" required:"" help:"Postgres URL of a login that is a member of onceward_serve."`
	SecretsDir     string        `env:"ONCEWARD_SECRETS_DIR" required:"" type:"existingdir" help:"Folder made by: onceward secrets create."`
	Roles          []string      `env:"ONCEWARD_ROLES" default:"api,reconciler" help:"What this process does: api, reconciler."`
	Listen         string        `env:"ONCEWARD_LISTEN" default:"127.0.0.1:7070" help:"Address of the API; beyond loopback it wants TLS."`
	TLSCert        string        `env:"ONCEWARD_TLS_CERT" name:"tls-cert" type:"existingfile" help:"Certificate chain, PEM."`
	TLSKey         string        `env:"ONCEWARD_TLS_KEY" name:"tls-key" type:"existingfile" help:"Private key, PEM."`
	ClientCA       string        `env:"ONCEWARD_CLIENT_CA" name:"client-ca" type:"existingfile" help:"CAs of clients' certificates, PEM; wants TLS, and rules in --identity."`
	Identity       string        `env:"ONCEWARD_IDENTITY" type:"existingfile" placeholder:"FILE" help:"Issuers of tokens and rules for certificates (docs/identity.md). Default: API keys only. Changes are taken over while it runs."`
	Config         []string      `env:"ONCEWARD_CONFIG" type:"existingpath" placeholder:"PATH" help:"Files and folders with providers and actions (onceward check, onceward catalog); can be given several times. Changes are taken over while it runs."`
	ReloadInterval time.Duration `env:"ONCEWARD_RELOAD_INTERVAL" default:"2s" help:"Time between two looks at these files, --identity and certificates; SIGHUP looks at once."`

	policyFlags

	WebhooksListen string `env:"ONCEWARD_WEBHOOKS_LISTEN" help:"Address for providers' webhooks, at /v1/webhooks/TENANT/PROVIDER; beyond loopback it wants TLS. Default: none are taken."`
	WebhooksURL    string `env:"ONCEWARD_WEBHOOKS_URL" name:"webhooks-url" help:"Scheme and host that providers were told, where a proxy stands before that address."`

	HTTPListen string `env:"ONCEWARD_HTTP_LISTEN" name:"http-listen" help:"Address for the public keys, at /.well-known/jwks.json; beyond loopback it wants TLS. Default: they are not served."`
	Issuer     string `env:"ONCEWARD_ISSUER" help:"Name of this installation in operation tokens and signed receipts, the same on every replica. Default: urn:onceward: and a fingerprint of the secrets."`

	adminFlags
	telemetryFlags

	MaxInFlight int `env:"ONCEWARD_MAX_IN_FLIGHT" default:"1024" help:"Attempts under way at once; more are refused."`

	LeaseGrace        time.Duration `env:"ONCEWARD_LEASE_GRACE" default:"15s" help:"How much longer a lease is than its attempt may take: shorter takes up the work of a killed process sooner, longer forgives a slow ledger."`
	ReconcileInterval time.Duration `env:"ONCEWARD_RECONCILE_INTERVAL" default:"1s" help:"Time between two rounds of the reconciler."`
	ReconcileLease    time.Duration `env:"ONCEWARD_RECONCILE_LEASE" default:"1m" help:"How long a process has an operation in doubt to itself: one that is killed keeps it that long. Looks at a provider may take a third of it."`

	LogLevel  logLevel `env:"ONCEWARD_LOG_LEVEL" default:"info" help:"debug, info, warn or error."`
	LogFormat string   `env:"ONCEWARD_LOG_FORMAT" default:"json" enum:"json,text" help:"json or text."`

	DemoProviderURL       string        `env:"ONCEWARD_DEMO_PROVIDER_URL" name:"demo-provider-url" help:"Register the demo actions on this fake provider."`
	DemoProviderTokenFile string        `env:"ONCEWARD_DEMO_PROVIDER_TOKEN_FILE" type:"existingfile" help:"File with the fake provider's token."`
	DemoAttemptTimeout    time.Duration `env:"ONCEWARD_DEMO_ATTEMPT_TIMEOUT" default:"30s" help:"How long one attempt of a demo action may take."`
	DemoSettleTime        time.Duration `env:"ONCEWARD_DEMO_SETTLE_TIME" default:"5s" help:"The longest that the fake provider's look-ups lag."`
}

func (*serveCmd) Help() string {
	return `Example:
  onceward migrate --database-url=postgres://owner@db/onceward
  onceward secrets create ./secrets
  onceward serve --database-url=postgres://serve@db/onceward --secrets-dir=./secrets \
      --config=./actions --policies=./tenants --listen=0.0.0.0:7070 --tls-cert=cert.pem --tls-key=key.pem

Every flag can be given in the environment: ONCEWARD_DATABASE_URL and so on.
All replicas need the same secrets.`
}

// Run serves until it is told to stop.
func (c *serveCmd) Run(ctx context.Context, s streams, o Options) error {
	for _, role := range c.Roles {
		if role != "api" && role != "reconciler" {
			return fmt.Errorf("%w: --roles: %q is neither api nor reconciler", errUsage, role)
		}
	}
	for flag, d := range map[string]time.Duration{
		"lease-grace": c.LeaseGrace, "reconcile-interval": c.ReconcileInterval, "reconcile-lease": c.ReconcileLease,
		"reload-interval":      c.ReloadInterval,
		"demo-attempt-timeout": c.DemoAttemptTimeout, "demo-settle-time": c.DemoSettleTime,
	} {
		if d <= 0 {
			return fmt.Errorf("%w: --%s: want a time above 0, such as 5s", errUsage, flag)
		}
	}
	for _, check := range []func() error{c.policyFlags.check, c.adminFlags.check, c.telemetryFlags.check} {
		if err := check(); err != nil {
			return err
		}
	}
	keys, err := secrets.Load(c.SecretsDir)
	if err != nil {
		return err
	}
	app.TuneMemory()
	log, flush := logs.New(s.err, logForm(slog.Level(c.LogLevel), c.LogFormat == "json"))
	defer flush()
	own, err := c.adapters(o)
	if err != nil {
		return err
	}
	actionTypes, err := providers.Open(ctx, providers.Options{Paths: c.Config, Adapters: own, Log: log, Interval: c.ReloadInterval})
	if err != nil {
		return notOpened(s, err)
	}
	defer actionTypes.Close()
	policies, err := c.policyFlags.open(actionTypes.Registry(), log, c.ReloadInterval)
	if err != nil {
		return notOpened(s, err)
	}
	config := app.Config{
		Policies:    policies.For,
		DatabaseURL: c.DatabaseURL, Secrets: keys, Registry: actionTypes.Registry(), Log: log,
		Reconcile: slices.Contains(c.Roles, "reconciler"), MaxInFlight: c.MaxInFlight,
		LeaseGrace: c.LeaseGrace, ReconcileInterval: c.ReconcileInterval, ReconcileLease: c.ReconcileLease,
		WebhooksURL: c.WebhooksURL, Source: actionTypes.Source, Issuer: c.Issuer,
	}
	if err := c.adminFlags.set(&config); err != nil {
		return err
	}
	observed, flushSpans, err := c.telemetryFlags.open(ctx, log)
	if err != nil {
		return err
	}
	defer flushSpans()
	config.Telemetry = observed
	watches, err := c.identify(s, log, &config)
	if err != nil {
		return err
	}
	if err := c.listenAll(ctx, &config); err != nil {
		return err
	}
	service, err := app.New(ctx, config)
	if err != nil {
		return withAdvice(errors.Join(err, closeAll(config.Listener, config.Webhooks, config.HTTP, config.Admin)))
	}
	if c.AllowAll {
		log.Warn("no policies: every agent of every tenant may request every action (--allow-all)")
	}
	if config.Listener != nil {
		log.Info("serving", "address", config.Listener.Addr().String(), "tls", config.Credentials != nil, "action_types", len(config.Registry.All()))
	}
	if config.Webhooks != nil {
		log.Info("taking webhooks", "address", config.Webhooks.Addr().String(), "tls", config.WebhooksTLS != nil)
	}
	if config.HTTP != nil {
		log.Info("serving public keys", "address", config.HTTP.Addr().String(), "tls", config.HTTPTLS != nil)
	}
	if config.Admin != nil {
		log.Info("serving metrics and readiness", "address", config.Admin.Addr().String(), "tls", config.AdminTLS != nil)
	}
	if config.Reconcile {
		log.Info("reconciling", "interval", c.ReconcileInterval.String())
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go keys.Watch(watching, c.ReloadInterval, log)
	for _, watch := range append(watches, actionTypes.Watch, policies.Watch) {
		go watch(watching)
	}
	err = service.Run(ctx)
	log.Info("stopped")
	return err
}

func closeAll(listeners ...net.Listener) error {
	var errs []error
	for _, l := range listeners {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	return errors.Join(errs...)
}

// adapters are those that need no files: the binary's own, and the demo ones.
func (c *serveCmd) adapters(o Options) ([]actions.Adapter, error) {
	if c.DemoProviderURL == "" {
		if len(o.Adapters) == 0 && len(c.Config) == 0 {
			return nil, errors.New("no action types: give --config with providers and actions (onceward catalog copy stripe ./onceward is a start), or --demo-provider-url")
		}
		return o.Adapters, nil
	}
	if c.DemoProviderTokenFile == "" {
		return nil, fmt.Errorf("%w: --demo-provider-url wants --demo-provider-token-file", errUsage)
	}
	token, err := os.ReadFile(c.DemoProviderTokenFile)
	if err != nil {
		return nil, err
	}
	adapters, err := demo.New(demo.Options{
		ProviderURL: c.DemoProviderURL, Token: strings.TrimSpace(string(token)),
		Timeout: c.DemoAttemptTimeout, MailSettleTime: c.DemoSettleTime, ArrivalTime: c.DemoSettleTime,
	})
	return append(adapters, o.Adapters...), err
}
