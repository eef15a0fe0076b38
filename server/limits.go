package server

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
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
	// µs each); these keep theirs, until a collection of garbage finds them idle and
	// halves it. They take turns, so that more of them have to grow theirs again
	// after each: with 64 callers that was 7 % of the time with 256 workers, and 2 %
	// with 64; with 256 callers, who then outnumber them, it is 5 % instead of 2.5 %.
	// Larger and shared buffers were tried too, and made no difference to calls of
	// this size.
	streamWorkers = 64
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
	// Late is how many calls may take longer than a tenth of Arrival at once
	// (default 256); further ones are ended at that point. What strangers can hold
	// is that many messages, and what the network carries in a tenth of Arrival.
	Late int
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
	if l.Late <= 0 {
		l.Late = 256
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
		grpc.ConnectionTimeout(l.Handshake),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: l.Silence, Timeout: l.Answer, MaxConnectionIdle: l.Idle}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.InTapHandle((&arrivals{arrival: l.Arrival, late: l.Late}).expect),
	}
}
