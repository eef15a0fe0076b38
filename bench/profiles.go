package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/onceward/onceward/bench/contest"
	"github.com/onceward/onceward/bench/onceward"
	"github.com/onceward/onceward/bench/results"
)

// profiles looks where the server's processor time goes, in runs of their own:
// what is profiled is not measured.
func profiles(ctx context.Context, o options, env contest.Env, r *results.Results) error {
	if o.profiles == "" {
		return nil
	}
	if err := os.MkdirAll(o.profiles, 0o755); err != nil {
		return err
	}
	for _, p := range []struct{ name, kind, title string }{
		{"grpc", contest.Action, "actions, c=64"},
		{"replay", contest.Duplicate, "duplicates from memory, c=64"},
	} {
		if !o.wants(p.name) {
			continue
		}
		file := filepath.Join(o.profiles, p.name+"_c64.pprof")
		if err := profile(ctx, o, env, onceward.New(p.name, o.server(onceward.Grouped)), p.kind, file); err != nil {
			return fmt.Errorf("profile of %s: %w", p.name, err)
		}
		text, err := top(ctx, env.Self, file)
		if err != nil {
			return err
		}
		r.Profiles[p.title] = text
		env.Logf("profile of %s: %s", p.title, file)
	}
	return nil
}

func profile(ctx context.Context, o options, env contest.Env, c *onceward.Contestant, kind, file string) (err error) {
	if err := c.Start(ctx, env); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	do := func(ctx context.Context) error { return c.Do(ctx, contest.NewKey()) }
	if kind == contest.Duplicate {
		key := contest.NewKey()
		if err := c.Do(ctx, key); err != nil {
			return err
		}
		do = func(ctx context.Context) error { return c.Duplicate(ctx, key) }
	}
	if err := c.Profile(file); err != nil {
		return err
	}
	_, err = contest.Load{Callers: 64, For: o.each(), Do: do}.Run(ctx)
	return errors.Join(err, c.Profile(""))
}

// top is the functions that took most, as pprof tells it.
func top(ctx context.Context, program, file string) (string, error) {
	output, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", "-nodecount=25", program, file).Output() //nolint:gosec // our own files
	if err != nil {
		return "", fmt.Errorf("go tool pprof: %w", err)
	}
	// What comes before tells of this very file.
	_, table, ok := strings.Cut(string(output), "Duration:")
	if !ok {
		return "", fmt.Errorf("go tool pprof said %q", output)
	}
	return "Duration:" + table, nil
}
