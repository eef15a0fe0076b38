package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/onceward/onceward/ledger"
)

// pollInterval is how often a replica asks the ledger about the operations
// that its callers wait for and another replica works on. It is one statement
// for all of them.
const pollInterval = 50 * time.Millisecond

// ownPatience is how long it does not ask about an operation that this process is
// working on, and will tell of: but where an attempt is stuck there is nothing to be
// learnt, and it would be asked about all that is going on.
const ownPatience = time.Second

// pollIntervalAway is how often it asks while the ledger does not answer.
const pollIntervalAway = time.Second

// waiters wakes callers when their operation changes: at once when this
// process changes it, by the shared poll when another one does.
type waiters struct {
	poll func(context.Context, []ledger.Waited) ([]ledger.Operation, error)
	log  *slog.Logger

	mu   sync.Mutex
	byID map[string]*waiter // operation id; others that wait for it are next
	wake chan struct{}      // the first waiter has come
}

// waiter is one caller's wait for news of one operation.
type waiter struct {
	tenant, id, key string
	known           int64                  // revision
	from            time.Time              // when the poll begins to ask for it
	news            chan *ledger.Operation // holds the newest only; what it holds is not changed
	before, next    *waiter                // of the same operation
}

func newWaiters(poll func(context.Context, []ledger.Waited) ([]ledger.Operation, error), log *slog.Logger) *waiters {
	return &waiters{poll: poll, log: log, byID: map[string]*waiter{}, wake: make(chan struct{}, 1)}
}

// subscribe registers a wait for news after op, which the poll asks for from some
// time on. The caller must unsubscribe.
func (w *waiters) subscribe(op *ledger.Operation, from time.Time) *waiter {
	wt := &waiter{tenant: op.Tenant, id: op.ID, key: op.Key, known: op.Revision, from: from, news: make(chan *ledger.Operation, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if wt.next = w.byID[op.ID]; wt.next != nil {
		wt.next.before = wt
	}
	w.byID[op.ID] = wt
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return wt
}

// unsubscribe ends a wait.
func (w *waiters) unsubscribe(wt *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if wt.next != nil {
		wt.next.before = wt.before
	}
	switch {
	case wt.before != nil:
		wt.before.next = wt.next
	case wt.next != nil:
		w.byID[wt.id] = wt.next
	default:
		delete(w.byID, wt.id)
	}
}

// publish tells the callers that wait for op, which must not be changed any more.
// It does not block.
func (w *waiters) publish(op *ledger.Operation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for wt := w.byID[op.ID]; wt != nil; wt = wt.next {
		if wt.tenant != op.Tenant || op.Revision <= wt.known {
			continue
		}
		wt.known = op.Revision
		if op.State != ledger.Running {
			wt.from = time.Time{} // who goes on with it may be another process
		}
		select {
		case <-wt.news: // an older one that was not read
		default:
		}
		wt.news <- op
	}
}

// run polls while there are waiters, until ctx ends.
func (w *waiters) run(ctx context.Context) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if w.none() {
			select {
			case <-ctx.Done():
				return
			case <-w.wake:
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		waited := w.waited(time.Now())
		if len(waited) == 0 {
			continue
		}
		changed, err := w.poll(ctx, waited)
		if err != nil {
			w.log.Warn("callers wait without news: the ledger does not answer", "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(pollIntervalAway):
			}
		}
		for _, op := range changed { // a copy each: one that is remembered keeps no other
			w.publish(&op)
		}
	}
}

// none reports whether nobody waits.
func (w *waiters) none() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.byID) == 0
}

// waited lists what is to be asked for now, each operation once, from the oldest
// revision that one of its callers knows.
func (w *waiters) waited(now time.Time) []ledger.Waited {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []ledger.Waited
	for id, first := range w.byID {
		entry, due := ledger.Waited{Tenant: first.tenant, ID: id, Key: first.key, Revision: first.known}, true
		for wt := first; wt != nil; wt = wt.next {
			entry.Revision = min(entry.Revision, wt.known)
			due = due && !wt.from.After(now)
		}
		if due {
			list = append(list, entry)
		}
	}
	return list
}

// await returns the operation when it is settled, or as it is when ctx, the time
// or leaving ends. What begin sets going, if it is given, cannot end unnoticed.
func (w *waiters) await(ctx context.Context, op *ledger.Operation, wait time.Duration, leaving <-chan struct{}, begin func()) *ledger.Operation {
	if settled(op) {
		return op
	}
	var from time.Time
	if begin != nil {
		from = time.Now().Add(ownPatience)
	}
	wt := w.subscribe(op, from)
	defer w.unsubscribe(wt)
	over := time.NewTimer(wait)
	defer over.Stop()
	if begin != nil {
		begin()
	}
	for {
		select {
		case news := <-wt.news:
			if op = news; settled(op) {
				return op
			}
		case <-ctx.Done():
			return op
		case <-over.C:
			return op
		case <-leaving:
			return op
		}
	}
}

// settled reports whether waiting longer is no use: the operation is finished,
// or a person must decide.
func settled(op *ledger.Operation) bool {
	return op.State.Final() || op.State == ledger.NeedsReview
}
