package campaign

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/onceward/onceward/chaos/edge"
	"github.com/onceward/onceward/chaos/replica"
	"github.com/onceward/onceward/internal/crashpoint"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// member is a place for one replica after another, with its edges and the
// clients of its callers.
type member struct {
	world  *world
	name   string
	config replica.Config

	toCallers, toDatabase *edge.Edge
	pooled                bool // by way of PgBouncer
	log                   *os.File
	conn                  *grpc.ClientConn
	actions               oncewardv1.ActionServiceClient
	reviews               oncewardv1.ReviewServiceClient
	policy                oncewardv1.PolicyServiceClient

	busy sync.Mutex // one fault of the process at a time
	mu   sync.Mutex
	now  *replica.Process // nil before the first
	died []string         // how those before it ended, where nobody ended them
}

// prepare opens the edges.
func (m *member) prepare(ctx context.Context) error {
	w := m.world
	var err1, err2, err3 error
	url := w.cluster.ServeURLAt
	if m.pooled = m.pooled && w.cluster.PoolerAddress() != ""; m.pooled {
		m.toDatabase, err1 = w.edges.Open(m.name+"_pooler", w.cluster.PoolerAddress())
	} else {
		m.toDatabase, err1 = w.follow(ctx, m.name+"_postgres")
	}
	m.log, err2 = w.logFile(m.name)
	if m.config.API {
		m.toCallers, err3 = w.edges.Open(m.name+"_callers", "127.0.0.1:1") // until there is a replica
	}
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	m.config.Name, m.config.DatabaseURL, m.config.Demo = m.name, url(m.toDatabase.Address()), w.demoOptions()
	if m.pooled {
		// A statement that was prepared on one connection is not known on the next.
		m.config.DatabaseURL += "&default_query_exec_mode=cache_describe"
	}
	m.config.SecretsDir, m.config.PolicyDir, m.config.Sabotage = w.secretsDir, w.policyDir, w.Sabotage
	m.config.ReconcileInterval, m.config.ReconcileLease = 100*time.Millisecond, reconcileLease
	m.config.LeaseGrace, m.config.ShutdownGrace = leaseGrace, 4*time.Second
	if m.toCallers == nil {
		return nil
	}
	var err error
	m.conn, err = grpc.NewClient(m.toCallers.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(grpc.ConnectParams{
		Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, MaxDelay: 300 * time.Millisecond}, MinConnectTimeout: time.Second,
	}))
	if err != nil {
		return err
	}
	m.actions = oncewardv1.NewActionServiceClient(m.conn)
	m.reviews = oncewardv1.NewReviewServiceClient(m.conn)
	m.policy = oncewardv1.NewPolicyServiceClient(m.conn)
	return nil
}

// edge is its edge to a side; nil where it has none: a reconciler serves no callers.
func (m *member) edge(side string) *edge.Edge {
	if side == "callers" {
		return m.toCallers
	}
	return m.toDatabase
}

// start runs a replica in the place. The one before must be gone.
func (m *member) start(ctx context.Context) error {
	p, err := replica.Start(ctx, m.world.Program, m.config, m.log)
	if err != nil {
		return err
	}
	m.mu.Lock()
	if m.now != nil && m.now.Failure() != "" {
		m.died = append(m.died, m.name+": "+m.now.Failure())
	}
	m.now = p
	m.mu.Unlock()
	if m.toCallers == nil {
		return nil
	}
	return m.toCallers.SetUpstream(p.Address())
}

// mendPatience is how long mending something may take. What takes longer is no fault of
// the campaign's making any more, and is told.
const mendPatience = 3 * time.Minute

// restart starts a replica again until it is ready: the ledger may be away.
func (m *member) restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, mendPatience)
	defer cancel()
	for {
		err := m.start(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		m.world.Log.InfoContext(ctx, "a replica did not start, once more", "error", err)
	}
}

// process is the replica that runs there now.
func (m *member) process() *replica.Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// alive reports whether the replica runs.
func (m *member) alive() bool {
	p := m.process()
	if p == nil {
		return false
	}
	select {
	case <-p.Exited():
		return false
	default:
		return true
	}
}

// deaths are how its replicas ended, where nobody ended them.
func (m *member) deaths() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.Clone(m.died)
	if m.now != nil && m.now.Failure() != "" {
		all = append(all, m.name+": "+m.now.Failure())
	}
	return all
}

// crash arms a crash point, waits until the replica has died of it, or patience is
// over, and starts another one.
func (m *member) crash(ctx context.Context, at crashpoint.Point, patience time.Duration) (died bool, err error) {
	p := m.process()
	p.Arm(at)
	select {
	case <-p.Exited():
		return true, m.restart(ctx)
	case <-time.After(patience):
		p.Arm(crashpoint.None)
	case <-ctx.Done():
		p.Arm(crashpoint.None)
	}
	select {
	case <-p.Exited(): // at the last moment
		return true, m.restart(ctx)
	default:
		return false, nil
	}
}

func (m *member) close() {
	if p := m.process(); p != nil {
		p.Resume()
		p.Kill()
	}
	if m.conn != nil {
		_ = m.conn.Close()
	}
	if m.log != nil {
		_ = m.log.Close()
	}
}
