package server

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// serving is what the health service says of the services that need the ledger, and
// under the empty name of all: they serve while it answers and the process is not
// leaving. The zero value has a ledger that answers. It is safe for concurrent use.
type serving struct {
	mu    sync.Mutex
	away  bool // the ledger
	names []string
}

// needsLedger reports whether a service is of no use without the ledger. The catalogue
// is in memory, and so is health.
func needsLedger(service string) bool {
	return service != oncewardv1.CatalogService_ServiceDesc.ServiceName && service != healthpb.Health_ServiceDesc.ServiceName
}

// addToHealth makes a service known to health checks.
func (s *Server) addToHealth(service string) {
	if !needsLedger(service) {
		s.health.SetServingStatus(service, healthpb.HealthCheckResponse_SERVING)
		return
	}
	s.serving.mu.Lock()
	defer s.serving.mu.Unlock()
	s.serving.names = append(s.serving.names, service)
	s.tellHealth()
}

// LedgerAnswers tells health checks, and those who watch them, whether the ledger
// answers. Until it is called it does: the server was made on one that did.
func (s *Server) LedgerAnswers(answers bool) {
	s.serving.mu.Lock()
	defer s.serving.mu.Unlock()
	s.serving.away = !answers
	s.tellHealth()
}

// tellHealth is called with serving.mu held. Once the server leaves it changes nothing.
func (s *Server) tellHealth() {
	state := healthpb.HealthCheckResponse_SERVING
	if s.serving.away {
		state = healthpb.HealthCheckResponse_NOT_SERVING
	}
	s.health.SetServingStatus("", state)
	for _, name := range s.serving.names {
		s.health.SetServingStatus(name, state)
	}
}

// Leave tells health checks that this server is going away, so that nothing new is
// sent here. Calls are served on: Drain ends that.
func (s *Server) Leave() { s.health.Shutdown() }

// healthService is the health service, whose watches end.
type healthService struct {
	*health.Server
	draining context.Context // ends when those who watch are sent away
}

// Watch implements the health service. Whoever watches is told that the process is
// leaving and watches on, until it takes no more calls: then the watch ends, since an
// orderly stop waits for all that is under way.
func (s healthService) Watch(in *healthpb.HealthCheckRequest, stream healthpb.Health_WatchServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(s.draining, cancel)()
	err := s.Server.Watch(in, endingWatch{stream, ctx})
	if s.draining.Err() != nil && stream.Context().Err() == nil {
		return status.Error(codes.Unavailable, "the server is going away")
	}
	return err
}

// endingWatch is a watch with an end of its own.
type endingWatch struct {
	healthpb.Health_WatchServer
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (w endingWatch) Context() context.Context { return w.ctx }
