package server

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// A duplicate whose answer is encoded already gets, byte for byte of its receipt and
// in everything else, what it would get if it were not; and why it is one is its
// own caller's, not that of the one before it.
func TestLaw06_AnEncodedAnswerIsTheAnswer(t *testing.T) {
	t.Parallel()
	s := newFastServer(t, newMemoryLedger(), quiet(), nil)
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer acme"))
	info := &grpc.UnaryServerInfo{FullMethod: oncewardv1.ActionService_RequestAction_FullMethodName}
	ask := func(cause oncewardv1.RetryCause) any {
		req := refundRequest("key-1", refundArguments)
		req.RetryCause = cause
		resp, err := s.unary(ctx, req, info, func(ctx context.Context, req any) (any, error) {
			return s.RequestAction(ctx, req.(*oncewardv1.RequestActionRequest))
		})
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	for range 2 { // made, and read; neither is encoded yet
		if resp, ok := ask(oncewardv1.RetryCause_RETRY_CAUSE_UNSPECIFIED).(*oncewardv1.RequestActionResponse); !ok {
			t.Fatalf("got a %T", resp)
		}
	}
	for _, cause := range []oncewardv1.RetryCause{oncewardv1.RetryCause_RETRY_CAUSE_MODEL_RETRY, oncewardv1.RetryCause_RETRY_CAUSE_CRASH_REPLAY} {
		answer, ok := ask(cause).(*encodedAnswer)
		if !ok || !answer.GetReplayed() || answer.GetDuplicate().GetCause() != cause {
			t.Fatalf("got %v", answer)
		}
		data, err := newCodec().Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		got := new(oncewardv1.RequestActionResponse)
		if err := proto.Unmarshal(data.Materialize(), got); err != nil {
			t.Fatal(err)
		}
		if want := answer.RequestActionResponse; !proto.Equal(got, want) {
			t.Errorf("sent is %v, want %v", got, want)
		}
		data.Free() // as gRPC does; the next caller gets the same bytes
	}
}
