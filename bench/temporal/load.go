package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// This file is the same in bench/temporal and bench/restate.

// result is a line that goes to standard output.
type result struct {
	Name    string  `json:"name"`
	Kind    string  `json:"kind"`
	C       int     `json:"c"`
	Ops     int     `json:"ops"`
	Seconds float64 `json:"seconds"`
	P50     int64   `json:"p50_us"`
	P99     int64   `json:"p99_us"`
}

// skipped is the line when there is nothing to measure.
type skipped struct {
	Name   string `json:"name"`
	Reason string `json:"skipped"`
}

// provider is the outside world of the benchmark. It answers at once and
// remembers how often each key reached it.
type provider struct {
	mu    sync.Mutex
	calls map[string]int
}

func newProvider() *provider { return &provider{calls: map[string]int{}} }

func (p *provider) perform(key string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[key]++
	return receipt(key)
}

// receipt is what the provider answers: the same for every contestant of the
// benchmark.
func receipt(key string) string {
	return fmt.Sprintf(`{"id":"re_%s","object":"refund","status":"succeeded","amount":4900,"currency":"usd","order":"%[1]s"}`, key)
}

// check reports an error unless exactly want keys arrived, each of them once.
func (p *provider) check(want int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, n := range p.calls {
		if n != 1 {
			return fmt.Errorf("action %s ran %d times in the provider", key, n)
		}
	}
	if len(p.calls) != want {
		return fmt.Errorf("%d actions were answered, %d ran in the provider", want, len(p.calls))
	}
	return nil
}

// load is a closed loop of callers.
type load struct {
	callers        int
	warmup, window time.Duration
	// perform does the action with the key and returns its receipt.
	perform func(ctx context.Context, key string) (string, error)
}

// one performs an action and checks its receipt.
func (l load) one(ctx context.Context, key string) error {
	got, err := l.perform(ctx, key)
	if err != nil {
		return fmt.Errorf("action %s: %w", key, err)
	}
	if got != receipt(key) {
		return fmt.Errorf("action %s: the receipt is %q", key, got)
	}
	return nil
}

// run keeps the callers busy until the warm-up is over and each of them has been
// answered, and then for the window. What is answered within the window counts,
// whenever it began: with slow actions and a short window the edges would
// decide the figure otherwise. It returns the sorted latencies of what counts,
// and how many actions were answered in all.
func (l load) run(ctx context.Context, key func(caller int) string) (latencies []time.Duration, answered int, err error) {
	type answer struct {
		at      time.Time
		latency time.Duration
	}
	var (
		all    = make([][]answer, l.callers) // by caller
		errs   = make(chan error, l.callers)
		warm   sync.WaitGroup // callers that were never answered
		busy   sync.WaitGroup
		ending = make(chan struct{})
	)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	warm.Add(l.callers)
	for caller := range l.callers {
		busy.Go(func() {
			first := sync.OnceFunc(warm.Done)
			defer first()
			for {
				select {
				case <-ending:
					return
				default:
				}
				started := time.Now()
				if err := l.one(ctx, key(caller)); err != nil {
					errs <- err
					cancel() // the others need not go on
					return
				}
				now := time.Now()
				all[caller] = append(all[caller], answer{now, now.Sub(started)})
				first()
			}
		})
	}
	pause(ctx, l.warmup)
	warm.Wait()
	begin := time.Now()
	pause(ctx, l.window)
	end := begin.Add(l.window)
	close(ending)
	busy.Wait()

	select {
	case err := <-errs: // the first to fail; the others were cancelled
		return nil, 0, err
	default:
	}
	for _, answers := range all {
		answered += len(answers)
		for _, a := range answers {
			if !a.at.Before(begin) && a.at.Before(end) {
				latencies = append(latencies, a.latency)
			}
		}
	}
	if len(latencies) == 0 {
		return nil, 0, errors.New("no action was answered within the window")
	}
	slices.Sort(latencies)
	return latencies, answered, nil
}

// pause waits for the time, or for the context.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// measure runs the load with a key for each action and, where duplicates are
// wanted too, once more with keys of finished actions: every caller asks for its
// first one again and again. Each measurement is handed over when it is made and
// the provider says that every action ran once.
func (l load) measure(ctx context.Context, name string, duplicates bool, p *provider, write func(result) error) error {
	first := make([]string, l.callers)
	latencies, actions, err := l.run(ctx, func(caller int) string {
		key := "order-" + uuid.NewString()
		if first[caller] == "" {
			first[caller] = key
		}
		return key
	})
	if err == nil {
		err = p.check(actions)
	}
	if err != nil {
		return err
	}
	if err := write(l.result(name, "action", latencies)); err != nil || !duplicates {
		return err
	}
	latencies, _, err = l.run(ctx, func(caller int) string { return first[caller] })
	if err == nil {
		err = p.check(actions)
	}
	if err != nil {
		return err
	}
	return write(l.result(name, "duplicate", latencies))
}

func (l load) result(name, kind string, latencies []time.Duration) result {
	at := func(quantile float64) int64 {
		return latencies[int(quantile*float64(len(latencies)-1))].Microseconds()
	}
	return result{
		Name: name, Kind: kind, C: l.callers,
		Ops: len(latencies), Seconds: l.window.Seconds(),
		P50: at(0.50), P99: at(0.99),
	}
}
