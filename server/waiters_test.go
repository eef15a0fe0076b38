package server

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/ledger"
)

func operation(state ledger.State, revision int64) *ledger.Operation {
	return &ledger.Operation{Tenant: "acme", ID: "op", State: state, Revision: revision}
}

func TestPublishWakesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiters(nil, slog.New(slog.DiscardHandler))
		got := make(chan *ledger.Operation)
		for range 3 {
			go func() { got <- w.await(t.Context(), operation(ledger.Running, 1), time.Hour, nil, nil) }()
		}
		synctest.Wait()
		w.publish(&ledger.Operation{Tenant: "globex", ID: "op", State: ledger.Succeeded, Revision: 9}) // another tenant's
		w.publish(operation(ledger.Succeeded, 1))                                                      // no news
		w.publish(operation(ledger.Unknown, 2))                                                        // not settled
		synctest.Wait()
		select {
		case op := <-got:
			t.Fatalf("woken with %+v", op)
		default:
		}
		w.publish(operation(ledger.Succeeded, 3))
		for range 3 {
			if op := <-got; op.State != ledger.Succeeded || op.Tenant != "acme" {
				t.Errorf("got %+v", op)
			}
		}
		if len(w.byID) != 0 {
			t.Error("waiters stay behind")
		}
	})
}

func TestWaitEnds(t *testing.T) {
	leaving, leave := context.WithCancel(t.Context())
	leave()
	for name, test := range map[string]struct {
		caller, wait time.Duration
		leaving      <-chan struct{}
		want         time.Duration
	}{
		"with the context": {caller: time.Second, wait: time.Hour, want: time.Second},
		"with its time":    {caller: time.Hour, wait: time.Minute, want: time.Minute},
		"at once":          {caller: time.Hour},
		"with the server":  {caller: time.Hour, wait: time.Hour, leaving: leaving.Done()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, begun := newWaiters(nil, slog.New(slog.DiscardHandler)), false
				ctx, cancel := context.WithTimeout(t.Context(), test.caller)
				defer cancel()
				began := time.Now()
				op := w.await(ctx, operation(ledger.Running, 1), test.wait, test.leaving, func() { begun = true })
				if op.State != ledger.Running || !begun {
					t.Errorf("got %+v, begun: %v", op, begun)
				}
				if took := time.Since(began); took != test.want {
					t.Errorf("it took %s, want %s", took, test.want)
				}
				if len(w.byID) != 0 {
					t.Error("waiters stay behind")
				}
			})
		})
	}
}

// One poll serves all waiters, from the oldest revision that one of them
// knows, and there is none while nobody waits.
func TestPollIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		polls := 0
		poll := func(_ context.Context, waited []ledger.Waited) ([]ledger.Operation, error) {
			polls++
			if len(waited) != 1 || waited[0] != (ledger.Waited{Tenant: "acme", ID: "op", Revision: 1}) {
				t.Errorf("polled for %+v", waited)
			}
			if polls < 3 {
				return nil, nil
			}
			return []ledger.Operation{*operation(ledger.Succeeded, 5)}, nil
		}
		w := newWaiters(poll, slog.New(slog.DiscardHandler))
		got := make(chan *ledger.Operation)
		for revision := range int64(10) {
			go func() { got <- w.await(t.Context(), operation(ledger.Running, revision%3+1), time.Hour, nil, nil) }()
		}
		synctest.Wait()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go w.run(ctx)
		for range 10 {
			<-got
		}
		time.Sleep(time.Hour) // of the bubble's clock: nobody waits
		if polls != 3 {
			t.Errorf("%d polls", polls)
		}
	})
}

// Whoever leaves, in whatever order, takes nobody's news along.
func TestWaitersLeaveInAnyOrder(t *testing.T) {
	for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		w := newWaiters(nil, slog.New(slog.DiscardHandler))
		waiting := map[int]*waiter{}
		for i := range 3 {
			waiting[i] = w.subscribe(operation(ledger.Running, 1), time.Time{})
		}
		for i, leaves := range order {
			w.unsubscribe(waiting[leaves])
			delete(waiting, leaves)
			w.publish(operation(ledger.Running, int64(i)+2))
			for n, wt := range waiting {
				if len(wt.news) != 1 {
					t.Errorf("order %v: after %d left, %d has no news", order, leaves, n)
				}
			}
			if n := len(w.waited(time.Now())); n != min(len(waiting), 1) {
				t.Errorf("order %v: %d operations are waited for by %d", order, n, len(waiting))
			}
		}
	}
}

// About what this process works on nobody is asked, but when it takes long.
func TestOwnWorkIsNotPolledFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var first time.Duration
		poll := func(_ context.Context, waited []ledger.Waited) ([]ledger.Operation, error) {
			if first = time.Since(began); len(waited) != 1 || waited[0].ID != "op" {
				t.Errorf("asked about %+v", waited)
			}
			return []ledger.Operation{*operation(ledger.Succeeded, 2)}, nil
		}
		w := newWaiters(poll, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { w.run(ctx); close(done) }()
		op := w.await(t.Context(), operation(ledger.Running, 1), time.Hour, nil, func() {})
		if op.State != ledger.Succeeded || first < ownPatience || first > ownPatience+pollInterval {
			t.Errorf("first asked after %s, and then it was %s", first, op.State)
		}
		cancel()
		<-done
	})
}

// What this process has done with, and is not settled, may go on in another one.
func TestWorkThatWentOnElsewhereIsPolledFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		poll := func(context.Context, []ledger.Waited) ([]ledger.Operation, error) {
			return []ledger.Operation{*operation(ledger.Succeeded, 3)}, nil
		}
		w := newWaiters(poll, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { w.run(ctx); close(done) }()
		began := time.Now()
		op := w.await(t.Context(), operation(ledger.Running, 1), time.Hour, nil, func() {
			time.AfterFunc(pollInterval/2, func() { w.publish(operation(ledger.Unknown, 2)) })
		})
		if took := time.Since(began); op.State != ledger.Succeeded || took > 3*pollInterval {
			t.Errorf("it was %s after %s", op.State, took)
		}
		cancel()
		<-done
	})
}
