package growth

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/onceward/onceward/bench/contest"
	"github.com/onceward/onceward/bench/ledgerdb"
	"github.com/onceward/onceward/bench/onceward"
)

// replayed is how many finished operations there are to ask for: many more than
// a server has in memory.
const replayed = 500_000

// Replays measures duplicates that a server does not have in memory: it is
// started anew in each round on a ledger with a long history of one tenant.
func Replays(name string, o onceward.Options, operations int64) contest.Entry {
	h := History{Operations: operations, Tenants: 1}
	if operations == 0 {
		h.Operations = replayed
	}
	var database ledgerdb.Database
	var env contest.Env
	widths := contest.Widths{Duplicates: []int{8, 64, 256}}
	return contest.Entry{
		Name:     name,
		Promises: map[string]contest.Widths{name: widths},
		Prepare: func(ctx context.Context, e contest.Env) (err error) {
			env = e
			if database, err = ledgerdb.Create(ctx, env, "bench_replays"); err != nil {
				return err
			}
			return Fill(ctx, env, database, h)
		},
		Measure: func(ctx context.Context, round contest.Round) (err error) {
			c := onceward.New(name, o)
			if err := c.Serve(ctx, round.Env, database); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, c.Close()) }()
			for _, callers := range round.Among(widths.Duplicates) {
				m, err := round.Load(ctx, name, contest.Duplicate, callers, c.ServerCPU, func(ctx context.Context) error {
					_, key := h.Owner(rand.Int64N(h.Operations)) //nolint:gosec // which key is no secret
					return c.Duplicate(ctx, key)
				})
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				round.Record(m)
			}
			return c.CheckReplays(ctx, h.Operations)
		},
		Finish: func(ctx context.Context) error {
			if env.Postgres == "" {
				return nil // it did not get that far
			}
			return env.Drop(ctx, "bench_replays")
		},
	}
}
