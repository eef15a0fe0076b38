package growth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/bench/contest"
	"github.com/onceward/onceward/bench/ledgerdb"
	"github.com/onceward/onceward/bench/onceward"
	"github.com/onceward/onceward/bench/storage"
)

const (
	// turns is how often each ledger is measured in a round, after the others: what
	// else the machine does, and how fast its memory is at the moment, falls on all.
	turns = 3
	// steady is how much longer than a measurement the ledgers are written to before
	// it counts, so that the pages that are touched for the first time after a
	// checkpoint, and logged as a whole, are as few as in a server that runs: with
	// a checkpoint every half hour, next to none.
	steady = 15
	// longer is how much longer claims are measured then than anything else: vacuum
	// comes by every minute or so, and a short measurement has all of it or nothing.
	longer = 4
)

// subject is a ledger that is measured.
type subject struct {
	name     string
	history  History
	database ledgerdb.Database
	ledger   *storage.Contestant
	made     atomic.Int64 // actions
}

// replay reads under a key and a tenant in no order.
func (s *subject) replay(ctx context.Context) error {
	tenant, key := s.history.Owner(rand.Int64N(s.history.Operations)) //nolint:gosec // which key is no secret
	return s.ledger.DuplicateFor(ctx, tenant, key)
}

// act writes under a new key of a tenant in no order.
func (s *subject) act(ctx context.Context) error {
	if err := s.ledger.DoFor(ctx, s.history.Tenant(rand.Int64N(s.history.Operations)), contest.NewKey()); err != nil { //nolint:gosec // which tenant is no secret
		return err
	}
	s.made.Add(1)
	return nil
}

// measure measures the ledgers, the longest last: what has no room in the cache
// pushes out what was read before it.
func measure(ctx context.Context, round contest.Round, o onceward.Options, w contest.Widths, short, tenth, long *subject) (err error) {
	var open closers
	defer func() { err = errors.Join(err, open.close()) }()
	began := time.Now()
	before := map[*subject]int64{}
	for _, s := range []*subject{short, tenth, long} {
		s.ledger = storage.New(s.name, storage.Grouped, 0)
		if err := s.ledger.Use(ctx, s.database); err != nil {
			return err
		}
		open = append(open, s.ledger)
		if err := size(ctx, round, s.name, s.database); err != nil {
			return err
		}
		if before[s], err = finished(ctx, s.database); err != nil {
			return err
		}
		if err := warm(ctx, round, s.database); err != nil {
			return err
		}
	}
	if err := serve(ctx, round, o, w, short, long); err != nil {
		return err
	}
	if err := ask(ctx, round, w, short, tenth, long); err != nil {
		return err
	}
	if err := claims(ctx, round, w, short, long); err != nil {
		return err
	}
	for s, n := range before {
		after, err := finished(ctx, s.database)
		if err != nil {
			return err
		}
		if err := contest.Same(s.name+": new operations", after-n, s.made.Load()); err != nil {
			return err
		}
	}
	return takeBack(ctx, long.database, long.history, began)
}

// serve asks servers that have nothing in memory. What is asked for again comes
// soon after its operation as a rule, and what is a day old is on pages that
// follow each other, however long the history.
func serve(ctx context.Context, round contest.Round, o onceward.Options, w contest.Widths, subjects ...*subject) (err error) {
	var open closers
	defer func() { err = errors.Join(err, open.close()) }()
	var recent, all []trial
	for _, s := range subjects {
		c := onceward.New(s.name, o)
		if err := c.Serve(ctx, round.Env, s.database); err != nil {
			return err
		}
		open = append(open, c)
		since := func(first int64) func(context.Context) error {
			return func(ctx context.Context) error {
				_, key := s.history.Owner(s.history.shared(first))
				return c.Duplicate(ctx, key)
			}
		}
		recent = append(recent, trial{lastDay(s.name), c.ServerCPU, since(s.history.Operations - max(1, s.history.Operations/days))})
		all = append(all, trial{served(s.name), c.ServerCPU, since(0)})
	}
	for _, trials := range [][]trial{recent, all} { // the old ones would push the new ones out
		if err := lead(ctx, trials, 2*round.Each); err != nil {
			return err
		}
		if err := inTurns(ctx, round, contest.Duplicate, w.Duplicates, trials); err != nil {
			return err
		}
	}
	return nil
}

// ask asks the ledgers for any of their operations.
func ask(ctx context.Context, round contest.Round, w contest.Widths, subjects ...*subject) error {
	var trials []trial
	for _, s := range subjects {
		trials = append(trials, trial{s.name, nil, s.replay})
	}
	// A page costs most when a connection sees it for the first time, and a server
	// that has run for days has seen what fits its cache.
	if err := lead(ctx, trials, 5*round.Each); err != nil {
		return err
	}
	return inTurns(ctx, round, contest.Duplicate, w.Duplicates, trials)
}

// claims makes new operations, right after a checkpoint and after a while.
func claims(ctx context.Context, round contest.Round, w contest.Widths, subjects ...*subject) error {
	var trials []trial
	for _, s := range subjects {
		trials = append(trials, trial{s.name, nil, s.act})
	}
	most := []int{slices.Max(w.Actions)}
	for _, s := range subjects {
		// No page is dirty, and each is written to the log as a whole when it is first
		// touched.
		if err := checkpoint(ctx, s.database); err != nil {
			return err
		}
		if err := once(ctx, round, contest.Action, most, trial{checkpointed(s.name), nil, s.act}); err != nil {
			return err
		}
	}
	if err := lead(ctx, trials, steady*round.Each); err != nil {
		return err
	}
	round.Each *= longer
	return inTurns(ctx, round, contest.Action, w.Actions, trials)
}

// closers are what must be closed.
type closers []io.Closer

func (cs closers) close() (err error) {
	for _, c := range cs {
		err = errors.Join(err, c.Close())
	}
	return err
}

// trial is what is done to a ledger. The clock is its server's, if there is one.
type trial struct {
	name   string
	server contest.Clock
	do     func(context.Context) error
}

// lead does what is measured later, for so long each.
func lead(ctx context.Context, trials []trial, each time.Duration) error {
	for _, t := range trials {
		if _, err := (contest.Load{Callers: 64, For: each, Do: t.do}).Run(ctx); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

// inTurns measures one after the other, several times.
func inTurns(ctx context.Context, round contest.Round, kind string, callers []int, trials []trial) error {
	for range turns {
		for _, t := range trials {
			if err := once(ctx, round, kind, callers, t); err != nil {
				return err
			}
		}
	}
	return nil
}

func once(ctx context.Context, round contest.Round, kind string, callers []int, t trial) error {
	for _, n := range round.Among(callers) {
		m, err := round.Load(ctx, t.name, kind, n, t.server, t.do)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		round.Record(m)
	}
	return nil
}
