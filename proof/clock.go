package proof

import (
	"sync"
	"time"

	"github.com/onceward/onceward/fakeprovider"
)

// Clock is a provider's time that runs by itself and can be moved forward: lags
// and delays pass while a path waits for them, and a key window of a day is a
// matter of one call. The zero value shows the system's time. It is safe for
// concurrent use.
type Clock struct {
	mu      sync.Mutex
	ahead   time.Duration
	waiting map[*sleeper]struct{}
}

type sleeper struct {
	due   time.Time // by this clock
	timer *time.Timer
}

var _ fakeprovider.Clock = (*Clock)(nil)

// HastyClock returns a clock that begins now and runs as much faster as the waits
// of a proof are shorter: for an adapter that paces itself by one.
func HastyClock() func() time.Time {
	began := time.Now()
	return func() time.Time { return began.Add(time.Since(began) * waitFactor) }
}

// Now is the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

// now is Now for a caller that holds the lock.
func (c *Clock) now() time.Time { return time.Now().Add(c.ahead) }

// After returns a channel that receives once the clock has gone on by d.
func (c *Clock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan time.Time, 1)
	s := &sleeper{due: c.now().Add(d)}
	s.timer = time.AfterFunc(max(d, 0), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if _, waits := c.waiting[s]; !waits {
			return // Advance has set the timer anew, and it fired both times
		}
		delete(c.waiting, s)
		ch <- c.now()
	})
	if c.waiting == nil {
		c.waiting = map[*sleeper]struct{}{}
	}
	c.waiting[s] = struct{}{}
	return ch
}

// Advance moves the clock forward by d and wakes whoever is due. It ignores a
// negative d.
func (c *Clock) Advance(d time.Duration) {
	if d < 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
	for s := range c.waiting {
		s.timer.Reset(max(s.due.Sub(c.now()), 0))
	}
}
