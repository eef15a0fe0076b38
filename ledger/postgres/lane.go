package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/ledger"
)

// lane lets concurrent callers share transactions. Whatever waits when a flight
// ends goes with the next one: a single caller waits for nobody, and many share
// a commit. There is no linger.
type lane[J any] struct {
	// fly does the jobs of one batch and sets their results. What it returns it
	// has not done: it goes with the next flight. It may sort the seats.
	fly func([]*seat[J]) (again []*seat[J])
	// batch is how many jobs fly at most together, and how much they weigh;
	// what is too heavy flies alone.
	batch int
	weigh func(J) int
	// flights is how many flights there are at most at once, one for each crowd
	// of jobs that wait.
	flights, crowd int
	// limit is how many jobs may wait before those that can be refused are.
	limit int
	// flown is told of each flight.
	flown func(jobs int, took time.Duration)

	mu      sync.Mutex
	waiting []*seat[J]
	flying  int
	free    []*seat[J] // that nobody knows any more, as many as fly together at most
}

// seat is a job's place in a lane.
type seat[J any] struct {
	job   J
	done  chan struct{} // gets one value for a job, and has room for it
	again bool          // while a flight lands: it goes with the next one
}

// do waits for a place and until the job is done: its results are set when the
// error is nil. A caller who leaves before the job flies takes it back; once it
// flies it is waited for, so that nothing is done unseen. The error means that
// nothing was done: the caller left (ledger.ErrUnavailable).
func (l *lane[J]) do(ctx context.Context, job J) error {
	s := l.seat(job)
	if l.sit(s) {
		// A caller who finds nobody flying flies at once, without a goroutine
		// that would have to wake up, and back; who comes meanwhile does not.
		l.fly1()
	}
	defer l.vacate(s)
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
	}
	if l.leave(s) {
		return fmt.Errorf("%w: left before its turn: %w", ledger.ErrUnavailable, ctx.Err())
	}
	<-s.done
	return nil
}

// seat returns one that is used again, or a new one.
func (l *lane[J]) seat(job J) *seat[J] {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.free) - 1
	if last < 0 {
		return &seat[J]{job: job, done: make(chan struct{}, 1)}
	}
	s := l.free[last]
	l.free[last], l.free = nil, l.free[:last]
	s.job = job
	return s
}

// vacate gives a seat back. Whoever signalled that its job is done, or took it out
// of the waiting ones, does not look at it again.
func (l *lane[J]) vacate(s *seat[J]) {
	var nothing J
	s.job = nothing
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.free) < l.batch {
		l.free = append(l.free, s)
	}
}

// full reports whether a job that can be refused should be.
func (l *lane[J]) full() bool { return l.crowded() >= l.limit }

// crowded is how many jobs wait.
func (l *lane[J]) crowded() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// sit takes a place, and reports whether there is to be another flight.
func (l *lane[J]) sit(s *seat[J]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, s)
	if l.flying >= min(l.flights, 1+len(l.waiting)/l.crowd) {
		return false
	}
	l.flying++
	return true
}

// leave takes a seat back, unless it flies.
func (l *lane[J]) leave(s *seat[J]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, s)
	if i < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	return true
}

// fly1 makes one flight. If there is more to do then, somebody else does it.
func (l *lane[J]) fly1() {
	seats := l.take(nil)
	if len(seats) == 0 {
		return
	}
	if seats = l.next(seats); len(seats) > 0 {
		go l.run(seats)
	}
}

// run flies while there are jobs.
func (l *lane[J]) run(seats []*seat[J]) {
	for len(seats) > 0 {
		seats = l.next(seats)
	}
}

// next flies and returns the seats of the flight after it. If it panics, the
// callers get jobs without results, and the rest flies on.
func (l *lane[J]) next(seats []*seat[J]) []*seat[J] {
	landed := false
	defer func() {
		if !landed {
			for _, s := range seats {
				s.done <- struct{}{}
			}
			go l.run(l.take(nil))
		}
	}()
	began := time.Now()
	again := l.fly(seats)
	l.flown(len(seats)-len(again), time.Since(began))
	landed = true
	for _, s := range again {
		s.again = true
	}
	for _, s := range seats {
		if s.again {
			s.again = false
			continue
		}
		s.done <- struct{}{} // from here on it is somebody else's
	}
	return l.take(again)
}

// take returns the seats of the next flight, those that go again first, or ends
// the flights of its caller when there are none.
func (l *lane[J]) take(again []*seat[J]) []*seat[J] {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, weight := 0, 0
	for n < min(len(l.waiting), l.batch-len(again)) {
		weight += l.weigh(l.waiting[n].job)
		if weight > maxBatchBytes && n > 0 {
			break
		}
		n++
	}
	if n+len(again) == 0 {
		l.flying--
		return nil
	}
	seats := slices.Concat(again, l.waiting[:n])
	l.waiting = slices.Delete(l.waiting, 0, n)
	return seats
}
