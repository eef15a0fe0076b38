package server

import (
	"bytes"
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/metadata"

	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// askAsGRPC goes the way of a call up to its codec.
func askAsGRPC(t *testing.T, s *Server, tenant, key string, cause oncewardv1.RetryCause) any {
	t.Helper()
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer "+tenant))
	info := &grpc.UnaryServerInfo{FullMethod: oncewardv1.ActionService_RequestAction_FullMethodName}
	req := refundRequest(key, refundArguments)
	req.RetryCause = cause
	resp, err := s.unary(ctx, req, info, func(ctx context.Context, req any) (any, error) {
		return s.RequestAction(ctx, req.(*oncewardv1.RequestActionRequest))
	})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// A duplicate whose answer is encoded already gets byte for byte what it would get if
// it were not: its own tenant's and key's, and why it is one is its own caller's.
func TestLaw06_AnEncodedAnswerIsTheAnswer(t *testing.T) {
	t.Parallel()
	s := newFastServer(t, newMemoryLedger(), quiet(), nil)
	usual := encoding.GetCodecV2(proto.Name)
	owners := [][2]string{{"acme", "key-1"}, {"acme", "key-2"}, {"globex", "key-1"}}
	for range 2 { // made, and read; neither is encoded yet
		for _, owner := range owners {
			if resp, ok := askAsGRPC(t, s, owner[0], owner[1], oncewardv1.RetryCause_RETRY_CAUSE_UNSPECIFIED).(*oncewardv1.RequestActionResponse); !ok {
				t.Fatalf("got a %T", resp)
			}
		}
	}
	seen := map[string]bool{}
	for _, cause := range []oncewardv1.RetryCause{oncewardv1.RetryCause_RETRY_CAUSE_MODEL_RETRY, oncewardv1.RetryCause_RETRY_CAUSE_CRASH_REPLAY} {
		for _, owner := range owners {
			answer, ok := askAsGRPC(t, s, owner[0], owner[1], cause).(*encodedAnswer)
			if !ok || !answer.GetReplayed() || answer.GetDuplicate().GetCause() != cause || answer.GetOperation().GetIdempotencyKey() != owner[1] {
				t.Fatalf("%v: got %v", owner, answer)
			}
			seen[answer.GetOperation().GetId()] = true
			got, err := newCodec().Marshal(answer)
			if err != nil {
				t.Fatal(err)
			}
			want, err := usual.Marshal(answer.RequestActionResponse)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Materialize(), want.Materialize()) {
				t.Errorf("%v: sent is %x, want %x", owner, got.Materialize(), want.Materialize())
			}
			got.Free() // as gRPC does; the next caller gets the same bytes
		}
	}
	if len(seen) != len(owners) {
		t.Errorf("answers are of %d operations, want %d", len(seen), len(owners))
	}
}

// What changed since is told as it is now.
func TestAnEncodedAnswerEndsWithItsOperation(t *testing.T) {
	t.Parallel()
	book := newMemoryLedger()
	s := newFastServer(t, book, quiet(), nil)
	ask := func() any { return askAsGRPC(t, s, "acme", "key-1", oncewardv1.RetryCause_RETRY_CAUSE_UNSPECIFIED) }
	for range 2 {
		ask()
	}
	if answer, ok := ask().(*encodedAnswer); !ok {
		t.Fatalf("got %v", answer)
	}
	id := [2]string{"acme", "key-1"}
	book.mu.Lock()
	op := book.byKey[id]
	op.Incident, op.Revision = "the provider says otherwise", op.Revision+1
	book.byKey[id] = op
	book.mu.Unlock()
	s.Changed(op)
	answer, ok := ask().(*oncewardv1.RequestActionResponse)
	if !ok || op.State != ledger.Succeeded || answer.GetOperation().GetIncident() == "" {
		t.Errorf("got %v", answer)
	}
}
