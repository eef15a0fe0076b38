package dispatch

import "context"

// maxIdle is how many goroutines wait for another attempt.
const maxIdle = 256

// workers run attempts on goroutines that were used before: a new one begins
// with a small stack, and to grow it took 8 % of a server's processor time.
// Those that wait end with ctx.
type workers struct {
	ctx  context.Context
	next chan func()
	idle chan struct{} // a place for each that waits
}

func newWorkers(ctx context.Context) *workers {
	return &workers{ctx: ctx, next: make(chan func()), idle: make(chan struct{}, maxIdle)}
}

// do runs something in the background, at once.
func (w *workers) do(what func()) {
	select {
	case w.next <- what:
	default:
		go w.run(what)
	}
}

func (w *workers) run(what func()) {
	for {
		what()
		select {
		case w.idle <- struct{}{}:
		default:
			return // enough wait
		}
		select {
		case what = <-w.next:
			<-w.idle
		case <-w.ctx.Done():
			<-w.idle
			return
		}
	}
}
