package contest

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"
)

// Load is a closed loop: so many callers, each of which asks again as soon as it
// has its answer.
type Load struct {
	Callers int
	WarmUp  time.Duration // before it counts
	For     time.Duration
	Do      func(ctx context.Context) error
	// Began and Ended, if set, are called when counting begins and ends.
	Began, Ended func()
}

// Outcome is what a load came to.
type Outcome struct {
	Ops     int64 // answered while it counted
	Elapsed time.Duration
	P50     time.Duration
	P99     time.Duration
	Done    int64 // answered at all, the warm-up too
}

// Run runs the load. The first error ends it and is returned.
func (l Load) Run(ctx context.Context) (Outcome, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	from := time.Now().Add(l.WarmUp)
	until := from.Add(l.For)
	latencies := make([][]time.Duration, l.Callers)
	done := make([]int64, l.Callers)
	var callers sync.WaitGroup
	for i := range l.Callers {
		callers.Go(func() {
			for asked := time.Now(); asked.Before(until) && ctx.Err() == nil; {
				if err := l.Do(ctx); err != nil {
					stop(err)
					return
				}
				answered := time.Now()
				done[i]++
				if answered.After(from) && answered.Before(until) {
					latencies[i] = append(latencies[i], answered.Sub(asked))
				}
				asked = answered
			}
		})
	}
	l.clock(ctx, from, until)
	callers.Wait()
	if err := context.Cause(ctx); err != nil {
		return Outcome{}, err
	}
	o := Summarise(l.For, slices.Values(slices.Concat(latencies...)))
	o.Done = 0
	for _, n := range done {
		o.Done += n
	}
	return o, nil
}

// Summarise is the outcome of what was answered in a time, with its latencies.
func Summarise(elapsed time.Duration, latencies iter.Seq[time.Duration]) Outcome {
	sorted := slices.Sorted(latencies)
	return Outcome{
		Ops: int64(len(sorted)), Elapsed: elapsed, Done: int64(len(sorted)),
		P50: quantile(sorted, 0.50), P99: quantile(sorted, 0.99),
	}
}

// clock calls Began and Ended at their times.
func (l Load) clock(ctx context.Context, from, until time.Time) {
	for _, step := range []struct {
		at   time.Time
		call func()
	}{{from, l.Began}, {until, l.Ended}} {
		select {
		case <-time.After(time.Until(step.at)):
		case <-ctx.Done():
			return
		}
		if step.call != nil {
			step.call()
		}
	}
}

// quantile is exact: every answer was kept.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
