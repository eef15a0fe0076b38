package reconciler

import (
	"context"
	"errors"
	"time"

	"github.com/onceward/onceward/ledger"
)

// Records is what the reconciler needs of the store to forget what was counted
// and observed. The methods fail with ledger.ErrNoStatistics on a schema that is
// older.
type Records interface {
	SweepTallies(ctx context.Context, limit int, keep time.Duration) (swept int64, err error)
	SweepObservations(ctx context.Context, limit int, keep time.Duration) (swept int64, err error)
}

// How long they are kept: tallies so that a month can be compared with the same
// one a year before, observations so that a report sees a whole month.
const (
	tallyMemory       = 400 * 24 * time.Hour
	observationMemory = 30 * 24 * time.Hour
)

// sweepRecords forgets old tallies and observations, batch by batch.
func (r *Reconciler) sweepRecords(ctx context.Context) {
	for _, records := range []struct {
		what  string
		keep  time.Duration
		sweep func(ctx context.Context, limit int, keep time.Duration) (int64, error)
	}{
		{"tallies", tallyMemory, r.Ledger.SweepTallies},
		{"observations", observationMemory, r.Ledger.SweepObservations},
	} {
		for ctx.Err() == nil {
			swept, err := records.sweep(ctx, r.SweepBatch, records.keep)
			if err != nil && !errors.Is(err, ledger.ErrNoStatistics) && ctx.Err() == nil {
				r.Log.Error("reconciler: sweep "+records.what, "error", err)
			}
			if err != nil || swept < int64(r.SweepBatch) {
				break
			}
		}
	}
}
