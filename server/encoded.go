package server

import (
	"context"

	"google.golang.org/grpc/mem"

	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// encodedAnswer is an answer that is encoded already, but for why it is a
// duplicate: many callers get the same bytes. A message is what its parts are, put
// together in any order.
type encodedAnswer struct {
	*oncewardv1.RequestActionResponse
	encoded []byte // not changed
}

// encodedIs leaves with a call how its answer is encoded; nil: it is not.
func encodedIs(ctx context.Context, encoded []byte) {
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
		return encodedAnswer{message, c.encoded}
	}
	return answer
}

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	answer, ok := v.(encodedAnswer)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	data, err := c.CodecV2.Marshal(&oncewardv1.RequestActionResponse{Duplicate: answer.GetDuplicate()})
	if err != nil {
		return nil, err
	}
	return append(data, mem.SliceBuffer(answer.encoded)), nil
}
