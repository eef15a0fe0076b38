package guardgrpc_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/onceward/onceward/guard"
	"github.com/onceward/onceward/guard/guardgrpc"
	"github.com/onceward/onceward/internal/jws"
)

// service stands for one that writes: gRPC's own health service, whose methods
// are unary and stream.
type service struct {
	grpc_health_v1.UnimplementedHealthServer
	made atomic.Int32
	do   func(ctx context.Context) error
}

func (s *service) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	s.made.Add(1)
	if err := s.do(ctx); err != nil {
		return nil, err
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

func (s *service) Watch(_ *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	s.made.Add(1)
	if err := s.do(stream.Context()); err != nil {
		return err
	}
	return stream.Send(&grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING})
}

const (
	check = "/grpc.health.v1.Health/Check"
	watch = "/grpc.health.v1.Health/Watch"
	list  = "/grpc.health.v1.Health/List"
)

func key() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
}

func token(t *testing.T, change func(*guard.Claims)) string {
	t.Helper()
	now := time.Now()
	c := guard.Claims{
		Issuer: "urn:onceward:test", Audience: "billing", OperationID: "op-1", Tenant: "acme", ActionType: "health.check",
		ArgumentsHash: strings.Repeat("a", 64), Attempt: 1, ID: "op-1/1", IssuedAt: now.Unix(), ExpiresAt: now.Add(time.Minute).Unix(),
	}
	if change != nil {
		change(&c)
	}
	payload, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jws.Sign(key(), "one", guard.TokenType, payload)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func methods() guardgrpc.Methods {
	return guardgrpc.Methods{Writes: map[string][]string{check: {"health.check"}, watch: {"health.check"}}}
}

func newGuard(t *testing.T) *guard.Guard {
	t.Helper()
	set, err := jws.MarshalKeys([]jws.Key{{ID: "one", Public: ed25519.PublicKey(key()[ed25519.SeedSize:])}})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := guard.StaticKeys(set)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := guard.NewVerifier(guard.VerifierOptions{Issuer: "urn:onceward:test", Audience: "billing", Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	g, err := guard.New(guard.Options{Verifier: verifier, Store: guard.NewMemory(guard.MemoryOptions{}), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// start serves s behind the guard.
func start(t *testing.T, s *service, m guardgrpc.Methods) grpc_health_v1.HealthClient {
	t.Helper()
	if s.do == nil {
		s.do = func(context.Context) error { return nil }
	}
	interceptors, err := guardgrpc.New(newGuard(t), m)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(interceptors.Unary), grpc.StreamInterceptor(interceptors.Stream))
	grpc_health_v1.RegisterHealthServer(server, s)
	listener := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///guarded", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return grpc_health_v1.NewHealthClient(conn)
}

func with(ctx context.Context, tokens ...string) context.Context {
	md := metadata.MD{}
	md.Append(guard.TokenHeader, tokens...)
	return metadata.NewOutgoingContext(ctx, md)
}

// call makes a unary call or reads a stream to its end.
func call(ctx context.Context, client grpc_health_v1.HealthClient, method string, header *metadata.MD) error {
	switch method {
	case check:
		_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.Header(header))
		return err
	case list:
		_, err := client.List(ctx, &grpc_health_v1.HealthListRequest{})
		return err
	}
	stream, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if _, err = stream.Recv(); err != nil {
		return err
	}
	_, err = stream.Recv()
	if err != nil && err.Error() == "EOF" {
		return nil
	}
	return err
}

func reasonOf(err error) guard.Reason {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == guardgrpc.Domain {
			return guard.Reason(info.GetReason())
		}
	}
	return ""
}

func TestRefusedCalls(t *testing.T) {
	for _, method := range []string{check, watch} {
		for name, test := range map[string]struct {
			tokens []string
			code   codes.Code
			reason guard.Reason
		}{
			"none":           {nil, codes.Unauthenticated, guard.ReasonTokenRequired},
			"rubbish":        {[]string{"x"}, codes.Unauthenticated, guard.ReasonTokenInvalid},
			"two":            {[]string{token(t, nil), token(t, nil)}, codes.Unauthenticated, guard.ReasonTokenInvalid},
			"other audience": {[]string{token(t, func(c *guard.Claims) { c.Audience = "x" })}, codes.Unauthenticated, guard.ReasonTokenInvalid},
			"other action":   {[]string{token(t, func(c *guard.Claims) { c.ActionType = "a.b" })}, codes.PermissionDenied, guard.ReasonForbidden},
		} {
			s := &service{}
			var header metadata.MD
			err := call(with(t.Context(), test.tokens...), start(t, s, methods()), method, &header)
			if status.Code(err) != test.code || reasonOf(err) != test.reason || s.made.Load() != 0 {
				t.Errorf("%s, %s: %v, %d effects", method, name, err, s.made.Load())
			}
			if test.reason == guard.ReasonTokenInvalid && status.Convert(err).Message() != "refused: OPERATION_TOKEN_INVALID" {
				t.Errorf("%s, %s: says %s", method, name, err)
			}
		}
	}
}

func TestReadsAndMethodsThatNobodyNamed(t *testing.T) {
	var header metadata.MD
	s := &service{}
	client := start(t, s, guardgrpc.Methods{Reads: []string{check, watch}})
	for _, method := range []string{check, watch} {
		if err := call(t.Context(), client, method, &header); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
	if err := call(with(t.Context(), token(t, nil)), client, list, &header); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a method that is in no list: %v", err)
	}
}

func TestSecondCall(t *testing.T) {
	s := &service{do: func(ctx context.Context) error {
		c, ok := guard.FromContext(ctx)
		md, _ := metadata.FromIncomingContext(ctx)
		if !ok || !strings.HasPrefix(c.OperationID, "op-") || len(md.Get(guard.TokenHeader)) != 0 {
			return errors.New("no claims, or the token is still there")
		}
		return nil
	}}
	client := start(t, s, methods())
	var header metadata.MD
	if err := call(with(t.Context(), token(t, nil)), client, check, &header); err != nil || len(header.Get(guardgrpc.ReplayKey)) != 0 {
		t.Fatalf("first: %v, %v", err, header)
	}
	reply, err := client.Check(with(t.Context(), token(t, nil)), &grpc_health_v1.HealthCheckRequest{}, grpc.Header(&header))
	if err != nil || reply.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING || len(header.Get(guardgrpc.ReplayKey)) != 1 || s.made.Load() != 1 {
		t.Errorf("second: %v, %v, %v, %d effects", reply, err, header, s.made.Load())
	}
	second := token(t, func(c *guard.Claims) { c.OperationID = "op-2" })
	if err := call(with(t.Context(), second), client, watch, &header); err != nil {
		t.Errorf("stream: %v", err)
	}
	if err := call(with(t.Context(), second), client, watch, &header); reasonOf(err) != guard.ReasonDone || s.made.Load() != 2 {
		t.Errorf("second stream: %v, %d effects", err, s.made.Load())
	}
	// Kept by a unary call, asked for by a stream.
	if err := call(with(t.Context(), token(t, nil)), client, watch, &header); reasonOf(err) != guard.ReasonDone || s.made.Load() != 2 {
		t.Errorf("stream of a call: %v, %d effects", err, s.made.Load())
	}
}

func TestWhileTheFirstRuns(t *testing.T) {
	started, end := make(chan struct{}), make(chan struct{})
	s := &service{do: func(context.Context) error { close(started); <-end; return nil }}
	client := start(t, s, methods())
	first := make(chan error, 1)
	var header metadata.MD
	go func() {
		var own metadata.MD
		first <- call(with(context.WithoutCancel(t.Context()), token(t, nil)), client, check, &own)
	}()
	<-started
	err := call(with(t.Context(), token(t, nil)), client, check, &header)
	if status.Code(err) != codes.Aborted || reasonOf(err) != guard.ReasonInProgress {
		t.Errorf("got %v", err)
	}
	close(end)
	if err := <-first; err != nil || s.made.Load() != 1 {
		t.Errorf("first: %v, %d effects", err, s.made.Load())
	}
}

// TestHowItEnded: what a handler answers decides what the next call gets.
func TestHowItEnded(t *testing.T) {
	again := map[codes.Code]bool{
		codes.InvalidArgument: true, codes.NotFound: true, codes.AlreadyExists: true, codes.PermissionDenied: true,
		codes.FailedPrecondition: true, codes.OutOfRange: true, codes.Unimplemented: true, codes.Unauthenticated: true,
	}
	for _, method := range []string{check, watch} {
		for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
			s := &service{do: func(context.Context) error { return status.Error(code, "said") }}
			client := start(t, s, methods())
			var header metadata.MD
			if err := call(with(t.Context(), token(t, nil)), client, method, &header); status.Code(err) != code {
				t.Errorf("%s, %s: %v", method, code, err)
			}
			s.do = func(context.Context) error { return nil }
			err := call(with(t.Context(), token(t, nil)), client, method, &header)
			if again[code] != (err == nil) || !again[code] && reasonOf(err) != guard.ReasonUnresolved {
				t.Errorf("%s, after %s: %v", method, code, err)
			}
		}
	}
	s := &service{do: func(ctx context.Context) error {
		guard.NotApplied(ctx)
		return status.Error(codes.Unavailable, "nothing was done")
	}}
	client := start(t, s, methods())
	for range 2 {
		var header metadata.MD
		if err := call(with(t.Context(), token(t, nil)), client, check, &header); status.Code(err) != codes.Unavailable || reasonOf(err) != "" {
			t.Errorf("proved: %v", err)
		}
	}
}

func TestMethodsThatMakeNoSense(t *testing.T) {
	for name, m := range map[string]guardgrpc.Methods{
		"read and write": {Writes: map[string][]string{check: {"a.b"}}, Reads: []string{check}},
		"no types":       {Writes: map[string][]string{check: nil}},
		"no full name":   {Writes: map[string][]string{"Check": {"a.b"}}},
	} {
		if _, err := guardgrpc.New(newGuard(t), m); err == nil {
			t.Errorf("%s: made", name)
		}
	}
}
