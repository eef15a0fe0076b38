package guard

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrFull: the memory holds as many operations as it may, and none of them may
// be forgotten.
var ErrFull = errors.New("guard: the memory is full of operations that may not be forgotten")

// MemoryOptions bound a Memory.
type MemoryOptions struct {
	// MaxOperations is how many are remembered; default 10,000. Each takes its
	// response and some 500 bytes.
	MaxOperations int
	// Keep is how long a finished operation is remembered: longer than Onceward
	// may still send it. Default 24 h. Others are never forgotten.
	Keep time.Duration
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// Memory is a Store of one process, for tests and for services that lose what
// they did when they end. It is safe for concurrent use.
type Memory struct {
	o       MemoryOptions
	mu      sync.Mutex
	entries map[Operation]*remembered
	// done are the finished ones in the order that they ended in.
	done []Operation
}

type remembered struct {
	entry   Entry
	attempt int       // that began it
	until   time.Time // of hold while running, of Keep when finished
}

var _ Store = (*Memory)(nil)

// NewMemory makes an empty memory.
func NewMemory(o MemoryOptions) *Memory {
	if o.MaxOperations <= 0 {
		o.MaxOperations = 10_000
	}
	if o.Keep <= 0 {
		o.Keep = 24 * time.Hour
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Memory{o: o, entries: map[Operation]*remembered{}}
}

// Begin implements Store. It fails with ErrFull.
func (m *Memory) Begin(_ context.Context, c Claims, hold time.Duration) (Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.o.Now()
	m.forget(now)
	if known := m.entries[c.Operation()]; known != nil {
		if known.entry.State == Running && !now.Before(known.until) {
			known.entry.State = Unresolved
		}
		return known.entry, nil
	}
	if len(m.entries) >= m.o.MaxOperations {
		return Entry{}, ErrFull
	}
	m.entries[c.Operation()] = &remembered{entry: Entry{State: Running, ArgumentsHash: c.ArgumentsHash}, attempt: c.Attempt, until: now.Add(hold)}
	return Entry{State: Begun, ArgumentsHash: c.ArgumentsHash}, nil
}

// forget drops finished operations whose time is over. The caller has the lock.
func (m *Memory) forget(now time.Time) {
	for len(m.done) > 0 && !now.Before(m.entries[m.done[0]].until) {
		delete(m.entries, m.done[0])
		m.done = m.done[1:]
	}
}

// Finish implements Store.
func (m *Memory) Finish(_ context.Context, op Operation, r Response) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.entries[op]
	if known == nil || known.entry.State == Finished {
		return nil
	}
	known.entry.State, known.entry.Response, known.until = Finished, r, m.o.Now().Add(m.o.Keep)
	m.done = append(m.done, op)
	return nil
}

// Release implements Store.
func (m *Memory) Release(_ context.Context, c Claims) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.entries[c.Operation()]; known != nil && known.entry.State != Finished && known.attempt == c.Attempt {
		delete(m.entries, c.Operation())
	}
	return nil
}

// Doubt implements Store.
func (m *Memory) Doubt(_ context.Context, op Operation) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.entries[op]; known != nil && known.entry.State == Running {
		known.entry.State = Unresolved
	}
	return nil
}
