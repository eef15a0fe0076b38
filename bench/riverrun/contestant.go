package riverrun

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/onceward/onceward/bench/contest"
)

// Settings are what River leaves to its user.
type Settings struct {
	MaxWorkers    int
	Connections   int
	FetchCooldown time.Duration
}

// Best are the settings that gave the callers their receipts soonest.
func Best() Settings {
	return Settings{MaxWorkers: 200, Connections: 32, FetchCooldown: time.Millisecond}
}

// Contestant inserts jobs and waits for them.
type Contestant struct {
	Settings

	pool    *pgxpool.Pool
	client  *river.Client[pgx.Tx]
	waiting sync.Map // key: chan string
	effects atomic.Int64
}

var _ contest.Contestant = (*Contestant)(nil)

// Name implements contest.Contestant.
func (*Contestant) Name() string { return "river" }

// Start implements contest.Contestant.
func (c *Contestant) Start(ctx context.Context, env contest.Env) error {
	c.effects.Store(0)
	url, err := env.Database(ctx, "bench_river")
	if err != nil {
		return err
	}
	if c.pool, err = pgxpool.New(ctx, fmt.Sprintf("%s&pool_max_conns=%d", url, c.Connections)); err != nil {
		return err
	}
	driver := riverpgxv5.New(c.pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{pool: c.pool, done: c.done})
	c.client, err = river.NewClient(driver, &river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: c.MaxWorkers}},
		Workers:       workers,
		FetchCooldown: c.FetchCooldown,
		Logger:        slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return err
	}
	return c.client.Start(context.WithoutCancel(ctx))
}

// done gives the receipt to who waits for the key.
func (c *Contestant) done(key, receipt string) {
	c.effects.Add(1)
	if waiting, ok := c.waiting.LoadAndDelete(key); ok {
		waiting.(chan string) <- receipt //nolint:forcetypeassert // nothing else is stored
	}
}

// Do implements contest.Contestant.
func (c *Contestant) Do(ctx context.Context, key string) error {
	receipt := make(chan string, 1)
	c.waiting.Store(key, receipt) // before the insert: the worker may be faster
	defer c.waiting.Delete(key)
	inserted, err := c.client.Insert(ctx, args{Key: key}, nil)
	if err != nil {
		return err
	}
	if inserted.UniqueSkippedAsDuplicate {
		return fmt.Errorf("job %s was there before", key)
	}
	select {
	case got := <-receipt:
		return holds(got, key)
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Minute):
		return fmt.Errorf("job %s was not done within a minute", key)
	}
}

// Duplicate implements contest.Contestant. The insert that is skipped returns
// the job that is there, with its output.
func (c *Contestant) Duplicate(ctx context.Context, key string) error {
	inserted, err := c.client.Insert(ctx, args{Key: key}, nil)
	if err != nil {
		return err
	}
	if !inserted.UniqueSkippedAsDuplicate {
		return fmt.Errorf("job %s was inserted again", key)
	}
	return holds(string(inserted.Job.Output()), key)
}

func holds(receipt, key string) error {
	if !strings.Contains(receipt, key) {
		return fmt.Errorf("job %s has another's receipt: %s", key, receipt)
	}
	return nil
}

// Check implements contest.Contestant.
func (c *Contestant) Check(ctx context.Context, actions int64) error {
	var completed, all int64
	if err := c.pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE state = 'completed'), count(*) FROM river_job`).Scan(&completed, &all); err != nil {
		return err
	}
	return errors.Join(
		contest.Same("completed jobs", completed, actions),
		contest.Same("jobs", all, actions),
		contest.Same("effects", c.effects.Load(), actions))
}

// Close implements contest.Contestant.
func (c *Contestant) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err := c.client.Stop(ctx)
	c.pool.Close()
	return err
}
