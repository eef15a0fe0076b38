package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/tap"
)

// lateAfter is the part of the time for its arrival after which a message is late.
const lateAfter = 10

// arrivals ends calls whose message does not arrive in time ([Limits]). It is safe
// for concurrent use.
type arrivals struct {
	arrival time.Duration
	late    int64 // how many may be
	now     atomic.Int64
}

type arrivalKey struct{}

// arrival is a call whose message is on its way.
type arrival struct {
	all   *arrivals
	call  context.Context    // of the call
	leave context.CancelFunc // ends the call

	mu    sync.Mutex
	timer *time.Timer
	late  bool // counted
	over  bool // it is here, or given up
}

// expect gives a call its time. It runs before gRPC makes anything of the call,
// and does not block. The context is that of the call, whose end releases it.
func (a *arrivals) expect(ctx context.Context, _ *tap.Info) (context.Context, error) {
	ctx, leave := context.WithCancel(ctx)
	one := &arrival{all: a, call: ctx, leave: leave}
	one.mu.Lock()
	defer one.mu.Unlock()
	one.timer = time.AfterFunc(a.arrival/lateAfter, one.elapsed)
	return context.WithValue(ctx, arrivalKey{}, one), nil
}

// elapsed runs when the message is late, and again when its time is over.
func (a *arrival) elapsed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.over:
	case a.call.Err() != nil: // its caller dropped it
		a.end()
	case !a.late && a.all.now.Add(1) <= a.all.late:
		a.late = true
		a.timer.Reset(a.all.arrival - a.all.arrival/lateAfter)
		context.AfterFunc(a.call, a.dropped)
	case !a.late: // too many are
		a.all.now.Add(-1)
		a.over = true
		a.leave()
	default:
		a.end()
		a.leave()
	}
}

// dropped runs when a late call is over, so that its place is free at once.
func (a *arrival) dropped() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end()
}

// end ends the count of the call. The caller holds mu.
func (a *arrival) end() {
	if a.over {
		return
	}
	a.over = true
	if a.late {
		a.all.now.Add(-1)
	}
}

// arrived notes that a call's message is there. A stream's later messages may take
// as long as they like: they hold nothing until they come.
func arrived(ctx context.Context) {
	a, ok := ctx.Value(arrivalKey{}).(*arrival)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer.Stop()
	a.end()
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
