package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/oklog/run"
	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/stats"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/inbox"
	"github.com/onceward/onceward/internal/admin"
	"github.com/onceward/onceward/internal/identity"
	"github.com/onceward/onceward/internal/secrets"
	"github.com/onceward/onceward/internal/signing"
	"github.com/onceward/onceward/internal/telemetry"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/postgres"
	"github.com/onceward/onceward/policy"
	"github.com/onceward/onceward/reconciler"
	"github.com/onceward/onceward/server"
)

// Ledger is the store as all parts together see it.
type Ledger interface {
	server.Ledger
	dispatch.Ledger
	reconciler.Ledger
}

var _ Ledger = (*postgres.Store)(nil)

// Config says what to run.
type Config struct {
	DatabaseURL string // of the serving role
	Secrets     *secrets.Secrets
	Registry    *actions.Registry
	Log         *slog.Logger
	// Policies returns the policy of a tenant that is in force now; required.
	Policies func(tenant string) *policy.Policy

	// Listener is where the API listens; nil runs none. Plain text is served
	// on a loopback address only, unless Credentials are given.
	Listener    net.Listener
	Credentials credentials.TransportCredentials

	// Identity holds issuers of tokens and rules for certificates; nil: API keys
	// are the only credentials. Who opened it watches it.
	Identity *identity.File
	// ClientTrusted says whether the chain of a client's certificate is trusted
	// now; nil: as long as its connection lasts.
	ClientTrusted func(chain []*x509.Certificate) bool

	// Limits bound connections and calls that do not get on; the zero value is the
	// defaults.
	Limits server.Limits
	// MaxConnections bounds the connections of each listener, and with them what
	// they hold of memory and of open files: further ones wait until one ends. Zero
	// is defaultMaxConnections.
	MaxConnections int

	// Telemetry is told what happens; nil: nobody is. Who made it shuts it down, after
	// Run.
	Telemetry *telemetry.Telemetry

	// ReplayBytes bounds the memory of succeeded operations, from which duplicates are
	// answered without the ledger; zero is the server's default, less is none.
	ReplayBytes int

	// StatsHandlers observe every call of the API, beside Telemetry.
	StatsHandlers []stats.Handler

	// Webhooks is where the providers' own calls come in; nil takes none. Plain
	// text is served on a loopback address only, unless WebhooksTLS is given.
	Webhooks    net.Listener
	WebhooksTLS *tls.Config
	// WebhooksURL is how providers were told to call, where that is not what a
	// request says: behind a proxy ("https://hooks.example.com").
	WebhooksURL string
	// Source says how the webhooks of a tenant's provider are read; nil where it
	// has none. Required with Webhooks.
	Source func(tenant, provider string) actions.Source

	// HTTP is where the public keys are served; nil serves none. Plain text is
	// served on a loopback address only, unless HTTPTLS is given.
	HTTP    net.Listener
	HTTPTLS *tls.Config
	// Issuer names the installation in what it signs; empty: Issuer of the
	// secrets. It must be the same on every replica.
	Issuer string

	// Reconcile runs the reconciler, with ReconcileInterval between its rounds
	// (zero: its default).
	Reconcile         bool
	ReconcileInterval time.Duration

	// ReconcileLease is how long the reconciler has an operation in doubt to
	// itself; zero is its default.
	ReconcileLease time.Duration

	// Admin is where the process is asked how it is: /metrics, /healthz, /readyz; nil
	// answers nowhere. Beyond loopback it wants AdminTLS and AdminToken, which is then
	// wanted for metrics; AdminProfiles (/debug/pprof) wants AdminToken everywhere.
	Admin         net.Listener
	AdminTLS      *tls.Config
	AdminToken    string
	AdminProfiles bool

	// ProbeInterval is between two looks at the ledger, CensusInterval between two
	// counts of what is open in it. Zero: a second, and 15 s.
	ProbeInterval, CensusInterval time.Duration

	// DrainDelay is how long the process, once it was asked to end, says that it is not
	// ready before it takes no more calls: as long as load balancers need to see it.
	DrainDelay time.Duration

	// ShutdownGrace is how long calls and attempts under way may take after
	// the end was asked for; default 30 s.
	ShutdownGrace time.Duration

	// MaxInFlight bounds attempts under way; zero is dispatch's default.
	MaxInFlight int

	// LeaseGrace is how much longer a lease is than its attempt may take; zero
	// is dispatch's default.
	LeaseGrace time.Duration

	// WrapLedger, if set, stands between the parts and the store: for tests
	// that die or fail at a step.
	WrapLedger func(Ledger) Ledger
}

