package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/bench/contest"
	"github.com/onceward/onceward/bench/ledgerdb"
	"github.com/onceward/onceward/bench/results"
	"github.com/onceward/onceward/internal/privatepg"
)

// measure starts Postgres, runs all entries in rounds and writes the results.
func measure(ctx context.Context, o options) (err error) {
	began := time.Now()
	dir, err := o.folder()
	if err != nil {
		return err
	}
	if o.keep == "" {
		defer os.RemoveAll(dir)
	}
	pg, err := startPostgres(ctx, filepath.Join(dir, "postgres"), o.settings)
	if err != nil {
		return err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err = errors.Join(err, pg.Stop(stopping))
	}()
	env, err := environment(ctx, o, pg, dir, began)
	if err != nil {
		return err
	}
	r := results.New(began)
	r.Rounds, r.Seconds = o.rounds, o.seconds
	if err := describe(ctx, env, r); err != nil {
		return err
	}
	entries, err := chosen(o, r, env)
	if err != nil {
		return err
	}
	if err := runAll(ctx, o, env, r, entries); err != nil {
		return err
	}
	if err := complete(o, r, entries); err != nil {
		return err
	}
	if err := profiles(ctx, o, env, r); err != nil {
		return err
	}
	return publish(o, env, r)
}

// folder is where all is kept: for this run, or for those after it, too.
func (o options) folder() (string, error) {
	dir, err := filepath.Abs(o.keep)
	if o.keep == "" {
		dir, err = os.MkdirTemp("", "onceward-bench-")
	}
	if err != nil {
		return "", err
	}
	switch err := os.Mkdir(dir, 0o700); {
	case o.keep != "" && errors.Is(err, fs.ErrExist):
		return dir, nil // its mode is its owner's affair
	case err != nil && !errors.Is(err, fs.ErrExist):
		return "", err
	}
	// Postgres may run as another account, which must pass through.
	return dir, os.Chmod(dir, 0o755)
}

func environment(ctx context.Context, o options, pg *privatepg.Server, dir string, began time.Time) (contest.Env, error) {
	self, err := os.Executable()
	if err != nil {
		return contest.Env{}, err
	}
	programs, err := privatepg.Find(ctx, nil)
	if err != nil {
		return contest.Env{}, err
	}
	password, err := loginPassword(filepath.Join(dir, "login.password"))
	if err != nil {
		return contest.Env{}, err
	}
	return contest.Env{
		Postgres: pg.URL("postgres"), Postmaster: pg.PID(), Programs: programs.Dir, Dir: dir, Kept: o.keep != "", Self: self, Password: password,
		Logf: func(format string, args ...any) {
			fmt.Printf("%7.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
		},
	}, nil
}

// loginPassword is the one in a file, which is made where there is none.
func loginPassword(file string) (string, error) {
	kept, err := os.ReadFile(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return string(kept), err
	}
	made := rand.Text()
	return made, os.WriteFile(file, []byte(made), 0o600)
}

// describe notes what the figures depend on.
func describe(ctx context.Context, env contest.Env, r *results.Results) error {
	version, settings, err := describePostgres(ctx, env.Postgres, env.Postmaster)
	if err != nil {
		return err
	}
	r.Settings = settings
	r.Versions["PostgreSQL"] = version
	r.Versions["Go"] = strings.TrimPrefix(r.Machine.Go, "go")
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if name, compared := comparedModules()[module.Path]; compared {
				r.Versions[name] = strings.TrimPrefix(module.Version, "v")
			}
		}
	}
	if r.Machine.Busy() {
		env.Logf("WARNING: the machine is busy with other work (load average %.1f): the figures will say little", r.Machine.Load)
	}
	if _, known := env.DatabaseCPU(); !known {
		env.Logf("OMITTED: the database's processor time: this system has no /proc")
		r.Skipped["database CPU"] = "this system has no /proc"
	}
	return nil
}

func comparedModules() map[string]string {
	return map[string]string{
		"github.com/dbos-inc/dbos-transact-golang": "DBOS Transact",
		"github.com/riverqueue/river":              "River",
		"github.com/jackc/pgx/v5":                  "pgx",
		"google.golang.org/grpc":                   "grpc-go",
		"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc": "otelgrpc",
	}
}

// runAll prepares the entries, measures each once in every round, and finishes
// them. The order turns with the rounds, so that nobody is always first.
func runAll(ctx context.Context, o options, env contest.Env, r *results.Results, entries []contest.Entry) (err error) {
	defer func() {
		for _, entry := range entries {
			if entry.Finish != nil {
				err = errors.Join(err, entry.Finish(context.WithoutCancel(ctx)))
			}
		}
	}()
	for _, entry := range entries {
		if entry.Prepare != nil {
			env.Logf("%s: preparing", entry.Name)
			if err := entry.Prepare(ctx, env); err != nil {
				return fmt.Errorf("%s: prepare: %w", entry.Name, err)
			}
		}
	}
	for n := range o.rounds {
		turn := n * len(entries) / o.rounds
		for _, entry := range slices.Concat(entries[turn:], entries[:turn]) {
			if err := turnOf(ctx, o, env, r, entry, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// turnOf measures one entry in one round. The databases that it made go: a vacuum
// in one of them would be paid by who comes next.
func turnOf(ctx context.Context, o options, env contest.Env, r *results.Results, entry contest.Entry, n int) error {
	before, err := env.Databases(ctx)
	if err != nil {
		return err
	}
	if err := entry.Measure(ctx, contest.Round{
		Env: env, Each: o.each(), WarmUp: o.warmUp(), Callers: o.callers(),
		Value: r.Value,
		Record: func(m contest.Measurement) {
			r.Record(m)
			env.Logf("round %d  %-20s %-9s c=%-3d %9.0f/s  p50 %7.2f ms  p99 %7.2f ms", n+1, m.Name, m.Kind, m.Callers, m.PerSecond(), m.P50/1000, m.P99/1000)
		},
	}); err != nil {
		return err
	}
	after, err := env.Databases(ctx)
	if err != nil {
		return err
	}
	made := slices.DeleteFunc(after, func(name string) bool { return slices.Contains(before, name) || name == ledgerdb.Template })
	return env.Drop(ctx, made...)
}

// complete fails unless every entry measured what it promised or was left out
// aloud.
func complete(o options, r *results.Results, entries []contest.Entry) error {
	var missing []string
	for _, entry := range entries {
		if r.Skipped[entry.Name] == "" {
			missing = append(missing, r.Missing(entry.Promises, o.callers())...)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("not measured: %s", strings.Join(missing, ", "))
	}
	return nil
}

// publish writes what was asked for.
func publish(o options, env contest.Env, r *results.Results) error {
	if o.merge {
		if err := r.Merge(o.out); err != nil {
			return err
		}
	}
	r.Finish(time.Now())
	if o.quick {
		env.Logf("smoke: %d figures, every action was on record; times mean nothing", len(r.Figures))
		return nil
	}
	for _, t := range results.Targets() {
		if value, ok := r.Ratios[t.Name]; ok {
			env.Logf("%-24s %8.2f", t.Name, value)
		}
	}
	if o.out != "" {
		if err := r.Write(o.out); err != nil {
			return err
		}
	}
	if o.page != "" {
		return r.WritePage(o.page)
	}
	return nil
}
