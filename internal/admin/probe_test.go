package admin_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/internal/admin"
)

var (
	errAway  = errors.New("away")
	errOther = errors.New("something else")
)

// A probe changes its mind after two looks that say otherwise, one after the other.
func TestProbe(t *testing.T) {
	for _, c := range []struct {
		what string
		// looks are what each second's look finds.
		looks []error
		// changes are what is told, believed what is believed at the end.
		changes  []error
		believed error
	}{
		{"well", []error{nil, nil, nil}, nil, nil},
		{"one that failed", []error{nil, errAway, nil, errAway, nil, nil}, nil, nil},
		{"two that failed", []error{nil, errAway, errAway}, []error{errAway}, errAway},
		{"one that was well", []error{errAway, errAway, nil, errAway, nil, errAway}, []error{errAway}, errAway},
		{"away and back", []error{errAway, errAway, errAway, nil, nil}, []error{errAway, nil}, nil},
		{"away for another reason", []error{errAway, errAway, errOther}, []error{errAway}, errOther},
		{"away from the start", []error{errOther, errAway}, []error{errAway}, errAway},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var looked, changes []error
				probe := admin.NewProbe(admin.ProbeOptions{
					Look: func(context.Context) error {
						if n := len(looked); n < len(c.looks) {
							return c.looks[n]
						}
						t.Error("it looked too often")
						return nil
					},
					Looked:  func(err error) { looked = append(looked, err) },
					Changed: func(err error) { changes = append(changes, err) },
				})
				ctx, stop := context.WithTimeout(t.Context(), time.Duration(len(c.looks)-1)*time.Second+time.Millisecond)
				defer stop()
				probe.Run(ctx)
				if !slices.Equal(looked, c.looks) || !slices.Equal(changes, c.changes) || !errors.Is(probe.Err(), c.believed) || (c.believed == nil) != (probe.Err() == nil) {
					t.Errorf("looks %v, changes %v, believes %v; want %v, %v, %v", looked, changes, probe.Err(), c.looks, c.changes, c.believed)
				}
			})
		})
	}
}

// A look that gets no answer ends, and the end of the process proves nothing.
func TestProbeWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed atomic.Int64
		probe := admin.NewProbe(admin.ProbeOptions{
			Interval: time.Second, Timeout: 300 * time.Millisecond, Patience: 1,
			Look:   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			Looked: func(error) { failed.Add(1) },
		})
		ctx, stop := context.WithTimeout(t.Context(), 1200*time.Millisecond)
		defer stop()
		probe.Run(ctx)
		if n := failed.Load(); n != 1 || !errors.Is(probe.Err(), context.DeadlineExceeded) {
			t.Errorf("%d looks failed, believes %v; want the first alone", n, probe.Err())
		}
	})
}
