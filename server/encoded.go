package server

import (
	"context"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// encodedAnswer is an answer that is encoded already, but for why it is a
// duplicate: many callers get the same bytes. That field is the last one that it
// has, so that both parts together are what gRPC itself would send.
type encodedAnswer struct {
	*oncewardv1.RequestActionResponse
	encoded mem.Buffer // not changed

	// Of Marshal, here so that they are one allocation.
	own   oncewardv1.RequestActionResponse // what is the caller's own
	parts [2]mem.Buffer
}

// encodedIs leaves with a call how its answer is encoded; nil: it is not.
func encodedIs(ctx context.Context, encoded mem.Buffer) {
	if c, ok := ctx.Value(principalKey{}).(*caller); ok {
		c.encoded = encoded
	}
}

// encodedAnswerOf is the answer of a call, with what was left of it.
func encodedAnswerOf(ctx context.Context, answer any) any {
	message, ok := answer.(*oncewardv1.RequestActionResponse)
	if !ok || message == nil {
		return answer
	}
	if c, ok := ctx.Value(principalKey{}).(*caller); ok && c.encoded != nil {
		return &encodedAnswer{RequestActionResponse: message, encoded: c.encoded}
	}
	return answer
}

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	answer, ok := v.(*encodedAnswer)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	answer.own.Duplicate = answer.GetDuplicate()
	own, err := proto.Marshal(&answer.own)
	if err != nil {
		return nil, err
	}
	answer.parts = [...]mem.Buffer{answer.encoded, mem.SliceBuffer(own)}
	return answer.parts[:], nil
}
