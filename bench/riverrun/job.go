package riverrun

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/onceward/onceward/bench/contest"
)

// args are a job's: the key makes it unique.
type args struct {
	Key string `json:"key"`
}

// Kind implements river.JobArgs.
func (args) Kind() string { return "bench_noop" }

// InsertOpts implements river.JobArgsWithInsertOpts.
func (args) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}}
}

// worker does a job and tells who waits for it.
type worker struct {
	river.WorkerDefaults[args]
	pool *pgxpool.Pool
	done func(key, receipt string)
}

// Work implements river.Worker.
func (w *worker) Work(ctx context.Context, job *river.Job[args]) error {
	receipt := contest.Receipt(job.Args.Key)
	if err := river.RecordOutput(ctx, json.RawMessage(receipt)); err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
	if err != nil {
		return fmt.Errorf("complete: %w", err)
	}
	w.done(job.Args.Key, receipt)
	return nil
}
