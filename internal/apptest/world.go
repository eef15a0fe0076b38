package apptest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/apikey"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/policies"
	"github.com/onceward/onceward/internal/secrets"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// Patience is how long tests wait for something that must come.
const Patience = 30 * time.Second

// Options say what a world is like. The zero value is a well-behaved provider,
// the demo actions with short settle times, and a database on the shared server.
type Options struct {
	Provider fakeprovider.Options
	Demo     demo.Options // ProviderURL and Token are filled in
	// Adapters are registered beside the demo ones, in this process only.
	Adapters []actions.Adapter
	// Policies are files with tenants' policies, by name ("acme.yaml"), in
	// [World.PolicyDir]; without any every agent may request everything. Replicas
	// take changes over within 20 ms.
	Policies map[string]string
	// Database, when set, is used instead of a new one.
	Database *ledgertest.Database
}

// World is what stays when Onceward processes come and go: a database, secrets,
// a provider and credentials.
type World struct {
	Options
	Provider       *fakeprovider.Provider
	ProviderServer *fakeprovider.Server
	Database       ledgertest.Database
	SecretsDir     string
	PolicyDir      string // empty without policies
	// Credentials of acme: two agents, two reviewers, an administrator; and an
	// agent of globex.
	Agent, SecondAgent, Reviewer, SecondReviewer, Admin, Globex string

	owner *postgres.Store
}

// New makes a world that ends with the test.
func New(t testing.TB, o Options) *World {
	t.Helper()
	w := &World{Options: o, Provider: fakeprovider.New(o.Provider), SecretsDir: filepath.Join(t.TempDir(), "secrets")}
	var err error
	if w.ProviderServer, err = fakeprovider.Start(w.Provider, "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.ProviderServer.Close(); err != nil {
			t.Errorf("fake provider: %v", err)
		}
	})
	if o.Database != nil {
		w.Database = *o.Database
	} else {
		w.Database = ledgertest.NewDatabase(t)
	}
	w.Database.Exec(t, demo.NotesTable())
	if err := secrets.Create(w.SecretsDir); err != nil {
		t.Fatal(err)
	}
	if o.Policies != nil {
		w.PolicyDir = t.TempDir()
		for name, text := range o.Policies {
			w.WritePolicy(t, name, text)
		}
	}
	if w.owner, err = postgres.Open(t.Context(), w.Database.OwnerURL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.owner.Close)
	w.Options.Demo = demoOptions(o.Demo, w.ProviderServer.URL())
	w.Agent = w.Key(t, "acme", "planner", "agent")
	w.SecondAgent = w.Key(t, "acme", "planner-2", "agent")
	w.Reviewer = w.Key(t, "acme", "rita", "reviewer", "auditor")
	w.SecondReviewer = w.Key(t, "acme", "sam", "reviewer")
	w.Admin = w.Key(t, "acme", "ada", "admin")
	w.Globex = w.Key(t, "globex", "planner", "agent")
	return w
}

// demoOptions fills in what tests want short.
func demoOptions(o demo.Options, providerURL string) demo.Options {
	o.ProviderURL, o.Token = providerURL, fakeprovider.DefaultToken
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if o.MailSettleTime == 0 {
		o.MailSettleTime = 300 * time.Millisecond
	}
	if o.ArrivalTime == 0 {
		o.ArrivalTime = 100 * time.Millisecond
	}
	if o.ReadGap == 0 {
		o.ReadGap = 50 * time.Millisecond
	}
	return o
}

