package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const name = "restate"

type options struct {
	dir         string
	concurrency int
	seconds     float64
	warmup      time.Duration
	duplicates  bool
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", os.TempDir(), "folder for the server's data")
	flag.IntVar(&o.concurrency, "concurrency", 64, "number of callers")
	flag.Float64Var(&o.seconds, "seconds", 10, "length of the measurement")
	flag.DurationVar(&o.warmup, "warmup", 3*time.Second, "how long the callers run before it")
	flag.BoolVar(&o.duplicates, "duplicates", false, "ask for finished keys again, too")
	flag.String("postgres", "", "accepted and not used: the server has a log of its own")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, release := withParent(ctx)
	err := run(ctx, o, os.Stdout)
	release()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "restate:", err)
		os.Exit(1)
	}
}

// run starts the server, measures and prints the result. A server that cannot
// be had or does not start is no error: it is reported as skipped.
func run(ctx context.Context, o options, out io.Writer) error {
	skip := func(what string, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return json.NewEncoder(out).Encode(skipped{name, fmt.Sprintf("%s: %v", what, err)})
	}
	program, err := install(ctx, cacheFolder(o.dir))
	if err != nil {
		return skip("the server's program cannot be had", err)
	}
	folder, err := os.MkdirTemp(o.dir, "restate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	server, err := startServer(ctx, program, folder)
	if err != nil {
		return skip("the server did not start", err)
	}
	defer server.close()

	p := newProvider()
	logs := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})
	handlers, stop, err := serveHandlers(ctx, p, logs)
	if err != nil {
		return err
	}
	defer stop()
	if err := server.register(ctx, handlers); err != nil {
		return fmt.Errorf("registering the handlers: %w", err)
	}
	return load{
		callers: o.concurrency,
		warmup:  o.warmup,
		window:  time.Duration(o.seconds * float64(time.Second)),
		perform: caller(server.ingress, o.concurrency),
	}.measure(ctx, name, o.duplicates, p, func(r result) error { return json.NewEncoder(out).Encode(r) })
}
