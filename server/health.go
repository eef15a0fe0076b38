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

// serving is what the health service says of each service, and under the empty name of
// all: it serves while the ledger answers and the process is not leaving. It is safe
// for concurrent use.
type serving struct {
	*health.Server
	draining context.Context // ends when those who watch are sent away

	mu    sync.Mutex
	away  bool     // the ledger
	names []string // of services that need the ledger, and the empty one
}

func newServing(draining context.Context) *serving {
	s := &serving{Server: health.NewServer(), draining: draining, names: []string{""}}
	s.tell()
	return s
}

// Watch implements the health service. Whoever watches is told that the process is
// leaving and watches on, until it takes no more calls: then the watch ends, since an
// orderly stop waits for all that is under way.
func (s *serving) Watch(in *healthpb.HealthCheckRequest, stream healthpb.Health_WatchServer) error {
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

// needsLedger reports whether a service is of no use without the ledger. The catalogue
// is in memory, and so is health.
func needsLedger(service string) bool {
	return service != oncewardv1.CatalogService_ServiceDesc.ServiceName && service != healthpb.Health_ServiceDesc.ServiceName
}

// add makes services known, those that health checks may name.
func (s *serving) add(service string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if needsLedger(service) {
		s.names = append(s.names, service)
	} else {
		s.SetServingStatus(service, healthpb.HealthCheckResponse_SERVING)
	}
	s.tell()
}

// ledger says whether the ledger answers.
func (s *serving) ledger(answers bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = !answers
	s.tell()
}

// tell is called with mu held. Once the health server is shut down it changes nothing.
func (s *serving) tell() {
	status := healthpb.HealthCheckResponse_SERVING
	if s.away {
		status = healthpb.HealthCheckResponse_NOT_SERVING
	}
	for _, name := range s.names {
		s.SetServingStatus(name, status)
	}
}

// LedgerAnswers tells health checks, and those who watch them, whether the ledger
// answers. Until it is called it does: the server was made on one that did.
func (s *Server) LedgerAnswers(answers bool) { s.health.ledger(answers) }

// Leave tells health checks that this server is going away, so that nothing new is
// sent here. Calls are served on: Drain ends that.
func (s *Server) Leave() { s.health.Shutdown() }
