package grpcaction

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/onceward/onceward/actions"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// patience is how long tests wait for something that must come.
const patience = 20 * time.Second

// TestMain runs the tests, or, in a process that startChild made, an adapter.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(childMain())
	}
	os.Exit(m.Run())
}

// peer is an adapter process that does what a test tells it. It counts what
// reaches it: replies alone prove little.
type peer struct {
	oncewardv1.UnimplementedAdapterServiceServer

	describe func() *oncewardv1.DescribeResponse
	execute  func(context.Context, *oncewardv1.ExecuteRequest) (*oncewardv1.ExecuteResponse, error)
	lookup   func(context.Context, *oncewardv1.LookupRequest) (*oncewardv1.LookupResponse, error)

	mu      sync.Mutex
	arrived []*oncewardv1.ExecuteRequest
	looked  []*oncewardv1.LookupRequest
}

func (p *peer) Describe(context.Context, *oncewardv1.DescribeRequest) (*oncewardv1.DescribeResponse, error) {
	if p.describe == nil {
		return &oncewardv1.DescribeResponse{ActionTypes: []*oncewardv1.ActionTypeDescription{description()}}, nil
	}
	return p.describe(), nil
}

func (p *peer) Execute(ctx context.Context, r *oncewardv1.ExecuteRequest) (*oncewardv1.ExecuteResponse, error) {
	p.mu.Lock()
	p.arrived = append(p.arrived, r)
	p.mu.Unlock()
	if p.execute == nil {
		return applied(), nil
	}
	return p.execute(ctx, r)
}

func (p *peer) Lookup(ctx context.Context, r *oncewardv1.LookupRequest) (*oncewardv1.LookupResponse, error) {
	p.mu.Lock()
	p.looked = append(p.looked, r)
	p.mu.Unlock()
	if p.lookup == nil {
		return &oncewardv1.LookupResponse{}, nil
	}
	return p.lookup(ctx, r)
}

// executes returns how many attempts reached the handler.
func (p *peer) executes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.arrived)
}

// serve runs a gRPC server on loopback until the test ends.
func serve(t testing.TB, p oncewardv1.AdapterServiceServer, options ...grpc.ServerOption) (address string) {
	t.Helper()
	server := grpc.NewServer(append([]grpc.ServerOption{grpc.Creds(insecure.NewCredentials())}, options...)...)
	if p != nil {
		oncewardv1.RegisterAdapterServiceServer(server, p)
	}
	listener := listen(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends with Stop
	}()
	t.Cleanup(func() { server.Stop(); <-done })
	return listener.Addr().String()
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// connect makes a client that ends with the test.
func connect(t testing.TB, o Options) *Client {
	t.Helper()
	client, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// adapterAt returns the adapter of the usual description, without asking.
func adapterAt(t testing.TB, o Options) looker {
	t.Helper()
	spec, err := specOf(description())
	if err != nil {
		t.Fatal(err)
	}
	a, ok := connect(t, o).newAdapter(o.installed(spec), true).(looker)
	if !ok {
		t.Fatal("the adapter cannot look up")
	}
	return a
}

// description is of a valid action type with a look-up.
func description() *oncewardv1.ActionTypeDescription {
	return &oncewardv1.ActionTypeDescription{
		Name: "loyalty.points.grant", Version: "3", Description: "Grant points.", Owner: "loyalty",
		Risk:                oncewardv1.Risk_RISK_MEDIUM,
		ArgumentsSchemaJson: `{"type":"object"}`,
		KeyRecipe:           []*oncewardv1.KeyPart{{Name: "order", From: "arguments.order_id"}},
		CanLookUp:           true,
		Contract:            &oncewardv1.AdapterContract{Provider: "loyalty", Version: "7"},
	}
}

const goodReceipt = `{"id":"gr_1","points":49}`

func applied() *oncewardv1.ExecuteResponse {
	return answerOf(&oncewardv1.Outcome{
		Kind:    oncewardv1.OutcomeKind_OUTCOME_KIND_APPLIED,
		Receipt: &oncewardv1.Receipt{ProviderReference: "gr_1", Json: goodReceipt},
	})
}

func answerOf(o *oncewardv1.Outcome) *oncewardv1.ExecuteResponse {
	return &oncewardv1.ExecuteResponse{Outcome: o}
}

func callOf(t testing.TB, arguments string) actions.Call {
	t.Helper()
	args, err := actions.ParseArguments([]byte(arguments))
	if err != nil {
		t.Fatal(err)
	}
	return actions.Call{
		Tenant: "acme", OperationID: "0199f6f0-7c1e-7b1a-9d63-4f0a1b2c3d4e",
		ProviderKey: "0123456789abcdefghijklmnop", Arguments: args,
	}
}

// shownOutcome is an outcome in one line, for messages of tests.
func shownOutcome(o actions.Outcome) string {
	return fmt.Sprintf("%s %q %s %+v", o.Kind, o.Receipt.Reference, o.Receipt.JSON, o.Failure)
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
