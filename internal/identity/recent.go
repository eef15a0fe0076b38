package identity

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// recentLife is how long an answer of the ledger is taken for true: a revoked
	// key and a disabled tenant stop within it.
	recentLife = time.Second
	// maxYoung bounds each of two generations of remembered answers, at some 500
	// bytes an answer.
	maxYoung = 5000
	// readTimeout bounds one read, which does not end with the caller that was
	// first to ask.
	readTimeout = 10 * time.Second
)

// recent is what the ledger said in the last second, by name. Requests that come
// together share one read. While the ledger does not answer nobody gets anything,
// once the second is over.
//
// Only what the ledger has is remembered: whoever guesses names fills no memory.
// It is safe for concurrent use.
type recent[V any] struct {
	reads singleflight.Group

	mu sync.RWMutex
	// In two generations: the old one is dropped as a whole, so that forgetting
	// costs nothing.
	young, old map[string]*answer[V]
	begun      time.Time // of the young one
}

// answer is what the ledger said. It is not changed.
type answer[V any] struct {
	value V
	found bool
	read  time.Time // before the ledger was asked
}

// fresh by both clocks: the monotonic one stands still while a machine sleeps.
func (a *answer[V]) fresh(now time.Time) bool {
	return max(now.Sub(a.read), now.Round(0).Sub(a.read.Round(0))) < recentLife
}

// remembered returns a fresh answer, or nil.
func (r *recent[V]) remembered(name string, now time.Time) *answer[V] {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, generation := range [...]map[string]*answer[V]{r.young, r.old} {
		if a, ok := generation[name]; ok && a.fresh(now) {
			return a
		}
	}
	return nil
}

// read asks the ledger, together with everybody else who asks for the name now.
// ask says whether there is such a thing; its errors are returned as they are.
// The answer was asked for at or after arrived, or is fresh at that time.
func (r *recent[V]) read(ctx context.Context, name string, arrived time.Time, ask func(context.Context) (V, bool, error)) (*answer[V], error) {
	for {
		shared := r.reads.DoChan(name, func() (any, error) {
			detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
			defer cancel()
			a := &answer[V]{read: time.Now()}
			var err error
			if a.value, a.found, err = ask(detached); err != nil {
				return nil, err
			}
			if a.found {
				r.remember(name, a)
			}
			return a, nil
		})
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case result := <-shared:
			if result.Err != nil {
				return nil, result.Err
			}
			a, _ := result.Val.(*answer[V])
			if !a.read.Before(arrived) || a.found && a.fresh(arrived) {
				return a, nil
			}
			// A read that began before this request came, and is too old for it:
			// what is asked for may have been made, or ended, since.
		}
	}
}

func (r *recent[V]) remember(name string, a *answer[V]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.young) >= maxYoung || a.read.Sub(r.begun) >= recentLife {
		r.young, r.old, r.begun = map[string]*answer[V]{}, r.young, a.read
	}
	r.young[name] = a
}
