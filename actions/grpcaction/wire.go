package grpcaction

import (
	"context"
	"errors"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// exchange is one call as it went.
type exchange struct {
	answer []byte // of status OK
	err    error  // a status of another code
	// opened: a stream was opened, so that the request may have left.
	opened bool
	// refused: the stream was closed by proof that nobody processed it.
	refused bool
}

// call makes one call and opens at most one stream for it.
func (c *Client) call(ctx context.Context, method string, request []byte) exchange {
	s := &sending{}
	var answer frame
	err := c.conn.Invoke(context.WithValue(ctx, sendingKey{}, s), method, frame(request), &answer,
		grpc.ForceCodecV2(frames{}), grpc.PerRPCCredentials(onlyOnce{}))
	return exchange{answer: answer, err: err, opened: s.streams.Load() > 0, refused: s.refused.Load()}
}

// sending collects what gRPC does about one call.
type sending struct {
	streams atomic.Int32
	refused atomic.Bool
}

type sendingKey struct{}

func sendingOf(ctx context.Context) *sending {
	s, ok := ctx.Value(sendingKey{}).(*sending)
	if !ok {
		return &sending{} // Describe and Health: nobody asks
	}
	return s
}

// watch is the stats handler that fills in a sending.
//
// gRPC reports OutHeader in the goroutine of the call, as soon as the headers
// are queued for the connection and before anything of the message is; a call
// that ends without it has opened no stream. It begins another attempt of the
// same call, with retries disabled, in two cases: when no stream was opened, and
// when the stream that was opened is known to be unprocessed (it was never
// written, RST_STREAM with REFUSED_STREAM, or GOAWAY with a last stream before
// it; RFC 9113, section 8.7). The first is let pass; the second is evidence.
type watch struct{}

var _ stats.Handler = watch{}

func (watch) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (watch) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (watch) HandleConn(context.Context, stats.ConnStats)                       {}

func (watch) HandleRPC(ctx context.Context, event stats.RPCStats) {
	s := sendingOf(ctx)
	switch event := event.(type) {
	case *stats.OutHeader:
		s.streams.Add(1)
	case *stats.Begin:
		if event.IsTransparentRetryAttempt && s.streams.Load() > 0 {
			s.refused.Store(true)
		}
	}
}

// onlyOnce refuses the headers of a second stream: gRPC asks for credentials
// just before it opens one.
type onlyOnce struct{}

var _ credentials.PerRPCCredentials = onlyOnce{}

func (onlyOnce) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	if sendingOf(ctx).streams.Load() > 0 {
		return nil, status.Error(codes.Unavailable, "the stream was refused unprocessed; it is not opened a second time")
	}
	return nil, nil
}

func (onlyOnce) RequireTransportSecurity() bool { return false }

// frame is a message that is encoded already.
type frame []byte

// frames passes messages on as they are, so that what is sent is what was
// frozen, and what came can be read with care.
type frames struct{}

var _ encoding.CodecV2 = frames{}

func (frames) Name() string { return "proto" }

func (frames) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(frame)
	if !ok {
		return nil, errors.New("grpcaction: not a frame")
	}
	return mem.BufferSlice{mem.SliceBuffer(f)}, nil
}

func (frames) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return errors.New("grpcaction: not a frame")
	}
	*f = data.Materialize()
	return nil
}
