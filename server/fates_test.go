package server

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestFates(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		end  func(f *fates)
		want fate
	}{
		"answered":             {func(f *fates) { f.answered("op") }, answered},
		"left without a cause": {func(f *fates) { f.left("op", nil) }, answered},
		"left by its deadline": {func(f *fates) { f.left("op", fmt.Errorf("wait: %w", context.DeadlineExceeded)) }, leftByDeadline},
		"cancelled":            {func(f *fates) { f.left("op", context.Canceled) }, leftByConnection},
		"waits":                {func(*fates) {}, stillWaiting},
		"waits, another left": {func(f *fates) {
			f.arrived("op")
			f.left("op", context.DeadlineExceeded)
		}, stillWaiting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFates()
				if got, _ := f.arrived("op"); got != fateUnknown {
					t.Errorf("before the first caller: %d", got)
				}
				tt.end(f)
				time.Sleep(3 * time.Second)
				got, since := f.arrived("op")
				if got != tt.want {
					t.Errorf("fate %d, want %d", got, tt.want)
				}
				want := 3 * time.Second
				if tt.want == stillWaiting {
					want = 0
				}
				if since != want {
					t.Errorf("%s ago, want %s", since, want)
				}
				if other, _ := f.arrived("other"); other != fateUnknown {
					t.Errorf("another operation has fate %d", other)
				}
			})
		})
	}
}

// The memory is bounded, what came first goes first, and what was forgotten
// harms nobody.
func TestFatesAreBounded(t *testing.T) {
	t.Parallel()
	f := newFates()
	const more = 100
	for i := range maxFates + more {
		id := fmt.Sprint(i)
		f.arrived(id)
		f.answered(id)
	}
	if len(f.known) != maxFates || len(f.order) != maxFates {
		t.Errorf("%d operations are known, in %d places; want %d", len(f.known), len(f.order), maxFates)
	}
	f.left("0", context.Canceled)
	for id, want := range map[string]fate{"0": fateUnknown, fmt.Sprint(more + 1): answered, fmt.Sprint(maxFates + more - 1): answered} {
		if got, _ := f.arrived(id); got != want {
			t.Errorf("operation %s: fate %d, want %d", id, got, want)
		}
	}
}
