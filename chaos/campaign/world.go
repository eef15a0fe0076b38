package campaign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/chaos/edge"
	"github.com/onceward/onceward/chaos/pgcluster"
	"github.com/onceward/onceward/chaos/replica"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/apikey"
	"github.com/onceward/onceward/internal/secrets"
	"github.com/onceward/onceward/ledger/postgres"
)

// world is everything that the campaign runs, and what breaks it.
type world struct {
	Options
	provider *fakeprovider.Provider
	server   *fakeprovider.Server
	cluster  *pgcluster.Cluster
	edges    *edge.Edges
	// diskFills says that the disk of Postgres can fill up.
	diskFills bool
	steps     *os.File        // the log of faults
	owner     *postgres.Store // with the rights of the schema's owner, past all edges
	pool      *pgxpool.Pool   // the same, for questions
	stores    bool            // the payments provider replays failures too

	secretsDir, policyDir string
	keys                  map[string]credentials // by tenant
	members               []*member
	// toProvider is one for all replicas: its address is a part of what is sent, which
	// must be the same whoever sends it.
	toProvider *edge.Edge
}

// credentials are those of a tenant: two agents, a reviewer and an administrator.
type credentials struct {
	agents          [2]string
	reviewer, admin string
}

// newWorld makes all but the replicas. Close it, also where it fails.
func newWorld(ctx context.Context, o Options) (*world, error) {
	w := &world{
		Options: o, secretsDir: filepath.Join(o.Dir, "secrets"), policyDir: filepath.Join(o.Dir, "policies"),
		stores: stream(o.Seed, streamFaults, 1).IntN(2) == 0, keys: map[string]credentials{},
	}
	w.provider = fakeprovider.New(fakeprovider.Options{SearchLag: searchLag, StoreFailures: w.stores, MaxRequests: 5_000_000})
	var err error
	if w.server, err = fakeprovider.Start(w.provider, ""); err != nil {
		return w, err
	}
	if err := errors.Join(secrets.Create(w.secretsDir), writePolicies(w.policyDir)); err != nil {
		return w, err
	}
	if w.steps, err = w.logFile("faults"); err != nil {
		return w, err
	}
	quiet := o
	quiet.Log = slog.New(slog.NewTextHandler(w.steps, nil)) // what breaks and mends tells each step
	if w.edges, err = edge.New(quiet.Log); err != nil {
		return w, err
	}
	if w.cluster, w.diskFills, err = startPostgres(ctx, quiet); err != nil {
		return w, err
	}
	if w.toProvider, err = w.edges.Open("provider", w.server.Addr()); err != nil {
		return w, err
	}
	// By an edge that is never broken, and that follows the primary.
	unbroken, err := w.follow(ctx, "owner_postgres")
	if err != nil {
		return w, err
	}
	url := w.cluster.OwnerURLAt(unbroken.Address())
	if w.owner, err = postgres.Open(ctx, url); err != nil {
		return w, err
	}
	if w.pool, err = pgxpool.New(ctx, url); err != nil {
		return w, err
	}
	if _, err := w.pool.Exec(ctx, demo.NotesTable()); err != nil {
		return w, err
	}
	for _, tenant := range tenants() {
		if err := w.enrol(ctx, tenant); err != nil {
			return w, err
		}
	}
	return w, nil
}

// enrol makes a tenant and its credentials.
func (w *world) enrol(ctx context.Context, tenant string) error {
	if err := w.owner.CreateTenant(ctx, tenant); err != nil {
		return err
	}
	var made credentials
	for _, who := range []struct {
		actor, role string
		into        *string
	}{
		{"planner-1", "agent", &made.agents[0]}, {"planner-2", "agent", &made.agents[1]},
		{"rita", "reviewer", &made.reviewer}, {"ada", "admin", &made.admin},
	} {
		key := apikey.New(tenant)
		hash := key.Hash()
		err := w.owner.AddCredential(ctx, postgres.Credential{Tenant: tenant, KeyID: key.ID, Hash: hash[:], Actor: who.actor, Roles: []string{who.role}})
		if err != nil {
			return err
		}
		*who.into = key.Text()
	}
	w.keys[tenant] = made
	return nil
}

// begin starts the replicas: as many as were asked for serve callers, every second of
// them without a reconciler, the last one by way of a pooler, and one more only
// reconciles.
func (w *world) begin(ctx context.Context) error {
	for i := range w.Replicas + 1 {
		m := &member{
			world: w, name: fmt.Sprintf("replica-%d", i+1),
			config: replica.Config{API: i < w.Replicas, Reconcile: i == w.Replicas || i%2 == 0},
			pooled: i > 0 && i == w.Replicas-1,
		}
		if w.MetricsBase > 0 {
			m.config.Admin = net.JoinHostPort("127.0.0.1", strconv.Itoa(w.MetricsBase+i))
		}
		if !m.config.API {
			m.name = "reconciler"
		}
		w.members = append(w.members, m)
		if err := m.prepare(ctx); err != nil {
			return err
		}
		if err := m.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// serving are the members that serve callers.
func (w *world) serving() []*member { return w.members[:w.Replicas] }

// close ends everything.
func (w *world) close() {
	for _, m := range w.members {
		m.close()
	}
	if w.pool != nil {
		w.pool.Close()
	}
	if w.owner != nil {
		w.owner.Close()
	}
	if w.edges != nil {
		w.edges.Close()
	}
	if w.cluster != nil {
		w.cluster.Close()
	}
	if w.server != nil {
		_ = w.server.Close() // what it was working on is of no interest any more
	}
	if w.steps != nil {
		_ = w.steps.Close()
	}
}

// follow opens an edge to the primary, wherever it is.
func (w *world) follow(ctx context.Context, name string) (*edge.Edge, error) {
	l, err := w.edges.Open(name, w.cluster.Address())
	if err != nil {
		return nil, err
	}
	w.cluster.OnMove(func(address string) {
		if err := l.SetUpstream(address); err != nil {
			w.Log.ErrorContext(ctx, "an edge does not follow Postgres", "edge", name, "error", err)
		}
	})
	return l, nil
}

// forBody scripts what the provider does with the first writes whose body names
// something.
func (w *world) forBody(needle string, faults ...fakeprovider.Fault) {
	w.provider.ForMatch(func(_ *http.Request, body []byte) bool { return bytes.Contains(body, []byte(needle)) }, faults...)
}

// demoOptions is what replicas are told of the provider.
func (w *world) demoOptions() demo.Options {
	return demo.Options{
		ProviderURL: "http://" + w.toProvider.Address(), Token: fakeprovider.DefaultToken,
		Timeout: attemptTimeout, MailSettleTime: mailSettleTime, ArrivalTime: arrivalTime, LateLanding: lateLanding,
		ReadGap: 200 * time.Millisecond, StoresFailures: w.stores,
		// Half of all first tries fail here, which would use up any budget of retries.
		Protection: actions.Protection{Failures: 15, OpenFor: 500 * time.Millisecond, RetryShare: 100, RetryFloor: 10000},
	}
}

// logFile is where a replica's log goes.
func (w *world) logFile(name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(w.Dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}
