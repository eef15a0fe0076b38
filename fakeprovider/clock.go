package fakeprovider

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Clock is the provider's time. Implementations must be safe for concurrent use.
type Clock interface {
	// Now is the provider's current time.
	Now() time.Time
	// After returns a channel that receives once d has passed; at once when d
	// is not positive.
	After(d time.Duration) <-chan time.Time
}

type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// ManualClock stands still until [ManualClock.Advance] moves it, so that tests
// of windows, lags and delays need no sleep. A scripted delay on a manual
// clock waits for Advance. It is safe for concurrent use.
type ManualClock struct {
	mu      sync.Mutex
	now     time.Time
	waiting []sleeper
	changed bell
}

type sleeper struct {
	due time.Time
	ch  chan time.Time
}

// NewManualClock returns a clock that shows start.
func NewManualClock(start time.Time) *ManualClock { return &ManualClock{now: start} }

// Now is the time that the clock shows.
func (c *ManualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// After returns a channel that receives once Advance has moved the clock by d.
func (c *ManualClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan time.Time, 1)
	if d <= 0 {
		ch <- c.now
		return ch
	}
	c.waiting = append(c.waiting, sleeper{due: c.now.Add(d), ch: ch})
	c.changed.ring()
	return ch
}

// Advance moves the clock forward by d and wakes whoever is due. It ignores a
// negative d: time does not run backwards.
func (c *ManualClock) Advance(d time.Duration) {
	if d < 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	var later []sleeper
	for _, s := range c.waiting {
		if s.due.After(c.now) {
			later = append(later, s)
			continue
		}
		s.ch <- c.now
	}
	c.waiting = later
}

// WaitSleepers returns once at least n calls of After wait for the clock to
// move. It lets a test advance the clock only after a delayed request has gone
// to sleep. It returns an error that wraps the context's when that ends first.
func (c *ManualClock) WaitSleepers(ctx context.Context, n int) error {
	return c.changed.await(ctx, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.waiting) < n {
			return fmt.Errorf("%d of %d sleepers", len(c.waiting), n)
		}
		return nil
	})
}

// bell wakes everybody who waits for a change. The zero value is ready.
type bell struct {
	mu sync.Mutex
	ch chan struct{}
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}

func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

// await returns once missing returns nil. It asks for the channel before it
// looks, so that a change between the two is not lost.
func (b *bell) await(ctx context.Context, missing func() error) error {
	for {
		rung := b.next()
		lack := missing()
		if lack == nil {
			return nil
		}
		select {
		case <-rung:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", lack, ctx.Err())
		}
	}
}
