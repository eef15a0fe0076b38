package reconciler

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
)

// archive has rows of tallies and observations that are due.
type archive struct {
	Ledger
	tallies, observations int64
	err                   error // of tallies
	kept                  []time.Duration
}

func (a *archive) SweepTallies(_ context.Context, limit int, keep time.Duration) (int64, error) {
	return a.sweep(&a.tallies, limit, keep), a.err
}

func (a *archive) SweepObservations(_ context.Context, limit int, keep time.Duration) (int64, error) {
	return a.sweep(&a.observations, limit, keep), nil
}

func (a *archive) sweep(due *int64, limit int, keep time.Duration) int64 {
	a.kept = append(a.kept, keep)
	swept := min(*due, int64(limit))
	*due -= swept
	return swept
}

// Old tallies and observations go batch by batch, and one that fails does not
// keep the other.
func TestSweepRecords(t *testing.T) {
	t.Parallel()
	const year, month = 400 * 24 * time.Hour, 30 * 24 * time.Hour
	for name, tt := range map[string]struct {
		a    archive
		want []time.Duration
	}{
		"nothing":      {archive{}, []time.Duration{year, month}},
		"in batches":   {archive{tallies: 20, observations: 11}, []time.Duration{year, year, year, month, month}},
		"failing":      {archive{tallies: 20, observations: 5, err: errors.New("away")}, []time.Duration{year, month}},
		"older schema": {archive{tallies: 20, observations: 5, err: ledger.ErrNoStatistics}, []time.Duration{year, month}},
	} {
		r := New(Options{Ledger: &tt.a, Log: slog.New(slog.DiscardHandler), SweepBatch: 10})
		r.sweepRecords(t.Context())
		if !slices.Equal(tt.a.kept, tt.want) || tt.a.observations != 0 {
			t.Errorf("%s: swept with %v, want %v; %d observations are left", name, tt.a.kept, tt.want, tt.a.observations)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	a := &archive{tallies: 20}
	New(Options{Ledger: a, Log: slog.New(slog.DiscardHandler)}).sweepRecords(ended)
	if len(a.kept) != 0 {
		t.Errorf("swept after the end: %v", a.kept)
	}
}
