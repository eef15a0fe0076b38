package main

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// The tests of load.go are here only: bench/temporal takes minutes to build.

func TestMeasure(t *testing.T) {
	for _, c := range []struct {
		name    string
		perform func(p *provider, finished map[string]string, key string) (string, error)
		fails   string // in the error; empty: none
	}{
		{"once each", func(p *provider, finished map[string]string, key string) (string, error) {
			if finished[key] == "" {
				finished[key] = p.perform(key)
			}
			return finished[key], nil
		}, ""},
		{"a duplicate runs again", func(p *provider, _ map[string]string, key string) (string, error) {
			return p.perform(key), nil
		}, "times in the provider"},
		{"an answer without an action", func(_ *provider, _ map[string]string, key string) (string, error) {
			return receipt(key), nil
		}, "0 ran in the provider"},
		{"another receipt", func(p *provider, _ map[string]string, key string) (string, error) {
			return p.perform(key + "!"), nil
		}, "the receipt is"},
		{"an error", func(*provider, map[string]string, string) (string, error) {
			return "", errors.New("no luck")
		}, "no luck"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, finished := newProvider(), map[string]string{}
			turn := make(chan struct{}, 1) // one caller at a time uses finished
			var kinds []string
			err := load{callers: 4, warmup: time.Millisecond, window: 20 * time.Millisecond,
				perform: func(_ context.Context, key string) (string, error) {
					turn <- struct{}{}
					defer func() { <-turn }()
					return c.perform(p, finished, key)
				},
			}.measure(t.Context(), "fake", true, p, func(r result) error {
				if r.Ops == 0 || r.C != 4 || r.Seconds != 0.02 || r.P99 < r.P50 {
					t.Errorf("measured %+v", r)
				}
				kinds = append(kinds, r.Kind)
				return nil
			})
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Fatalf("error %v, want one with %q", err, c.fails)
			}
			if got := strings.Join(kinds, " "); err == nil && got != "action duplicate" {
				t.Errorf("measured %s", got)
			}
		})
	}
}

// The window begins when every caller was answered once, however slow the first
// answers are.
func TestWindowWaitsForEveryCaller(t *testing.T) {
	var asked atomic.Int32
	l := load{callers: 3, warmup: time.Millisecond, window: 10 * time.Millisecond,
		perform: func(_ context.Context, key string) (string, error) {
			if asked.Add(1) <= 3 {
				time.Sleep(50 * time.Millisecond)
			}
			time.Sleep(100 * time.Microsecond)
			return receipt(key), nil
		}}
	latencies, answered, err := l.run(t.Context(), func(int) string { return "key" })
	if err != nil {
		t.Fatal(err)
	}
	if answered < len(latencies)+3 {
		t.Errorf("%d answered, %d counted: the first three do not count", answered, len(latencies))
	}
	if last := latencies[len(latencies)-1]; last >= 50*time.Millisecond {
		t.Errorf("a first answer of %v was counted", last)
	}
}
