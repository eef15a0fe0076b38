package dispatch

import (
	"sync"
	"time"

	"github.com/onceward/onceward/actions"
)

// The window of a retry budget, in seconds, and how long it asks to wait.
const (
	retryWindow  = 60
	minRetryWait = time.Second
	maxRetryWait = 10 * time.Second
)

// retryBudget bounds further attempts by the first ones, so that a provider in
// trouble gets little more than the work that is new. It is safe for concurrent
// use, and is at most one second coarse.
type retryBudget struct {
	share, floor int

	mu      sync.Mutex
	seconds [retryWindow]struct {
		second         int64 // that the counts are of
		first, further int
	}
	spent bool // the last one was refused
}

func newRetryBudget(rules actions.Protection) *retryBudget {
	return &retryBudget{share: rules.RetryShare, floor: rules.RetryFloor}
}

// first counts the first attempt of an operation.
func (b *retryBudget) first(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seconds[b.at(now)].first++
}

// take takes a further attempt, or says when to ask again, and whether it was
// the first to be refused.
func (b *retryBudget) take(now time.Time) (took bool, wait time.Duration, newly bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	here := b.at(now)
	first, further, oldest := 0, 0, now.Unix()
	for i := range b.seconds {
		s := &b.seconds[i]
		if s.second <= now.Unix()-retryWindow {
			continue
		}
		first += s.first
		further += s.further
		if s.further > 0 {
			oldest = min(oldest, s.second)
		}
	}
	if further < max(b.floor, first*b.share/100) {
		b.seconds[here].further++
		b.spent = false
		return true, 0, false
	}
	newly = !b.spent
	b.spent = true
	leaves := time.Unix(oldest+retryWindow, 0).Sub(now)
	return false, min(max(leaves, minRetryWait), maxRetryWait), newly
}

// giveBack returns an attempt that was taken and not made. One that was taken
// in an earlier second stays taken: the careful side.
func (b *retryBudget) giveBack(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := &b.seconds[b.at(now)]; s.further > 0 {
		s.further--
	}
}

// at returns the place of a time, emptied of what was there a window ago.
func (b *retryBudget) at(now time.Time) int {
	i := int(now.Unix() % retryWindow)
	if b.seconds[i].second != now.Unix() {
		b.seconds[i].second, b.seconds[i].first, b.seconds[i].further = now.Unix(), 0, 0
	}
	return i
}
