package contest_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/bench/contest"
)

func TestLoadCountsWhatIsAnsweredInItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		var began, ended time.Duration
		start := time.Now()
		outcome, err := contest.Load{
			Callers: 3, WarmUp: time.Second, For: 10 * time.Second,
			Do: func(context.Context) error {
				time.Sleep(100*time.Millisecond + time.Microsecond) // never just at the ends
				calls.Add(1)
				return nil
			},
			Began: func() { began = time.Since(start) },
			Ended: func() { ended = time.Since(start) },
		}.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if outcome.Ops != 300 {
			t.Errorf("%d operations counted, want 300: 3 callers, 10 s, 100 ms each", outcome.Ops)
		}
		if outcome.Done != calls.Load() || outcome.Done <= outcome.Ops {
			t.Errorf("%d done, %d called, %d counted: the warm-up is done too, and not counted", outcome.Done, calls.Load(), outcome.Ops)
		}
		if want := 100*time.Millisecond + time.Microsecond; outcome.P50 != want || outcome.P99 != want {
			t.Errorf("p50 %s, p99 %s, want %s", outcome.P50, outcome.P99, want)
		}
		if began != time.Second || ended != 11*time.Second {
			t.Errorf("began after %s and ended after %s, want 1s and 11s", began, ended)
		}
	})
}

func TestLoadEndsWithTheFirstError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		var calls atomic.Int64
		_, err := contest.Load{
			Callers: 8, For: time.Hour,
			Do: func(ctx context.Context) error {
				if calls.Add(1) == 20 {
					return broken
				}
				select {
				case <-time.After(time.Second):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			},
		}.Run(t.Context())
		if !errors.Is(err, broken) {
			t.Errorf("error %v, want %v", err, broken)
		}
	})
}
