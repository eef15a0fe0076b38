package server

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/tap"
)

// lateAfter is the part of the time for its arrival after which a message is late.
const lateAfter = 10

// arrivals ends calls whose message does not arrive in time ([Limits]). Nearly
// every message comes right behind its call, so those that are waited for stand in
// one list, in the order in which they came and so in that of their time, with one
// timer for all. It is safe for concurrent use.
type arrivals struct {
	arrival time.Duration
	late    int // how many may be

	mu           sync.Mutex
	now          int      // how many are late
	first, final *arrival // on their way, and not late yet
	sweeping     bool     // a sweep is to come
}

type arrivalKey struct{}

// arrival is a call whose message is on its way, and the context of that call.
type arrival struct {
	context.Context
	all   *arrivals
	leave context.CancelFunc // ends the call
	since time.Time

	// Guarded by all.mu.
	state         arrivalState
	before, after *arrival    // in the list, while it is in time
	timer         *time.Timer // of the rest of its time, once it is late
}

type arrivalState int

const (
	inTime arrivalState = iota // in the list
	isLate                     // counted
	isOver                     // it is here, or given up
)

// Value implements context.Context.
func (a *arrival) Value(key any) any {
	if key == (arrivalKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// expect gives a call its time. It runs before gRPC makes anything of the call,
// and does not block. The context is that of the call, whose end releases it.
func (a *arrivals) expect(ctx context.Context, _ *tap.Info) (context.Context, error) {
	ctx, leave := context.WithCancel(ctx)
	one := &arrival{Context: ctx, all: a, leave: leave}
	a.mu.Lock()
	defer a.mu.Unlock()
	one.since = time.Now() // here, so that the list is in this order
	if one.before = a.final; one.before == nil {
		a.first = one
	} else {
		one.before.after = one
	}
	a.final = one
	if !a.sweeping {
		a.sweeping = true
		time.AfterFunc(a.inTime(), a.sweep)
	}
	return one, nil
}

// inTime is how long a message may take before it is late.
func (a *arrivals) inTime() time.Duration { return a.arrival / lateAfter }

// sweep counts the calls whose message is late by now, and ends those for which
// too many are. It runs again when the next one will be, if there is one.
func (a *arrivals) sweep() {
	a.mu.Lock()
	a.sweeping = false
	var tooMany []*arrival
	for one := a.first; one != nil; one = a.first {
		if left := a.inTime() - time.Since(one.since); left > 0 {
			a.sweeping = true
			time.AfterFunc(left, a.sweep)
			break
		}
		a.end(one)
		switch {
		case one.Err() != nil: // its caller dropped it
		case a.now < a.late:
			a.now++
			one.state = isLate
			one.timer = time.AfterFunc(a.arrival-a.inTime(), one.expired)
			// So that its place is free at once when its caller drops it.
			context.AfterFunc(one.Context, one.ended)
		default:
			tooMany = append(tooMany, one)
		}
	}
	a.mu.Unlock()
	for _, one := range tooMany {
		one.leave()
	}
}

// expired ends a call whose message is not there when all its time is over.
func (a *arrival) expired() {
	a.all.mu.Lock()
	waited := a.state == isLate // and did not come at the last moment
	a.all.end(a)
	a.all.mu.Unlock()
	if waited {
		a.leave()
	}
}

// ended notes that a call is not waited for any more.
func (a *arrival) ended() {
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	a.all.end(a)
}

// end ends the wait for a message. The caller holds mu.
func (a *arrivals) end(one *arrival) {
	switch one.state {
	case inTime:
		if one.before == nil {
			a.first = one.after
		} else {
			one.before.after = one.after
		}
		if one.after == nil {
			a.final = one.before
		} else {
			one.after.before = one.before
		}
		one.before, one.after = nil, nil
	case isLate:
		one.timer.Stop()
		a.now--
	case isOver:
	}
	one.state = isOver
}

// arrived notes that a call's message is there. A stream's later messages may take
// as long as they like: they hold nothing until they come.
func arrived(ctx context.Context) {
	if a, ok := ctx.Value(arrivalKey{}).(*arrival); ok {
		a.ended()
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
