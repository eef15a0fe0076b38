package scenarios

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/chaos/edge"
	"github.com/onceward/onceward/chaos/pgcluster"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger/ledgertest"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// stage is a world whose parts meet over edges that can be broken.
type stage struct {
	*apptest.World
	edges                  *edge.Edges
	toProvider, toPostgres *edge.Edge
}

// newEdges makes edges that end with the test.
func newEdges(t *testing.T) *edge.Edges {
	t.Helper()
	edges, err := edge.New(slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(edges.Close)
	return edges
}

func openEdge(t *testing.T, edges *edge.Edges, name, upstream string) *edge.Edge {
	t.Helper()
	x, err := edges.Open(name, upstream)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// newStage makes a world on a database. A replica reaches the database at serveURL;
// the test, as the owner, on a way of its own. Everything that has a time is short.
func newStage(t *testing.T, edges *edge.Edges, db ledgertest.Database) *stage {
	t.Helper()
	s := &stage{edges: edges}
	s.World = apptest.New(t, apptest.Options{
		Database: &db,
		Demo: demo.Options{
			Timeout: time.Second,
			// The circuit breaker has tests of its own; here it would be what is timed.
			Protection: actions.Protection{Failures: 1000, OpenFor: 100 * time.Millisecond, RetryFloor: 1000},
		},
	})
	s.toProvider = openEdge(t, edges, "provider", s.ProviderServer.Addr())
	s.Options.Demo.ProviderURL = "http://" + s.toProvider.Address()
	return s
}

// onCluster makes a world on a cluster, and an edge in front of its primary that
// moves with it, as a virtual address does.
func onCluster(t *testing.T, c *pgcluster.Cluster) *stage {
	t.Helper()
	edges := newEdges(t)
	toPostgres := openEdge(t, edges, "postgres", c.Address())
	owner := openEdge(t, edges, "owner", c.Address())
	c.OnMove(func(address string) {
		for _, x := range []*edge.Edge{toPostgres, owner} {
			if err := x.SetUpstream(address); err != nil {
				t.Error(err)
			}
		}
	})
	s := newStage(t, edges, ledgertest.Database{
		ServeURL: c.ServeURLAt(toPostgres.Address()), OwnerURL: c.OwnerURLAt(owner.Address()),
	})
	s.toPostgres = toPostgres
	return s
}

// startCluster runs a cluster that ends with the test.
func startCluster(t *testing.T, o pgcluster.Options) *pgcluster.Cluster {
	t.Helper()
	o.Dir = folder(t)
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	c, err := pgcluster.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// hostOf is the host and port in a URL of Postgres's.
func hostOf(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// withHost is the URL by way of another address.
func withHost(t *testing.T, text, host string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = host
	return u.String()
}

// folder is one that the account of Postgres can reach, which t.TempDir is not when
// the tests run as root; in memory where there is such a place, since what a killed
// process has written is as safe there as on a disk.
func folder(t *testing.T) string {
	t.Helper()
	base := ""
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		base = "/dev/shm"
	}
	dir, err := os.MkdirTemp(base, "onceward-scenarios-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// replica starts a replica whose leases are short, and that reaches Postgres at url
// (empty: as the world does).
func (s *stage) replica(t *testing.T, url string) *apptest.Replica {
	t.Helper()
	return s.Start(t, func(c *app.Config) {
		if url != "" {
			c.DatabaseURL = url
		}
		c.LeaseGrace, c.ReconcileLease = 2*time.Second, 2*time.Second
	})
}

// through is a client of a replica that reaches it over an edge, and tries again soon.
func (s *stage) through(t *testing.T, x *edge.Edge) *apptest.Replica {
	t.Helper()
	conn, err := grpc.NewClient(x.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 100 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &apptest.Replica{Address: x.Address(), Conn: conn, Actions: oncewardv1.NewActionServiceClient(conn)}
}

// row is what the ledger and the target hold of one operation.
type row struct {
	State, Reference, Receipt string
	Notes                     int // effects in the ledger's own database
}

// judge waits until nothing is open any more, says how long that took, and looks at
// what is left. since is when the fault ended.
func (s *stage) judge(t *testing.T, l *load, since time.Time) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.Database.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	count := func(query string) (n int) {
		if err := conn.QueryRow(t.Context(), query).Scan(&n); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		return n
	}
	const open = `SELECT count(*) FROM operations WHERE status IN ('pending', 'running', 'unknown')`
	apptest.Eventually(t, func() bool { return count(open) == 0 }, func() string {
		return fmt.Sprintf("%d operations are stuck; %s", count(open), s.Describe())
	})
	took := time.Since(since).Round(time.Millisecond)

	held := map[string]row{}
	rows, err := conn.Query(t.Context(), `SELECT id::text, status, coalesce(provider_reference, ''), coalesce(result_json::text, ''),
		(SELECT count(*) FROM demo_notes n WHERE n.operation_id = o.id) FROM operations o`)
	if err != nil {
		t.Fatal(err)
	}
	var id string
	var r row
	if _, err := pgx.ForEachRow(rows, []any{&id, &r.State, &r.Reference, &r.Receipt, &r.Notes}, func() error { held[id] = r; return nil }); err != nil {
		t.Fatal(err)
	}
	effects := map[string]int{}
	for _, e := range s.Provider.Effects() {
		effects[e.OperationID]++
	}
	for id := range effects {
		if _, known := held[id]; !known {
			t.Errorf("something was sent for %s, which the ledger does not know; %s", id, s.Describe())
		}
	}
	for id, r := range held {
		effects[id] += r.Notes
		if n := effects[id]; n > 1 || (r.State == "succeeded") != (n == 1) && r.State != "needs_review" {
			t.Errorf("operation %s is %s and has %d effects; audit %v; %s", id, r.State, n, s.Trail(t, id), s.Describe())
		}
	}
	for id, told := range l.receipts() {
		r := held[id]
		if r.State != "succeeded" || effects[id] != 1 {
			t.Errorf("operation %s was confirmed; it is %s and has %d effects", id, r.State, effects[id])
		}
		if r.Receipt != told.GetJson() || r.Reference != told.GetProviderReference() {
			t.Errorf("a caller was told %v of operation %s; the ledger has %+v", told, id, r)
		}
	}
	for what, query := range map[string]string{
		"operations have other attempts than they count": `SELECT count(*) FROM operations o WHERE attempt <>
			(SELECT count(*) FROM attempts a WHERE a.tenant_id = o.tenant_id AND a.operation_id = o.id)`,
		"operations are elsewhere than their audit record ends": `SELECT count(*) FROM operations o WHERE status IS DISTINCT FROM
			(SELECT to_status FROM audit_events e WHERE e.tenant_id = o.tenant_id AND e.operation_id = o.id ORDER BY sequence DESC LIMIT 1)`,
	} {
		if n := count(query); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
	t.Logf("resolved %s after the fault ended; %s; %d ask a person", took, l, count(`SELECT count(*) FROM operations WHERE status = 'needs_review'`))
}
