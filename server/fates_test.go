package server

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/ledger"
)

func TestFates(t *testing.T) {
	t.Parallel()
	finished, running := &ledger.Operation{ID: "op", State: ledger.Succeeded}, &ledger.Operation{ID: "op", State: ledger.Running}
	for name, tt := range map[string]struct {
		end  func(ctx context.Context, f *fates)
		want fate
	}{
		"answered": {func(ctx context.Context, f *fates) { f.done(ctx, finished) }, answered},
		"answered just in time": {func(ctx context.Context, f *fates) {
			ctx, cancel := context.WithTimeout(ctx, answerMargin)
			defer cancel()
			f.done(ctx, finished)
		}, answered},
		"its wait was over": {func(ctx context.Context, f *fates) {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			f.done(ctx, running)
		}, toldToWait},
		"a person must decide": {func(ctx context.Context, f *fates) {
			ctx, cancel := context.WithTimeout(ctx, answerMargin) // which is time enough: nothing was waited for
			defer cancel()
			f.done(ctx, &ledger.Operation{ID: "op", State: ledger.NeedsReview})
		}, toldToWait},
		"its deadline cut the wait": {func(ctx context.Context, f *fates) {
			ctx, cancel := context.WithTimeout(ctx, answerMargin)
			defer cancel()
			f.done(ctx, running)
		}, leftByDeadline},
		"left by its deadline": {func(ctx context.Context, f *fates) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			<-ctx.Done()
			f.done(ctx, finished) // which it does not get any more
		}, leftByDeadline},
		"cancelled": {func(ctx context.Context, f *fates) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			f.done(ctx, running)
		}, leftByConnection},
		"waits": {func(context.Context, *fates) {}, stillWaiting},
		"waits, another is told to ask again": {func(ctx context.Context, f *fates) {
			f.arrived("op")
			f.done(ctx, running)
		}, stillWaiting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFates()
				if got, _ := f.arrived("op"); got != fateUnknown {
					t.Errorf("before the first caller: %d", got)
				}
				tt.end(t.Context(), f)
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
		f.done(t.Context(), &ledger.Operation{ID: id, State: ledger.Succeeded})
	}
	if len(f.known) != maxFates || len(f.order) != maxFates {
		t.Errorf("%d operations are known, in %d places; want %d", len(f.known), len(f.order), maxFates)
	}
	f.done(t.Context(), &ledger.Operation{ID: "0"}) // forgotten meanwhile
	for id, want := range map[string]fate{"0": fateUnknown, fmt.Sprint(more + 1): answered, fmt.Sprint(maxFates + more - 1): answered} {
		if got, _ := f.arrived(id); got != want {
			t.Errorf("operation %s: fate %d, want %d", id, got, want)
		}
	}
}
