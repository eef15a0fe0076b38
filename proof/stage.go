package proof

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/ledger"
)

// death is where the worker of a path's first attempt is killed.
type death int

const (
	nowhere death = iota
	beforeSending
	afterSending
)

// stage is one path of one subject while it is walked: an adapter with a
// provider of its own, and what happens at which moment.
type stage struct {
	*sample
	path    *path
	tenant  string
	adapter actions.Adapter
	target  Target

	// What the path's preparation sets. It does not change while it is walked.

	dies death
	// timeout bounds each attempt; zero leaves it to the runner.
	timeout time.Duration
	// horizonPassed makes the ledger take the provider's key for forgotten, as if
	// its window had ended before the doubt was looked at.
	horizonPassed bool
	// after is called when attempt n has come back, before its outcome is
	// recorded.
	after func(ctx context.Context, n int) error
	// beforeLook and afterLook are called around each look-up.
	beforeLook, afterLook func() error
	// gate holds the first write, where the path needs that.
	gate *fakeprovider.Gate

	attempts atomic.Int32
	failed   chan error // what went wrong with the stage itself; holds one
	meet     sync.Once
	met      chan struct{} // closed when a request has joined the operation
}

func newStage(s *sample, p *path, tenant string, adapter actions.Adapter, target Target) *stage {
	return &stage{
		sample: s, path: p, tenant: tenant, adapter: adapter, target: target,
		failed: make(chan error, 1), met: make(chan struct{}),
	}
}

// joined notes that a request found the operation under way.
func (s *stage) joined() { s.meet.Do(func() { close(s.met) }) }

// shorten lets the key horizon of an attempt pass, where the path says so.
func (s *stage) shorten(start *ledger.Start) {
	if s.horizonPassed && start.Horizon > 0 {
		start.Horizon = time.Microsecond
	}
}

// execute makes an attempt by the adapter of the stage.
func (s *stage) execute(ctx context.Context, call actions.Call) actions.Outcome {
	n := int(s.attempts.Add(1))
	if s.dies == beforeSending && n == 1 {
		die()
	}
	defer func() {
		if s.after == nil {
			return
		}
		if err := s.after(context.WithoutCancel(ctx), n); err != nil {
			s.fail(err)
		}
	}()
	attempt, cancel := s.bounded(ctx, n)
	defer cancel()
	outcome := s.adapter.Execute(attempt, call)
	if s.dies == afterSending && n == 1 {
		die()
	}
	return outcome
}

// bounded gives attempt n its time. That of a write which is to stand at the gate
// runs from its arrival there: on a busy machine it would else be over before
// anything was sent, and the path would show nothing. The attempt is cancelled then;
// the adapter is not told of the time before, as it is by a deadline.
func (s *stage) bounded(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	switch {
	case s.timeout == 0:
		return ctx, func() {}
	case s.gate == nil || n > 1:
		return context.WithTimeout(ctx, s.timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, longestTimeout)
	go func() {
		select {
		case <-s.gate.Reached():
			time.AfterFunc(s.timeout, cancel)
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// look makes a look-up by the adapter of the stage.
func (s *stage) look(ctx context.Context, looker actions.Looker, query actions.Query) actions.Finding {
	s.call(s.beforeLook)
	defer s.call(s.afterLook)
	return looker.Lookup(ctx, query)
}

func (s *stage) call(hook func() error) {
	if hook == nil {
		return
	}
	if err := hook(); err != nil {
		s.fail(err)
	}
}

// die ends the worker as a kill does: it runs no further, reports nothing, and
// its lease runs out.
func die() { runtime.Goexit() }

// fail notes what made the stage itself break.
func (s *stage) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// letGo opens what the stage still holds.
func (s *stage) letGo() {
	if s.gate != nil {
		s.gate.Release()
	}
}

// stages finds the stage of an operation. It is safe for concurrent use.
type stages struct {
	mu   sync.RWMutex
	byID map[stageID]*stage
}

type stageID struct{ tenant, actionType string }

func (s *stages) add(st *stage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[stageID{st.tenant, st.spec.Type}] = st
}

func (s *stages) remove(st *stage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, stageID{st.tenant, st.spec.Type})
}

// of returns nil for an operation that no stage is about any more.
func (s *stages) of(tenant, actionType string) *stage {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byID[stageID{tenant, actionType}]
}
