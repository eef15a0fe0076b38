package storage

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/bench/contest"
	"github.com/onceward/onceward/bench/ledgerdb"
	"github.com/onceward/onceward/bench/naive"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/postgres"
)

// Way is how the hot steps are written.
type Way int

// The ways: as Onceward does, and as bench/naive does.
const (
	Grouped Way = iota
	Steps
	Single
)

// Contestant writes to a ledger. It is safe for concurrent use after Start.
type Contestant struct {
	name string
	way  Way
	// Connections of the pool of Steps and Single.
	connections int

	database ledgerdb.Database
	book     app.Ledger
	close    func()
}

var _ contest.Contestant = (*Contestant)(nil)

// New makes a contestant. The connections are for the ways that have a pool of
// their own.
func New(name string, way Way, connections int) *Contestant {
	return &Contestant{name: name, way: way, connections: connections}
}

// Name implements contest.Contestant.
func (c *Contestant) Name() string { return c.name }

// Start implements contest.Contestant.
func (c *Contestant) Start(ctx context.Context, env contest.Env) error {
	database, err := ledgerdb.Create(ctx, env, "bench_"+strings.ReplaceAll(c.name, "-", "_"))
	if err != nil {
		return err
	}
	return c.Use(ctx, database)
}

// Use writes to a ledger that is there.
func (c *Contestant) Use(ctx context.Context, database ledgerdb.Database) error {
	c.database = database
	store, err := postgres.Open(ctx, database.ServeURL)
	if err != nil {
		return err
	}
	c.book, c.close = store, store.Close
	if c.way == Grouped {
		return nil
	}
	pool, err := pgxpool.New(ctx, database.ServeURL+"&pool_max_conns="+strconv.Itoa(c.connections))
	if err != nil {
		return errors.Join(err, c.Close())
	}
	c.close = func() { pool.Close(); store.Close() }
	if c.way == Steps {
		c.book = naive.Steps(store, pool)
	} else {
		c.book = naive.Single(store, pool)
	}
	return nil
}

// Do implements contest.Contestant.
func (c *Contestant) Do(ctx context.Context, key string) error {
	return c.DoFor(ctx, ledgerdb.Tenant, key)
}

// DoFor does the action for a tenant.
func (c *Contestant) DoFor(ctx context.Context, tenant, key string) error {
	opening, err := newOpening(tenant, key)
	if err != nil {
		return err
	}
	op, created, err := c.book.Open(ctx, opening)
	if err != nil {
		return err
	}
	if !created {
		return fmt.Errorf("key %s was taken", key)
	}
	op, err = c.book.Apply(ctx, receipt(op, opening.Start.ProviderKey))
	if err != nil {
		return err
	}
	if op.State != ledger.Succeeded || op.Key != key {
		return fmt.Errorf("key %s: operation %s with key %s is %s", key, op.ID, op.Key, op.State)
	}
	return nil
}

// Duplicate implements contest.Contestant: the read that answers a duplicate
// when memory does not.
func (c *Contestant) Duplicate(ctx context.Context, key string) error {
	return c.DuplicateFor(ctx, ledgerdb.Tenant, key)
}

// DuplicateFor asks for a tenant's finished action.
func (c *Contestant) DuplicateFor(ctx context.Context, tenant, key string) error {
	op, err := c.book.GetByKey(ctx, tenant, key)
	if err != nil {
		return err
	}
	if op.State != ledger.Succeeded || op.Key != key || len(op.Receipt) == 0 {
		return fmt.Errorf("key %s: operation %s with key %s is %s", key, op.ID, op.Key, op.State)
	}
	return nil
}

// Check implements contest.Contestant.
func (c *Contestant) Check(ctx context.Context, actions int64) error {
	return c.database.Check(ctx, actions)
}

// Close implements contest.Contestant.
func (c *Contestant) Close() error {
	c.close()
	return nil
}
