package grpcaction

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/stats"

	"github.com/onceward/onceward/actions"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	service := oncewardv1.AdapterService_ServiceDesc.ServiceName
	for name, tt := range map[string]struct {
		set  map[string]healthpb.HealthCheckResponse_ServingStatus
		want string // part of the error; "" is healthy
	}{
		"the service serves":          {map[string]healthpb.HealthCheckResponse_ServingStatus{service: healthpb.HealthCheckResponse_SERVING, "": healthpb.HealthCheckResponse_NOT_SERVING}, ""},
		"the service does not":        {map[string]healthpb.HealthCheckResponse_ServingStatus{service: healthpb.HealthCheckResponse_NOT_SERVING}, "NOT_SERVING"},
		"not listed, process serves":  {nil, ""},
		"not listed, nor the process": {map[string]healthpb.HealthCheckResponse_ServingStatus{"": healthpb.HealthCheckResponse_NOT_SERVING}, "NOT_SERVING"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := grpc.NewServer(grpc.Creds(insecure.NewCredentials()))
			h := health.NewServer()
			for service, s := range tt.set {
				h.SetServingStatus(service, s)
			}
			healthpb.RegisterHealthServer(server, h)
			listener := listen(t)
			go func() { _ = server.Serve(listener) }() // ends with Stop
			t.Cleanup(server.Stop)
			err := connect(t, Options{Address: listener.Addr().String()}).Health(t.Context())
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	address := serve(t, nil)
	if err := connect(t, Options{Address: address}).Health(t.Context()); err == nil {
		t.Error("a server without the health service is healthy")
	}
	if err := connect(t, Options{Address: "127.0.0.1:1"}).Health(t.Context()); err == nil {
		t.Error("nobody is healthy")
	}
}

// TestDescribeWaits: the adapter may start after its client.
func TestDescribeWaits(t *testing.T) {
	t.Parallel()
	for range 5 {
		if describedLate(t) {
			return
		}
	}
	t.Fatal("each port was taken by somebody else in between")
}

// describedLate starts an adapter at an address that a client waits for. It
// reports false where somebody else took the port meanwhile.
func describedLate(t *testing.T) bool {
	t.Helper()
	listener := listen(t)
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	c := connect(t, Options{Address: address, DescribeTimeout: patience})
	described := make(chan error, 1)
	go func() { _, err := c.Describe(t.Context()); described <- err }()
	if c.Health(t.Context()) == nil { // it has been tried, in vain
		t.Fatal("healthy, but nobody listens")
	}
	late, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	server := grpc.NewServer()
	oncewardv1.RegisterAdapterServiceServer(server, &peer{})
	go func() { _ = server.Serve(late) }() // ends with Stop
	t.Cleanup(server.Stop)
	if err := <-described; err != nil {
		t.Error(err)
	}
	if _, err := connect(t, Options{Address: "127.0.0.1:1", DescribeTimeout: 50 * time.Millisecond}).Describe(t.Context()); err == nil {
		t.Error("described by nobody")
	}
	return true
}

// TestStatsHandlers: who watches sees the calls, and what is known of them does
// not depend on it.
func TestStatsHandlers(t *testing.T) {
	t.Parallel()
	p := &peer{}
	seen := &counter{}
	a := adapterAt(t, Options{Address: serve(t, p), StatsHandlers: []stats.Handler{seen}})
	if o := a.Execute(t.Context(), callOf(t, `{}`)); o.Kind != actions.Applied || seen.calls.Load() != 1 {
		t.Errorf("got %s, %d calls seen", shownOutcome(o), seen.calls.Load())
	}
}

// counter counts calls.
type counter struct {
	watch
	calls atomic.Int32
}

func (c *counter) HandleRPC(_ context.Context, event stats.RPCStats) {
	if _, ok := event.(*stats.Begin); ok {
		c.calls.Add(1)
	}
}
