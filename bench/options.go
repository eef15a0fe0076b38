package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/bench/growth"
	"github.com/onceward/onceward/bench/memory"
	"github.com/onceward/onceward/bench/onceward"
	"github.com/onceward/onceward/bench/riverrun"
)

// options are the command line.
type options struct {
	rounds      int
	seconds     float64
	only        []string
	quick       bool
	merge       bool
	source      string // folder of this module
	keep        string // folder that stays
	out         string
	page        string
	profiles    string
	connections int
	telemetry   bool
	settings    map[string]string
	dbosConns   int
	naiveConns  int
	logLevel    string
	history     growth.History
	river       riverrun.Settings
}

// quickSeconds is as long as the smoke test measures: only that it works.
const quickSeconds = 0.2

func parse(args []string) (options, error) {
	o := options{settings: map[string]string{}, river: riverrun.Best()}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 3, "rounds; the order changes with each")
	flags.Float64Var(&o.seconds, "seconds", 3, "length of each measurement")
	only := flags.String("only", "", "measure these entries only, separated by commas")
	flags.BoolVar(&o.quick, "quick", false, "a smoke test of the harness: everything once and briefly, figures mean nothing")
	flags.BoolVar(&o.merge, "merge", false, "keep the figures of the file that this run does not measure")
	flags.StringVar(&o.source, "source", ".", "folder of this module, to build the entries that are modules of their own")
	flags.StringVar(&o.keep, "keep", "", "keep Postgres in this folder, and use the long history that is there again for half a day, with what earlier rounds added to it")
	flags.StringVar(&o.out, "out", "", "write the results to this file")
	flags.StringVar(&o.page, "page", "", "write the tables into this page")
	flags.StringVar(&o.profiles, "profiles", "", "write processor profiles of Onceward's server into this folder")
	flags.IntVar(&o.connections, "connections", 2, "client connections to each gRPC server")
	flags.BoolVar(&o.telemetry, "telemetry", true, "gRPC servers record spans and metrics")
	flags.Int64Var(&o.history.Operations, "grow", 1_000_000, "finished operations of the long history")
	flags.Int64Var(&o.history.Tenants, "tenants", 100_000, "tenants of the long history")
	flags.StringVar(&o.logLevel, "log", "warn", "log level of Onceward's server; at info it logs every request")
	flags.IntVar(&o.naiveConns, "naive-connections", 16, "connections of the ways without group commit")
	flags.IntVar(&o.dbosConns, "dbos-connections", o.dbosConns, "connections of DBOS' pool; 0 leaves its own number")
	flags.IntVar(&o.river.MaxWorkers, "river-workers", o.river.MaxWorkers, "River's MaxWorkers")
	flags.IntVar(&o.river.Connections, "river-connections", o.river.Connections, "connections of River's pool")
	flags.DurationVar(&o.river.FetchCooldown, "river-cooldown", o.river.FetchCooldown, "River's FetchCooldown")
	flags.Func("pg", "server setting, name=value; may be repeated", func(text string) error {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return errors.New("want name=value")
		}
		o.settings[name] = value
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	if o.quick {
		o.rounds, o.seconds = 1, quickSeconds
		o.history = growth.History{Operations: 2_000, Tenants: 100}
	}
	if o.rounds < 1 || o.seconds <= 0 || o.connections < 1 || o.naiveConns < 1 || o.history.Operations < 1 || o.history.Tenants < 1 {
		return o, errors.New("want at least one round, one connection, one operation and some time")
	}
	return o, nil
}

func (o options) each() time.Duration { return time.Duration(o.seconds * float64(time.Second)) }

// warmUp is long enough for connections, caches and the first plans.
func (o options) warmUp() time.Duration { return min(o.each()/2, time.Second) }

func (o options) callers() []int {
	if o.quick {
		return []int{1, 8}
	}
	return []int{1, 8, 64, 256}
}

// largestRegion is how many MiB of memory are read at most.
func (o options) largestRegion() int {
	if o.quick {
		return slices.Min(memory.Sizes())
	}
	return slices.Max(memory.Sizes())
}

// wants says whether an entry is measured. The smoke test leaves out what takes
// minutes to build. Half of the memory is read when that is asked for: it pushes what
// others have in theirs out.
func (o options) wants(name string) bool {
	switch {
	case len(o.only) > 0:
		return slices.Contains(o.only, name)
	case o.quick:
		return name != "temporal" && name != "restate"
	default:
		return name != memory.Name
	}
}

// server is Onceward's, with a ledger.
func (o options) server(ledger string) onceward.Options {
	return onceward.Options{
		Ledger: ledger, Connections: o.connections, NaiveConnections: o.naiveConns,
		Telemetry: o.telemetry, LogLevel: o.logLevel,
	}
}
