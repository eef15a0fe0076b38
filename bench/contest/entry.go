package contest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Entry is measured once in each round.
type Entry struct {
	Name string
	// Promises are what each round measures, by names of measurements. What is
	// missing in the end, and was not left out aloud, is a fault.
	Promises map[string]Widths
	// Prepare, if set, runs once before the rounds, Finish once after them.
	Prepare func(ctx context.Context, env Env) error
	Measure func(ctx context.Context, round Round) error
	Finish  func(ctx context.Context) error
}

// Round is one turn of an entry.
type Round struct {
	Env
	Each    time.Duration // the length of each measurement
	WarmUp  time.Duration
	Callers []int // for actions
	// Record takes what was measured, Value a figure of another kind.
	Record func(Measurement)
	Value  func(name, unit string, value float64)
}

// Widths says with how many callers each kind is measured. What a round does
// not measure at all is left out.
type Widths struct {
	Actions, Duplicates []int
	Times               int // in each round; 0 is once
}

// Driven is the entry of a contestant that the harness calls itself: it is
// started anew in each round, measured, checked and closed.
func Driven(c Contestant, w Widths) Entry {
	return Entry{Name: c.Name(), Promises: map[string]Widths{c.Name(): w}, Measure: func(ctx context.Context, round Round) error {
		return drive(ctx, round, c, w)
	}}
}

// serving is a contestant whose server is a process of its own.
type serving interface {
	// ServerCPU is a Clock of it.
	ServerCPU() (time.Duration, bool)
}

// watcher is a contestant that is told where a measurement begins and ends.
type watcher interface {
	Watch(round Round, kind string, callers int) (done func())
}

func drive(ctx context.Context, round Round, c Contestant, w Widths) (err error) {
	if err := c.Start(ctx, round.Env); err != nil {
		return fmt.Errorf("%s: start: %w", c.Name(), err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	keys := &finished{}
	var actions atomic.Int64
	do := func(ctx context.Context) error {
		key := NewKey()
		if err := c.Do(ctx, key); err != nil {
			return err
		}
		actions.Add(1)
		keys.add(key)
		return nil
	}
	duplicate := func(ctx context.Context) error { return c.Duplicate(ctx, keys.any()) }
	for _, callers := range round.Among(w.Actions) {
		if err := round.measure(ctx, c, Action, callers, do); err != nil {
			return err
		}
	}
	if duplicates := round.Among(w.Duplicates); len(duplicates) > 0 {
		for keys.len() < 64 {
			if err := do(ctx); err != nil {
				return fmt.Errorf("%s: %w", c.Name(), err)
			}
		}
		for _, callers := range duplicates {
			if err := round.measure(ctx, c, Duplicate, callers, duplicate); err != nil {
				return err
			}
		}
	}
	if err := c.Check(ctx, actions.Load()); err != nil {
		return fmt.Errorf("%s: check after %d actions: %w", c.Name(), actions.Load(), err)
	}
	return nil
}

// Among is which of the numbers of callers a round has.
func (r Round) Among(widths []int) []int {
	return slices.DeleteFunc(slices.Clone(widths), func(n int) bool { return !slices.Contains(r.Callers, n) })
}

// measure runs one load and records what it came to.
func (r Round) measure(ctx context.Context, c Contestant, kind string, callers int, do func(context.Context) error) error {
	if watched, ok := c.(watcher); ok {
		defer watched.Watch(r, kind, callers)()
	}
	var server Clock
	if s, ok := c.(serving); ok {
		server = s.ServerCPU
	}
	m, err := r.Load(ctx, c.Name(), kind, callers, server, do)
	if err != nil {
		return fmt.Errorf("%s: %s, %d callers: %w", c.Name(), kind, callers, err)
	}
	r.Record(m)
	return nil
}

// Load runs a load of this round's length, and reads what it cost the database
// and a server, if there is one.
func (r Round) Load(ctx context.Context, name, kind string, callers int, server Clock, do func(context.Context) error) (Measurement, error) {
	database, serving := spent{clock: r.DatabaseCPU}, spent{clock: server}
	outcome, err := Load{
		Callers: callers, WarmUp: r.WarmUp, For: r.Each, Do: do,
		Began: func() { database.begin(); serving.begin() },
		Ended: func() { database.end(); serving.end() },
	}.Run(ctx)
	if err != nil {
		return Measurement{}, err
	}
	m := NewMeasurement(name, kind, callers, outcome)
	m.DatabaseCPU, m.ServerCPU = database.each(m.Ops), serving.each(m.Ops)
	return m, nil
}

// Clock is how much processor time something has used, or false where the system
// does not tell.
type Clock func() (time.Duration, bool)

func (c Clock) read() (time.Duration, bool) {
	if c == nil {
		return 0, false
	}
	return c()
}

// spent is processor time that goes by during a load.
type spent struct {
	clock        Clock
	before, took time.Duration
	known        bool // at the beginning
}

func (s *spent) begin() { s.before, s.known = s.clock.read() }

func (s *spent) end() {
	if after, known := s.clock.read(); known && s.known {
		s.took = after - s.before
	}
}

// each is what each of so many took, in microseconds.
func (s *spent) each(ops int64) float64 {
	if ops == 0 {
		return 0
	}
	return micros(s.took) / float64(ops)
}

// finished remembers some keys of finished actions.
type finished struct {
	mu   sync.RWMutex
	keys []string
	seen int
}

// maxFinished bounds what is remembered; later keys replace earlier ones.
const maxFinished = 20_000

func (f *finished) add(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen++; len(f.keys) < maxFinished {
		f.keys = append(f.keys, key)
		return
	}
	f.keys[f.seen%maxFinished] = key
}

func (f *finished) any() string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.keys[rand.IntN(len(f.keys))] //nolint:gosec // which key is no secret
}

func (f *finished) len() int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return len(f.keys)
}
