package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onceward/onceward/bench/contest"
	"github.com/onceward/onceward/bench/dbosrun"
	"github.com/onceward/onceward/bench/echo"
	"github.com/onceward/onceward/bench/external"
	"github.com/onceward/onceward/bench/floor"
	"github.com/onceward/onceward/bench/growth"
	"github.com/onceward/onceward/bench/memory"
	"github.com/onceward/onceward/bench/onceward"
	"github.com/onceward/onceward/bench/results"
	"github.com/onceward/onceward/bench/riverrun"
	"github.com/onceward/onceward/bench/storage"
)

// chosen returns the entries that this run measures.
func chosen(o options, r *results.Results, env contest.Env) ([]contest.Entry, error) {
	all := everything(o, func(name, reason string) {
		env.Logf("SKIPPED %s: %s", name, reason)
		r.Skipped[name] = reason
	})
	for _, name := range o.only {
		if !slices.ContainsFunc(all, func(e contest.Entry) bool { return e.Name == name }) {
			return nil, fmt.Errorf("no entry %q: there are %s", name, strings.Join(names(all), ", "))
		}
	}
	return slices.DeleteFunc(all, func(e contest.Entry) bool { return !o.wants(e.Name) }), nil
}

func names(entries []contest.Entry) []string {
	all := make([]string, len(entries))
	for i, e := range entries {
		all[i] = e.Name
	}
	return all
}

// everything is all entries in the order of the first round.
func everything(o options, skip func(name, reason string)) []contest.Entry {
	every := []int{1, 8, 64, 256}
	usual := contest.Widths{Actions: every, Duplicates: []int{8, 64}}
	replays := int64(0)
	if o.quick {
		replays = o.history.Operations
	}
	return []contest.Entry{
		contest.Driven(onceward.New("grpc", o.server(onceward.Grouped)), contest.Widths{Actions: every}),
		contest.Driven(onceward.New("grpc-naive", o.server(onceward.Naive)), contest.Widths{Actions: every}),
		contest.Driven(&dbosrun.Contestant{Connections: o.dbosConns}, usual),
		contest.Driven(&riverrun.Contestant{Settings: o.river}, usual),
		external.Entry("restate", filepath.Join(o.source, "restate"), contest.Widths{Actions: every, Duplicates: []int{64}}, skip),
		external.Entry("temporal", filepath.Join(o.source, "temporal"), contest.Widths{Actions: every, Duplicates: []int{64}}, skip),
		contest.Driven(storage.New("ledger", storage.Grouped, 0), usual),
		contest.Driven(storage.New("ledger-cte", storage.Single, o.naiveConns), contest.Widths{Actions: every}),
		contest.Driven(storage.New("ledger-naive", storage.Steps, o.naiveConns), contest.Widths{Actions: every}),
		floor.Entry(contest.Widths{Actions: every}, skip),
		contest.Driven(&echo.Contestant{Connections: o.connections, Telemetry: o.telemetry}, contest.Widths{Actions: every}),
		contest.Driven(onceward.New("replay", o.server(onceward.Grouped)), contest.Widths{Duplicates: []int{1, 8, 64, 256}}),
		growth.Replays("replay-db", o.server(onceward.Grouped), replays),
		growth.Entry(o.history, o.server(onceward.Grouped)),
		memory.Entry(o.largestRegion()),
	}
}
