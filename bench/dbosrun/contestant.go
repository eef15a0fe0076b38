package dbosrun

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/bench/contest"
)

// Contestant runs workflows of DBOS.
type Contestant struct {
	// Connections of its pool; zero leaves DBOS' own number.
	Connections int

	dbos     dbos.Context
	url      string
	workflow dbos.Workflow[string, string]
	effects  atomic.Int64
}

var _ contest.Contestant = (*Contestant)(nil)

// Name implements contest.Contestant.
func (*Contestant) Name() string { return "dbos" }

// Start implements contest.Contestant.
func (c *Contestant) Start(ctx context.Context, env contest.Env) (err error) {
	c.effects.Store(0)
	c.url, err = env.Database(ctx, "bench_dbos")
	if err != nil {
		return err
	}
	system := c.url
	if c.Connections > 0 {
		system += fmt.Sprintf("&pool_max_conns=%d", c.Connections)
	}
	c.dbos, err = dbos.NewContext(context.WithoutCancel(ctx), dbos.Config{
		DatabaseURL: system, AppName: "bench",
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return err
	}
	c.workflow = c.act
	dbos.RegisterWorkflow(c.dbos, c.workflow, dbos.WithWorkflowName("act"))
	return dbos.Launch(c.dbos)
}

// act is the workflow: one step, which calls the provider.
func (c *Contestant) act(ctx dbos.Context, key string) (string, error) {
	return dbos.RunAsStep(ctx, func(context.Context) (string, error) { return c.provider(key), nil })
}

func (c *Contestant) provider(key string) string {
	c.effects.Add(1)
	return contest.Receipt(key)
}

// Do implements contest.Contestant.
func (c *Contestant) Do(_ context.Context, key string) error {
	handle, err := dbos.RunWorkflow(c.dbos, c.workflow, key, dbos.WithWorkflowID(key))
	if err != nil {
		return err
	}
	receipt, err := handle.GetResult()
	if err != nil {
		return err
	}
	if !strings.Contains(receipt, key) {
		return fmt.Errorf("workflow %s has another's receipt: %s", key, receipt)
	}
	return nil
}

// Duplicate implements contest.Contestant.
func (c *Contestant) Duplicate(ctx context.Context, key string) error { return c.Do(ctx, key) }

// Check implements contest.Contestant.
func (c *Contestant) Check(ctx context.Context, actions int64) error {
	conn, err := pgx.Connect(ctx, c.url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var workflows, steps int64
	if err := conn.QueryRow(ctx, `SELECT
		(SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'),
		(SELECT count(*) FROM dbos.operation_outputs)`).Scan(&workflows, &steps); err != nil {
		return err
	}
	return errors.Join(
		contest.Same("workflows", workflows, actions),
		contest.Same("steps", steps, actions),
		contest.Same("effects", c.effects.Load(), actions))
}

// Close implements contest.Contestant.
func (c *Contestant) Close() error {
	return dbos.Shutdown(c.dbos, 10*time.Second)
}
