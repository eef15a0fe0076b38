package server

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/tap"
)

// Limits of the transport that do not change. A message holds at most the largest
// arguments, in their most wasteful form, and some context; the limit holds after
// decompression too.
const (
	maxMessageBytes      = 1 << 20
	maxHeaderBytes       = 16 << 10
	maxConcurrentStreams = 1000
	// streamWorkers are goroutines that serve one call after the other; a call
	// that finds none free gets its own. A new goroutine begins with a small
	// stack, and growing it took 10 % of the processor time of replays (4 of 44
	// µs each); these keep theirs. Larger and shared buffers were tried too, and
	// made no difference to calls of this size.
	streamWorkers = 256
)

// Limits bound what one connection may hold of a server without ever being
// served. A zero field is its default.
type Limits struct {
	// Handshake is how long a connection may take until the first frame of HTTP/2
	// (default 20 s). It bounds who connects and says nothing.
	Handshake time.Duration
	// Silence is after how much of it a connection is asked whether it is alive,
	// and Answer how long that may take (defaults 2 min, 20 s). They bound who has
	// sent a part of a frame, and connections whose other end is gone.
	Silence, Answer time.Duration
	// Idle is how long a connection may have no call (default 30 min). Its client
	// is told in order, and connects again with its next call.
	Idle time.Duration
	// Arrival is how long the message of a call may take to arrive (default 10 s).
	// Until it is there nobody knows who asks, and each call may hold a message's
	// worth of memory: gRPC itself waits as long as the caller pleases.
	Arrival time.Duration
}

func (l Limits) withDefaults() Limits {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&l.Handshake, 20 * time.Second}, {&l.Silence, 2 * time.Minute}, {&l.Answer, 20 * time.Second},
		{&l.Idle, 30 * time.Minute}, {&l.Arrival, 10 * time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return l
}

// options are the transport's part of a gRPC server.
func (l Limits) options() []grpc.ServerOption {
	l = l.withDefaults()
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessageBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxConcurrentStreams),
		grpc.NumStreamWorkers(streamWorkers),
		// A connection that writes nothing holds no buffer for it: half of what an
		// idle one takes.
		grpc.SharedWriteBuffer(true),
		grpc.ConnectionTimeout(l.Handshake),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: l.Silence, Timeout: l.Answer, MaxConnectionIdle: l.Idle}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.InTapHandle(l.expect),
	}
}

type arrivalKey struct{}

// expect ends a call whose message does not arrive in time. The context is that of
// the call, whose end releases it.
func (l Limits) expect(ctx context.Context, _ *tap.Info) (context.Context, error) {
	ctx, leave := context.WithCancel(ctx)
	return context.WithValue(ctx, arrivalKey{}, time.AfterFunc(l.Arrival, leave)), nil
}

// arrived notes that a call's message is there. A stream's later messages may take
// as long as they like: they hold nothing until they come.
func arrived(ctx context.Context) {
	if timer, ok := ctx.Value(arrivalKey{}).(*time.Timer); ok {
		timer.Stop()
	}
}

// arrivingStream is a stream of an open method: its first message is waited for
// like any other's, and one that cannot be read is told as such.
type arrivingStream struct{ grpc.ServerStream }

// RecvMsg implements grpc.ServerStream.
func (a arrivingStream) RecvMsg(m any) error {
	if err := a.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	arrived(a.Context())
	return checkReadable(m)
}