// App is a running Onceward.
type App struct {
	Config
	store      *postgres.Store
	dispatcher *dispatch.Dispatcher
	server     *server.Server
	reconciler *reconciler.Reconciler
	hooks      *http.Server // nil without Webhooks
	signer     *signing.Signer
	public     *http.Server // nil without HTTP
	admin      *http.Server // nil without Admin
	probe      *admin.Probe
	leaving    atomic.Bool // the end was asked for
	recovering atomic.Bool // a restore of the ledger is in force, as the last look saw
}

// ErrPlainText: the API would listen without TLS where others can reach it.
var ErrPlainText = errors.New("plain text is served on loopback only: give a certificate (--tls-cert, --tls-key) or listen on 127.0.0.1")

// New connects to the ledger and builds all parts. It fails when the ledger
// does not answer, is not safe to use, or belongs to another secret. Run the
// result, or Close it.
func New(ctx context.Context, c Config) (*App, error) {
	if c.Listener != nil && c.Credentials == nil && !loopback(c.Listener.Addr()) {
		return nil, fmt.Errorf("%s: %w", c.Listener.Addr(), ErrPlainText)
	}
	if c.Webhooks != nil && c.WebhooksTLS == nil && !loopback(c.Webhooks.Addr()) {
		return nil, fmt.Errorf("%s: %w", c.Webhooks.Addr(), ErrPlainText)
	}
	if c.HTTP != nil && c.HTTPTLS == nil && !loopback(c.HTTP.Addr()) {
		return nil, fmt.Errorf("%s: %w", c.HTTP.Addr(), ErrPlainText)
	}
	if err := checkAdmin(c); err != nil {
		return nil, err
	}
	signer, err := newSigner(c)
	if err != nil {
		return nil, err
	}
	if c.MaxConnections <= 0 {
		c.MaxConnections = defaultMaxConnections
	}
	if c.ShutdownGrace == 0 {
		c.ShutdownGrace = 30 * time.Second
	}
	if c.CensusInterval == 0 {
		c.CensusInterval = censusInterval
	}
	store, err := openStore(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := store.CheckInstallation(ctx, c.Secrets.Fingerprint()); err != nil {
		store.Close()
		return nil, err
	}
	if may, err := store.MayChangeRecord(ctx); err != nil {
		store.Close()
		return nil, err
	} else if may {
		c.Log.Warn("this database login may change the audit record: serve with one that is a member of onceward_serve and does not own the tables")
	}
	recovering, err := tellRestores(ctx, store, c.Log)
	if err != nil {
		store.Close()
		return nil, err
	}
	a := &App{Config: c, store: store, signer: signer}
	a.recovering.Store(recovering)
	var book Ledger = store
	if c.WrapLedger != nil {
		book = c.WrapLedger(store)
	}
	observed := observing(&c, &book)
	changed := func(op ledger.Operation) { a.server.Changed(op) }
	a.dispatcher, err = dispatch.New(dispatch.Options{
		Ledger: book, Registry: c.Registry, Sealer: c.Secrets, Secret: c.Secrets.ProviderKey, Tokens: signer,
		MaxInFlight: c.MaxInFlight, LeaseGrace: c.LeaseGrace, Changed: changed, Log: c.Log,
		Metrics: observed.dispatch, Tracers: observed.tracers,
		Recheck: func(ctx context.Context, op ledger.Operation, action *actions.Action, args actions.Arguments) (*ledger.Change, error) {
			return a.server.Recheck(ctx, op, action, args)
		},
	})
	if err != nil {
		store.Close()
		return nil, err
	}
	replayBytes := c.ReplayBytes
	if c.Listener == nil {
		replayBytes = -1 // nobody asks here
	}
	a.server = server.New(server.Options{
		Ledger: book, Dispatcher: a.dispatcher, Registry: c.Registry, Sealer: c.Secrets,
		Authenticator: identity.New(identity.Options{Store: credentialStore{store}, File: c.Identity, Trusted: c.ClientTrusted}),
		Policies:      c.Policies, Log: c.Log, Credentials: c.Credentials, StatsHandlers: c.StatsHandlers,
		Metrics: observed.server, Tracers: observed.tracers,
		ReplayBytes: replayBytes, Limits: c.Limits,
		SignReceipt: func(op ledger.Operation) (string, error) {
			text, err := signer.Receipt(op)
			if errors.Is(err, signing.ErrNoKey) || errors.Is(err, signing.ErrNoReceipt) {
				return "", nil // a folder of secrets from before there were signing keys
			}
			return text, err
		},
	})
	if err := a.server.Check(); err != nil {
		store.Close()
		return nil, err
	}
	if c.Webhooks != nil {
		box, err := inbox.New(inbox.Options{
			Ledger: store, Source: c.Source, Sensitive: c.Registry.SensitiveReceipts, Log: c.Log, PublicURL: c.WebhooksURL,
			Metrics: observed.inbox,
		})
		if err != nil {
			store.Close()
			return nil, err
		}
		a.hooks = inbox.NewServer(box, c.Log)
	}
	if c.HTTP != nil {
		a.public = newPublicServer(signer, c.Log)
	}
	a.probe = a.newProbe()
	if a.admin, err = a.newAdmin(); err != nil {
		store.Close()
		return nil, err
	}
	a.reconciler = reconciler.New(reconciler.Options{
		Ledger: book, Dispatcher: a.dispatcher, Log: c.Log, Changed: changed, Interval: c.ReconcileInterval, Lease: c.ReconcileLease,
		Metrics: observed.reconciler, Tracers: observed.tracers,
	})
	if c.Telemetry != nil {
		c.Telemetry.ObserveDispatcher(a.dispatcher)
	}
	return a, nil
}

// defaultMaxConnections: an idle connection of the API holds some 25 KB, and an open file.
const defaultMaxConnections = 4096

// bounded is a listener with no more than MaxConnections connections.
func (a *App) bounded(l net.Listener) net.Listener { return netutil.LimitListener(l, a.MaxConnections) }

func loopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// Run serves until ctx ends, then stops in order: not ready any more, no new calls,
// calls under way, attempts under way, connections; the admin listener last. It
// returns nil after an orderly stop.
func (a *App) Run(ctx context.Context) error {
	a.tellSigning()
	var g run.Group
	g.Add(a.untilAsked(ctx))
	if a.admin != nil {
		failed := make(chan error, 1)
		go a.serveAdmin(failed)
		defer func() { _ = a.admin.Close() }() // whoever asks now is told nothing new
		g.Add(unlessFailed(failed))
	}
	unwatch := a.watch()
	if a.Reconcile {
		working, stop := context.WithCancel(context.Background())
		g.Add(func() error { a.reconciler.Run(working); return nil }, func(error) {
			stop()
			// Its attempts settle as long as it takes; the grace ends that.
			time.AfterFunc(a.ShutdownGrace, a.dispatcher.Abandon)
		})
	}
	if a.Listener != nil {
		waking, stop := context.WithCancel(context.Background())
		g.Add(func() error { a.server.Run(waking); return nil }, func(error) { stop() })
		api := a.server.GRPC()
		g.Add(func() error { return api.Serve(a.bounded(a.Listener)) }, func(error) { a.stopServing(api) })
	}
	if a.hooks != nil {
		g.Add(a.serveHooks, func(error) { a.stopHooks() })
	}
	if a.public != nil {
		g.Add(a.servePublic, func(error) { a.stopPublic() })
	}
	err := g.Run()
	unwatch()
	a.Close()
	if errors.Is(err, errAsked) {
		return nil
	}
	return err
}

// errAsked: the end was asked for.
var errAsked = errors.New("asked to stop")

func (a *App) stopServing(api *grpc.Server) {
	a.server.Drain()
	force := time.AfterFunc(a.ShutdownGrace, api.Stop)
	defer force.Stop()
	api.GracefulStop()
}

func (a *App) serveHooks() error {
	listener := a.bounded(a.Webhooks)
	if a.WebhooksTLS != nil {
		listener = tls.NewListener(listener, a.WebhooksTLS)
	}
	if err := a.hooks.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("webhooks: %w", err)
	}
	return nil
}

// stopHooks lets calls under way end, for as long as a shutdown may take.
func (a *App) stopHooks() {
	ctx, cancel := context.WithTimeout(context.Background(), a.ShutdownGrace)
	defer cancel()
	if err := a.hooks.Shutdown(ctx); err != nil {
		_ = a.hooks.Close() // they are cut off
	}
}

// Close waits for the attempts under way and closes the store. Run does it by
// itself.
func (a *App) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), a.ShutdownGrace)
	defer cancel()
	a.dispatcher.Close(ctx)
	a.server.Close(ctx)
	a.store.Close()
}
