package dispatch

import "context"

// maxIdle is how many goroutines wait for another job.
const maxIdle = 256

// workers do jobs on goroutines that were used before: a new one begins with a
// small stack, and to grow it took 8 % of a server's processor time. A job that is
// handed to one that waits takes no memory of its own. Those that wait end with ctx.
type workers[J any] struct {
	ctx  context.Context
	work func(J)
	next chan J
	idle chan struct{} // a place for each that waits
}

func newWorkers[J any](ctx context.Context, work func(J)) *workers[J] {
	return &workers[J]{ctx: ctx, work: work, next: make(chan J), idle: make(chan struct{}, maxIdle)}
}

// do does a job in the background, at once.
func (w *workers[J]) do(job J) {
	select {
	case w.next <- job:
	default:
		go w.run(job)
	}
}

func (w *workers[J]) run(first J) {
	w.work(first)
	for w.another() {
	}
}

// another waits for a job and does it, or reports that there is to be none. It is
// no part of run, so that a job is not kept in memory by who waits for the next.
func (w *workers[J]) another() bool {
	select {
	case w.idle <- struct{}{}:
	default:
		return false // enough wait
	}
	select {
	case job := <-w.next:
		<-w.idle
		w.work(job)
		return true
	case <-w.ctx.Done():
		<-w.idle
		return false
	}
}
