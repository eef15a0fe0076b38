package demo

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/onceward/onceward/fakeprovider"
)

// What a trace leaves open, at speed 1.
const (
	// patience is how long an agent waits for the answer to one try.
	patience = time.Second
	// resendGap is how long an agent waits before it asks a service again that
	// could not be reached.
	resendGap = 100 * time.Millisecond
)

// pace is how many times faster than real a trace is played.
type pace float64

func (p pace) of(d time.Duration) time.Duration { return time.Duration(float64(d) / float64(p)) }

// stage is one play's provider and the time at which it began.
type stage struct {
	provider *fakeprovider.Provider
	server   *fakeprovider.Server
	pace     pace
	began    time.Time
}

// newStage starts a provider. Close it.
func newStage(p pace) (*stage, error) {
	provider := fakeprovider.New(fakeprovider.Options{})
	server, err := fakeprovider.Start(provider, "")
	if err != nil {
		return nil, err
	}
	return &stage{provider: provider, server: server, pace: p}, nil
}

func (s *stage) close() error { return s.server.Close() }

// play gives each line to send at its time, in a goroutine of its own, and
// returns when all are answered: the first error, or the context's.
func (s *stage) play(ctx context.Context, lines []Line, send func(context.Context, Line) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.began = time.Now()
	var sent sync.WaitGroup
	for _, line := range lines {
		if !sleep(ctx, time.Until(s.began.Add(s.pace.of(line.At)))) {
			break
		}
		if line.Fault.Kind == fakeprovider.RefuseConnection {
			// Nobody can be connected to while the listener is closed: only this
			// line is meant, not one that is on its way.
			sent.Wait()
		}
		sent.Go(func() {
			if err := send(ctx, line); err != nil {
				cancel(fmt.Errorf("line %d: %w", line.Number, err))
			}
		})
	}
	sent.Wait()
	return context.Cause(ctx)
}

// arm makes the provider misbehave at the next write to the line's target, as
// the line says, and stand at the gates, where there are some. A refused
// connection is the listener's matter: the caller of disarm undoes it.
func (s *stage) arm(line Line, before, after *fakeprovider.Gate) error {
	fault := line.Fault
	if fault.Kind == fakeprovider.RefuseConnection {
		return s.server.Pause()
	}
	if fault == (fakeprovider.Fault{Kind: fakeprovider.None}) && before == nil && after == nil {
		return nil
	}
	fault.Delay, fault.LookupLag = s.pace.of(fault.Delay), s.pace.of(fault.LookupLag)
	fault.HoldBefore, fault.HoldAfter = before, after
	s.provider.ForMatch(func(r *http.Request, body []byte) bool {
		t, ok := writtenTo(r.URL.Path, body)
		return ok && r.Method == http.MethodPost && t == line.target
	}, fault)
	return nil
}

// settled waits until the provider has finished every request that it has
// received, also those whose caller has left.
func (s *stage) settled(ctx context.Context) error {
	return s.provider.WaitFinished(ctx, len(s.provider.Requests()))
}

// effects counts what the provider holds.
func (s *stage) effects() map[target]int {
	held := map[target]int{}
	for _, effect := range s.provider.Effects() {
		held[target{natural: effect.NaturalKey}]++
	}
	return held
}

// sleep waits for d, or returns false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
