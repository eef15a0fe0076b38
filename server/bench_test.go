package server

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

const refundType = "payments.refund.create"

// refunds is an action type with a provider that answers at once.
type refunds struct{}

func (refunds) Spec() actions.Spec {
	return actions.Spec{
		Type: refundType, Version: "1", AdvisoryArgs: []string{"reason"},
		Contract: actions.Contract{Provider: "fakepay", Version: "1"},
		Schema: json.RawMessage(`{
			"type": "object", "additionalProperties": false, "required": ["charge_id", "amount", "currency"],
			"properties": {
				"charge_id": {"type": "string", "minLength": 1, "maxLength": 100, "pattern": "^[A-Za-z0-9_-]+$"},
				"amount": {"type": "integer", "minimum": 1, "maximum": 999999999999},
				"currency": {"type": "string", "pattern": "^[a-z]{3}$"},
				"reason": {"type": "string", "maxLength": 500}
			}}`),
	}
}
func (refunds) Validate(actions.Arguments) error { return nil }
func (refunds) Execute(context.Context, actions.Call) actions.Outcome {
	return actions.Outcome{Kind: actions.Applied, Receipt: actions.Receipt{
		Reference: "re_1", JSON: json.RawMessage(`{"id":"re_1","charge_id":"ch_1010","amount":1250,"currency":"usd","status":"succeeded"}`),
	}}
}

// memoryLedger is a ledger that claims and settles at once.
type memoryLedger struct {
	Ledger
	window time.Duration

	mu     sync.Mutex
	byKey  map[[2]string]ledger.Operation
	opens  int
	reads  int
	broken error // what every call fails with, if set
}

func newMemoryLedger() *memoryLedger {
	return &memoryLedger{window: 24 * time.Hour, byKey: map[[2]string]ledger.Operation{}}
}

func (m *memoryLedger) Open(_ context.Context, o ledger.Opening) (ledger.Operation, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opens++
	if m.broken != nil {
		return ledger.Operation{}, false, m.broken
	}
	op, taken := m.byKey[[2]string{o.Operation.Tenant, o.Operation.Key}]
	switch {
	case taken && (op.ActionType != o.Operation.ActionType || op.ArgsHash != o.Operation.ArgsHash):
		return ledger.Operation{}, false, &ledger.KeyReusedError{Existing: op}
	case taken:
		return op, false, nil
	}
	op = o.Operation
	op.State, op.Attempt, op.Revision, op.Effect = ledger.Running, 1, 1, ledger.EffectUnknown
	op.CreatedAt = time.Now().UTC()
	op.UpdatedAt = op.CreatedAt
	m.byKey[[2]string{op.Tenant, op.Key}] = op
	return op, true, nil
}

func (m *memoryLedger) Apply(_ context.Context, c ledger.Change) (ledger.Operation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		return ledger.Operation{}, m.broken
	}
	op := c.Operation
	op.State, _ = ledger.Next(op.State, c.Event)
	op.Effect, op.Receipt, op.ProviderReference, op.Failure = c.Effect, c.Receipt, c.ProviderReference, c.Failure
	op.UpdatedAt = time.Now().UTC()
	op.WindowEndsAt = op.UpdatedAt.Add(m.window)
	op.Revision++
	m.byKey[[2]string{op.Tenant, op.Key}] = op
	return op, nil
}

func (m *memoryLedger) GetByKey(_ context.Context, tenant, key string) (ledger.Operation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	if m.broken != nil {
		return ledger.Operation{}, m.broken
	}
	if op, ok := m.byKey[[2]string{tenant, key}]; ok {
		return op, nil
	}
	return ledger.Operation{}, ledger.ErrNotFound
}

// Deny drops it: the audit record is not what these tests are about.
func (*memoryLedger) Deny(context.Context, ledger.Denial) error { return nil }

func (m *memoryLedger) Poll(_ context.Context, waited []ledger.Waited) (news []ledger.Operation, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, op := range m.byKey {
		for _, w := range waited {
			if op.Tenant == w.Tenant && op.ID == w.ID && op.Revision > w.Revision {
				news = append(news, op)
			}
		}
	}
	return news, m.broken
}

// The rest of dispatch.Ledger is for what an attempt that succeeds at once does
// not do.
type memoryDispatchLedger struct {
	dispatch.Ledger
	*memoryLedger
}

func (m memoryDispatchLedger) Apply(ctx context.Context, c ledger.Change) (ledger.Operation, error) {
	return m.memoryLedger.Apply(ctx, c)
}

func (m memoryDispatchLedger) Get(context.Context, string, string) (ledger.Operation, error) {
	return ledger.Operation{}, ledger.ErrNotFound
}

// plain seals nothing.
type plain struct{ seals *int }

func (p plain) Seal(text []byte, _, _ string) ([]byte, error) {
	if p.seals != nil {
		*p.seals++
	}
	return text, nil
}
func (p plain) Unseal(sealed []byte, _, _ string) ([]byte, error) { return sealed, nil }

// bearerIsTenant takes the token for the tenant.
type bearerIsTenant struct{}

func (bearerIsTenant) Authenticate(_ context.Context, c Credential) (policy.Principal, error) {
	return policy.Principal{Tenant: c.Token, Actor: "planner", Roles: []policy.Role{policy.Agent}}, nil
}

// newFastServer makes a server on a ledger in memory with a provider that
// answers at once.
func newFastServer(t testing.TB, book *memoryLedger, log *slog.Logger, change func(*Options)) *Server {
	t.Helper()
	return newFastServerOf(t, refunds{}, book, log, change)
}

