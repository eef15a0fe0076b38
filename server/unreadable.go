package server

import (
	"bytes"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// codec is gRPC's own, but for two things. It passes on a message that cannot be read (no protobuf, or a text in
// it that is no UTF-8), empty and marked, so that it is answered as what it is:
// the caller's fault. gRPC itself answers it before any interceptor runs, as an
// internal error with the decoder's words. And it takes an encodedAnswer.
type codec struct {
	encoding.CodecV2
}

func newCodec() codec { return codec{encoding.GetCodecV2(protocodec.Name)} }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	err := c.CodecV2.Unmarshal(data, v)
	m, ok := v.(proto.Message)
	if err == nil || !ok {
		return err
	}
	proto.Reset(m)
	m.ProtoReflect().SetUnknown(unreadableMark())
	return nil
}

// unreadableMark is an unknown field that marks a message. Who sends it gets
// the answer that they ask for.
func unreadableMark() []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, protowire.MaxValidNumber, protowire.VarintType), 1)
}

// checkReadable refuses a message that codec has marked.
func checkReadable(v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return nil
	}
	unknown := m.ProtoReflect().GetUnknown()
	if len(unknown) == 0 || !bytes.Equal(unknown, unreadableMark()) {
		return nil
	}
	return refuse(codes.InvalidArgument, reasonInvalidRequest,
		"the message cannot be read: it is not of this method's type, or a text in it is not UTF-8; nothing was recorded or sent")
}
