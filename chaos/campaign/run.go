package campaign

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/chaos/judge"
)

// Run runs a campaign and judges it. An error means that it could not be run, not that
// something was broken: that is in the result, which has what is known also beside an
// error. ctx ends the faults and requests early;
// what was done is judged all the same.
func Run(ctx context.Context, o Options) (Result, error) {
	o, err := o.withDefaults()
	if err != nil {
		return o.failed(err)
	}
	began := time.Now()
	running := context.WithoutCancel(ctx) // mending and judging do not end with it
	w, err := newWorld(running, o)
	defer w.close()
	if err != nil {
		return o.failed(fmt.Errorf("campaign: %w", err))
	}
	kinds, answers, err := w.choose()
	if err != nil {
		return o.failed(fmt.Errorf("campaign: %w", err))
	}
	if err := w.begin(running); err != nil {
		return o.failed(fmt.Errorf("campaign: %w", err))
	}
	c := newCallers(w, answers)
	s := &stops{world: w}
	m := &monkey{world: w, began: c.began, kinds: kinds, stops: s}

	disturbed, calm := context.WithTimeout(ctx, o.Duration)
	defer calm()
	reviewing, enough := context.WithCancel(running)
	defer enough()
	var all, reviewers sync.WaitGroup
	for i := range o.Clients {
		all.Go(func() { c.run(disturbed, i) })
	}
	all.Go(func() { m.run(disturbed) })
	all.Go(func() { w.tell(disturbed, c, m) })
	var looks []Look
	if o.LookEvery > 0 {
		all.Go(func() { looks = w.watch(disturbed, c) })
	}
	for _, tenant := range tenants() {
		reviewers.Go(func() { w.review(reviewing, tenant) })
	}
	all.Wait()

	drained, err := w.drain(running)
	if err != nil {
		return o.failed(fmt.Errorf("campaign: %w", err))
	}
	// What was proved absent is watched for a while, and so is the target here.
	wait(running, lateLanding+providerDelay)
	enough()
	reviewers.Wait()
	facts, err := w.collect(running, c, s.sure)
	if err != nil {
		return o.failed(fmt.Errorf("campaign: collecting what is there: %w", err))
	}
	violations := judge.Judge(facts)
	r := o.result(facts, violations, c, m)
	r.Drift = driftOf(looks)
	r.Seconds, r.DrainSeconds = seconds(time.Since(began)), seconds(drained)
	if len(violations) > 0 {
		r.Stories = filepath.Join(o.Dir, "stories")
		if err := tellStories(r.Stories, facts, violations, m.done); err != nil {
			r.Error = err.Error()
			return r, err
		}
	}
	return r, nil
}

// failed is the result of a campaign that could not be run or judged.
func (o Options) failed(err error) (Result, error) {
	return Result{Seed: o.Seed, Replicas: o.Replicas, Sabotage: string(o.Sabotage), Error: err.Error()}, err
}

// drain waits until nothing is open, with all faults healed and all replicas up.
func (w *world) drain(ctx context.Context) (time.Duration, error) {
	w.provider.ClearFaults()
	for _, m := range w.members {
		m.busy.Lock()
		if !m.alive() {
			if err := m.restart(ctx); err != nil {
				return 0, err
			}
		}
		m.busy.Unlock()
	}
	began := time.Now()
	for time.Since(began) < w.Patience {
		counts, err := w.open(ctx)
		if err == nil && len(counts) == 0 {
			return time.Since(began), nil
		}
		w.Log.InfoContext(ctx, "draining", "open", counts, "error", err)
		wait(ctx, time.Second)
	}
	return time.Since(began), nil // the judge finds what is stuck
}

// tell says now and then how it goes.
func (w *world) tell(ctx context.Context, c *callers, m *monkey) {
	every(ctx, 5*time.Second, func() {
		asking, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		counts, err := w.open(asking)
		faults := 0
		for _, n := range m.count() {
			faults += n
		}
		w.Log.InfoContext(ctx, "campaign", "seconds", int(time.Since(c.began).Seconds()), "calls", len(c.log.Calls()),
			"effects", len(w.provider.Effects()), "faults", faults, "open", counts, "ledger_away", err != nil)
	})
}

// tellStories writes what is known of each violation into a file of its own.
func tellStories(dir string, f judge.Facts, violations []judge.Violation, done []disturbance) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i, v := range violations {
		var b strings.Builder
		fmt.Fprintln(&b, v)
		b.WriteString(f.Story(v.Tenant, v.Key, v.OperationID))
		b.WriteString("faults:\n")
		for _, d := range done {
			fmt.Fprintf(&b, "  %s – %s %s %s\n", d.From.Round(time.Millisecond), d.To.Round(time.Millisecond), d.Kind, d.Target)
		}
		name := fmt.Sprintf("%03d-%s-%s.txt", i+1, v.Rule, v.Key)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(b.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