func newFastServerOf(t testing.TB, adapter actions.Adapter, book *memoryLedger, log *slog.Logger, change func(*Options)) *Server {
	t.Helper()
	registry, err := actions.NewRegistry(adapter)
	if err != nil {
		t.Fatal(err)
	}
	var s *Server
	d, err := dispatch.New(dispatch.Options{
		Ledger: memoryDispatchLedger{memoryLedger: book}, Registry: registry, Sealer: plain{}, Secret: make([]byte, 32), Log: log,
		Changed: func(op ledger.Operation) { s.Changed(op) },
	})
	if err != nil {
		t.Fatal(err)
	}
	options := Options{Ledger: book, Dispatcher: d, Registry: registry, Sealer: plain{}, Authenticator: bearerIsTenant{}, Policies: policy.AllowAll().For, Log: log}
	if change != nil {
		change(&options)
	}
	s = New(options)
	t.Cleanup(func() { d.Close(context.WithoutCancel(t.Context())) })
	return s
}

func refundRequest(key, arguments string) *oncewardv1.RequestActionRequest {
	return &oncewardv1.RequestActionRequest{
		ActionType: refundType, IdempotencyKey: key,
		ArgumentsForm: &oncewardv1.RequestActionRequest_ArgumentsJson{ArgumentsJson: arguments},
		Run:           &oncewardv1.RunContext{RunId: "run_8f2", StepId: "refund", Attempt: 1},
	}
}

const refundArguments = `{"charge_id":"ch_1010","amount":1250,"currency":"usd","reason":"the customer asked for it"}`

// call goes the way of a request: interceptor and handler.
func call(ctx context.Context, s *Server, tenant string, req *oncewardv1.RequestActionRequest) (*oncewardv1.RequestActionResponse, error) {
	ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("authorization", "Bearer "+tenant))
	return callIn(ctx, s, req)
}

func callIn(ctx context.Context, s *Server, req *oncewardv1.RequestActionRequest) (*oncewardv1.RequestActionResponse, error) {
	info := &grpc.UnaryServerInfo{FullMethod: oncewardv1.ActionService_RequestAction_FullMethodName}
	resp, err := s.unary(ctx, req, info, func(ctx context.Context, req any) (any, error) {
		return s.RequestAction(ctx, req.(*oncewardv1.RequestActionRequest))
	})
	if encoded, ok := resp.(*encodedAnswer); ok {
		return encoded.RequestActionResponse, err
	}
	answer, _ := resp.(*oncewardv1.RequestActionResponse)
	return answer, err
}

// BenchmarkRequestAction is a whole request without its transport: one that is
// answered from memory, and one that is claimed and made.
func BenchmarkRequestAction(b *testing.B) {
	log := slog.New(slog.NewJSONHandler(io.Discard, nil))
	ctx := metadata.NewIncomingContext(b.Context(), metadata.Pairs("authorization", "Bearer acme"))
	ask := func(b *testing.B, s *Server, req *oncewardv1.RequestActionRequest, replayed bool) {
		b.Helper()
		resp, err := callIn(ctx, s, req)
		if err != nil || resp.GetReplayed() != replayed {
			b.Fatalf("got %v, %v", resp, err)
		}
	}
	args, err := structpb.NewStruct(map[string]any{"charge_id": "ch_1010", "amount": 1250, "currency": "usd", "reason": "the customer asked for it"})
	if err != nil {
		b.Fatal(err)
	}
	asStruct := refundRequest("key-1", "")
	asStruct.ArgumentsForm = &oncewardv1.RequestActionRequest_Arguments{Arguments: args}
	for name, req := range map[string]*oncewardv1.RequestActionRequest{"replay": refundRequest("key-1", refundArguments), "replay, struct": asStruct} {
		b.Run(name, func(b *testing.B) {
			s := newFastServer(b, newMemoryLedger(), log, nil)
			ask(b, s, req, false)
			b.ReportAllocs()
			for b.Loop() {
				ask(b, s, req, true)
			}
		})
	}
	b.Run("new", func(b *testing.B) {
		s := newFastServer(b, newMemoryLedger(), log, nil)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			i++
			ask(b, s, refundRequest(strconv.Itoa(i), refundArguments), false)
		}
	})
}

// BenchmarkCall is a whole call over gRPC, its client included: count its
// allocations, not its time.
func BenchmarkCall(b *testing.B) {
	s := newFastServer(b, newMemoryLedger(), quiet(), nil)
	listener, server := bufconn.Listen(1<<20), s.GRPC()
	go func() { _ = server.Serve(listener) }()
	b.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return listener.Dial() }))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	client := oncewardv1.NewActionServiceClient(conn)
	ctx := metadata.AppendToOutgoingContext(b.Context(), "authorization", "Bearer acme")
	ask := func(b *testing.B, key string, replayed bool) {
		b.Helper()
		resp, err := client.RequestAction(ctx, refundRequest(key, refundArguments))
		if err != nil || resp.GetReplayed() != replayed {
			b.Fatalf("got %v, %v", resp, err)
		}
	}
	b.Run("replay", func(b *testing.B) {
		ask(b, "key-1", false)
		b.ReportAllocs()
		for b.Loop() {
			ask(b, "key-1", true)
		}
	})
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			i++
			ask(b, "new-"+strconv.Itoa(i), false)
		}
	})
}