// WritePolicy changes the policy in a file, or makes one. Replicas read it soon.
func (w *World) WritePolicy(t testing.TB, name, text string) {
	t.Helper()
	// In one step: a replica must not read half of it.
	path := filepath.Join(w.PolicyDir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// Key makes a credential, and its tenant when there is none.
func (w *World) Key(t testing.TB, tenant, actor string, roles ...string) string {
	t.Helper()
	key := apikey.New(tenant)
	hash := key.Hash()
	if err := w.owner.CreateTenant(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	if err := w.owner.AddCredential(t.Context(), postgres.Credential{Tenant: tenant, KeyID: key.ID, Hash: hash[:], Actor: actor, Roles: roles}); err != nil {
		t.Fatal(err)
	}
	return key.Text()
}

// Owner is a store with the rights of the schema's owner, for assertions and
// for what the serving role may not do.
func (w *World) Owner() *postgres.Store { return w.owner }

// Replica is a running Onceward with clients on it.
type Replica struct {
	Address string
	Actions oncewardv1.ActionServiceClient
	Reviews oncewardv1.ReviewServiceClient
	Catalog oncewardv1.CatalogServiceClient
	Audit   oncewardv1.AuditServiceClient
	Stats   oncewardv1.StatsServiceClient
	Policy  oncewardv1.PolicyServiceClient
	Conn    *grpc.ClientConn
	stop    func()
}

// Stop ends the replica in order, and waits for it. Doing it twice is harmless.
func (r *Replica) Stop() { r.stop() }

// Start runs a replica in this process: API and reconciler, with rounds every
// 20 ms. change may alter its configuration; a replica without a listener has
// no clients.
func (w *World) Start(t testing.TB, change func(*app.Config)) *Replica {
	t.Helper()
	adapters, err := demo.New(w.Options.Demo)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := actions.NewRegistry(append(adapters, w.Adapters...)...)
	if err != nil {
		t.Fatal(err)
	}
	config, watch, err := configure(t.Context(), w.Database.ServeURL, w.SecretsDir, w.PolicyDir, registry, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&config)
	}
	service, err := app.New(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() {
		var watching sync.WaitGroup
		watching.Go(func() { watch(ctx) })
		err := service.Run(ctx)
		cancel()
		watching.Wait()
		done <- err
	}()
	r := &Replica{}
	if config.Listener != nil {
		r = connect(t, config.Listener.Addr().String())
	}
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("replica: %v", err)
		}
	}
	t.Cleanup(r.stop)
	return r
}

// configure is the configuration that replicas and children share.
// watch takes changes of policies over until its context ends.
func configure(ctx context.Context, databaseURL, secretsDir, policyDir string, registry *actions.Registry, log *slog.Logger) (c app.Config, watch func(context.Context), err error) {
	keys, err := secrets.Load(secretsDir)
	if err != nil {
		return app.Config{}, nil, err
	}
	inForce, watch := policy.AllowAll().For, func(context.Context) {}
	if policyDir != "" {
		opened, err := policies.Open(policies.Options{Paths: []string{policyDir}, Log: log, Interval: 20 * time.Millisecond})
		if err != nil {
			return app.Config{}, nil, err
		}
		inForce, watch = opened.For, opened.Watch
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return app.Config{}, nil, err
	}
	return app.Config{
		Policies:    inForce,
		DatabaseURL: databaseURL, Secrets: keys, Registry: registry, Log: log, Listener: listener,
		Reconcile: true, ReconcileInterval: 20 * time.Millisecond, ShutdownGrace: 10 * time.Second,
	}, watch, nil
}

func connect(t testing.TB, address string) *Replica {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &Replica{
		Address: address, Conn: conn, Actions: oncewardv1.NewActionServiceClient(conn),
		Reviews: oncewardv1.NewReviewServiceClient(conn), Catalog: oncewardv1.NewCatalogServiceClient(conn),
		Audit: oncewardv1.NewAuditServiceClient(conn), Stats: oncewardv1.NewStatsServiceClient(conn), Policy: oncewardv1.NewPolicyServiceClient(conn),
	}
}

// As returns a context that carries a credential.
func As(ctx context.Context, key string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
}

// WaitFor polls an operation of a tenant until it is in one of the states, and
// returns it with attempts and review. A test that waits in vain fails with
// what the ledger and the provider hold.
func (w *World) WaitFor(t testing.TB, tenant, id string, states ...ledger.State) ledger.Operation {
	t.Helper()
	var op ledger.Operation
	Eventually(t, func() bool {
		got, err := w.owner.Get(t.Context(), tenant, id)
		switch {
		case errors.Is(err, ledger.ErrUnavailable):
			return false // tests stop the database
		case err != nil:
			t.Fatal(err)
		}
		op = got
		for _, s := range states {
			if op.State == s {
				return true
			}
		}
		return false
	}, func() string {
		return "operation " + id + " is " + string(op.State) + " (" + op.Reason + "), wanted one of the states asked for; " + w.Describe()
	})
	return op
}

// Eventually polls until done, and fails the test with what was seen when it
// takes longer than Patience.
func Eventually(t testing.TB, done func() bool, seen func() string) {
	t.Helper()
	deadline := time.After(Patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("waited %s in vain: %s", Patience, seen())
		case <-tick.C:
		}
	}
}
