package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/stats"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/optrace"
	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// Ledger is what the server needs of the store. The errors are those of the
// ledger package.
type Ledger interface {
	Open(ctx context.Context, o ledger.Opening) (op ledger.Operation, created bool, err error)
	Correct(ctx context.Context, existing ledger.Operation, o ledger.Opening) (ledger.Operation, error)
	Apply(ctx context.Context, c ledger.Change) (ledger.Operation, error)
	Get(ctx context.Context, tenant, id string) (ledger.Operation, error)
	GetByKey(ctx context.Context, tenant, key string) (ledger.Operation, error)
	Buried(ctx context.Context, tenant, key string) (bool, error)
	List(ctx context.Context, tenant string, f ledger.Filter, before string, limit int) ([]ledger.Operation, error)
	Poll(ctx context.Context, waited []ledger.Waited) ([]ledger.Operation, error)
	BudgetUse(ctx context.Context, tenant string, charges []ledger.Charge, without string) ([]ledger.BudgetUse, error)
	IntentHolder(ctx context.Context, tenant string, fences []ledger.Fence, distinctFrom string) (*ledger.IntentHeldError, error)
	Deny(ctx context.Context, d ledger.Denial) error
	Review(ctx context.Context, tenant, id string) (ledger.Review, string, error)
	OpenReviews(ctx context.Context, tenant, after string, limit int) ([]ledger.OpenReview, error)
	AddApproval(ctx context.Context, tenant, reviewID string, a ledger.Approval) (ledger.Review, error)
	RestoreOf(ctx context.Context, tenant, actionType string) (*ledger.Restore, error)
	Rebind(ctx context.Context, tenant, reviewID, policyVersion string, required int, detail string) (ledger.Review, error)
	Statistics
	Observer
	Record
	Switches
}

// Dispatcher is what the server needs of dispatch.
type Dispatcher interface {
	Prepare(action *actions.Action, tenant, operationID string, epoch int, args actions.Arguments) (dispatch.Prepared, error)
	Admit(tenant string, action *actions.Action) error
	Reserve(provider string) (release func(), err error)
	Go(p dispatch.Prepared, op ledger.Operation, claimed time.Time, release func())
	Hasten(op ledger.Operation)
	StoredArguments(ctx context.Context, op ledger.Operation) (actions.Arguments, error)
}

var _ Dispatcher = (*dispatch.Dispatcher)(nil)

// Sealer encrypts arguments for the ledger.
type Sealer interface {
	Seal(plain []byte, tenant, operationID string) ([]byte, error)
}

// Options configure a Server. All before Credentials are required.
type Options struct {
	Ledger        Ledger
	Dispatcher    Dispatcher
	Registry      *actions.Registry
	Sealer        Sealer
	Authenticator Authenticator
	// Policies returns the policy of a tenant that is in force now.
	Policies func(tenant string) *policy.Policy
	Log      *slog.Logger
	// SignReceipt makes the signed statement of an operation's receipt; nil signs
	// none.
	SignReceipt func(op ledger.Operation) (string, error)
	// Credentials are the transport's; nil is plain text, for loopback only.
	Credentials credentials.TransportCredentials
	// Metrics is told what is done with requests; nil: nobody is.
	Metrics Metrics
	// Tracers make the spans below those that StatsHandlers make; nil: there are
	// none.
	Tracers trace.TracerProvider
	// Limits bound connections and calls that do not get on.
	Limits Limits
	// StatsHandlers are told of every call: traces and metrics. The payload of an
	// answer from memory is a message that holds the API's, not that itself.
	StatsHandlers []stats.Handler
	// ReplayBytes bounds the memory of succeeded operations, from which
	// duplicates are answered without the ledger; zero is 16 MiB, less is none.
	ReplayBytes int
}

// Server is Onceward's gRPC service. It is safe for concurrent use.
type Server struct {
	Options
	oncewardv1.UnimplementedActionServiceServer
	oncewardv1.UnimplementedCatalogServiceServer
	oncewardv1.UnimplementedReviewServiceServer
	oncewardv1.UnimplementedStatsServiceServer
	oncewardv1.UnimplementedAuditServiceServer
	oncewardv1.UnimplementedPolicyServiceServer
	terms      terms
	waiters    *waiters
	replays    *replays
	duplicates *duplicates
	tallies    *tallies
	fates      *fates
	denials    *denials
	spans      optrace.Tracer
	health     *health.Server
	draining   context.Context // ends when the server is going away
	drain      context.CancelFunc
	serving    serving
}

// New makes a server.
func New(o Options) *Server {
	draining, drain := context.WithCancel(context.Background())
	if o.Metrics == nil {
		o.Metrics = unmeasured{}
	}
	s := &Server{
		Options: o, waiters: newWaiters(o.Ledger.Poll, o.Log), replays: newReplays(o.ReplayBytes), health: health.NewServer(),
		tallies: newTallies(o.Ledger.AddTallies, o.Log), fates: newFates(), duplicates: newDuplicates(),
		denials:  newDenials(o.Ledger.Deny, o.Log),
		spans:    optrace.New(o.Tracers, "github.com/onceward/onceward/server"),
		draining: draining, drain: drain,
	}
	s.tallies.metrics, s.denials.metrics = o.Metrics, o.Metrics
	return s
}

// Changed tells the callers that wait for an operation of its new state, and
// remembers it for duplicates. It does not block.
func (s *Server) Changed(op ledger.Operation) {
	// In this order: who was told asks again at once.
	s.replays.observe(&op)
	s.waiters.publish(&op)
}

// Run wakes callers that wait for operations of other replicas, forgets replays
// that have ended, writes what was counted and who was refused, until ctx ends.
func (s *Server) Run(ctx context.Context) {
	var work sync.WaitGroup
	work.Go(func() { s.waiters.run(ctx) })
	work.Go(func() { s.replays.run(ctx) })
	work.Go(func() { s.tallies.run(ctx) })
	work.Go(func() { s.denials.run(ctx) })
	work.Wait()
}

// Close writes what was counted, and who was refused, since Run ended: by the
// calls that were under way then. Nothing may call the server any more.
func (s *Server) Close(ctx context.Context) {
	s.tallies.flush(ctx)
	s.denials.last(ctx)
}

// Drain tells health checks that this server is going away, and answers the
// calls that wait: their operations go on.
func (s *Server) Drain() {
	s.Leave()
	s.drain()
}

// GRPC makes the gRPC server with all services, health and reflection.
func (s *Server) GRPC() *grpc.Server {
	options := append(s.Limits.options(),
		grpc.UnaryInterceptor(s.unary),
		grpc.StreamInterceptor(s.stream),
		grpc.ForceServerCodecV2(newCodec()),
	)
	for _, handler := range s.StatsHandlers {
		options = append(options, grpc.StatsHandler(handler))
	}
	if s.Credentials != nil {
		options = append(options, grpc.Creds(handshakes{s.Credentials, s.denials}))
	}
	g := grpc.NewServer(options...)
	oncewardv1.RegisterActionServiceServer(g, s)
	oncewardv1.RegisterCatalogServiceServer(g, s)
	oncewardv1.RegisterReviewServiceServer(g, s)
	oncewardv1.RegisterStatsServiceServer(g, s)
	oncewardv1.RegisterAuditServiceServer(g, s)
	oncewardv1.RegisterPolicyServiceServer(g, s)
	healthpb.RegisterHealthServer(g, healthService{s.health, s.draining})
	for name := range g.GetServiceInfo() {
		s.addToHealth(name)
	}
	reflection.Register(g)
	return g
}
