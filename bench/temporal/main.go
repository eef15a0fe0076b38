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
	"path/filepath"
	"syscall"
	"time"

	sdklog "go.temporal.io/sdk/log"
	serverlog "go.temporal.io/server/common/log"
)

type options struct {
	postgres    string
	dir         string
	concurrency int
	seconds     float64
	warmup      time.Duration
	duplicates  bool
	regular     bool
}

func main() {
	var o options
	flag.StringVar(&o.postgres, "postgres", "", "URL of an empty database, as a superuser")
	flag.IntVar(&o.concurrency, "concurrency", 64, "number of callers")
	flag.Float64Var(&o.seconds, "seconds", 10, "length of the measurement")
	flag.DurationVar(&o.warmup, "warmup", 5*time.Second, "how long the callers run before it")
	flag.BoolVar(&o.duplicates, "duplicates", false, "ask for finished keys again, too")
	flag.BoolVar(&o.regular, "regular", false, "a regular activity instead of a local one")
	flag.StringVar(&o.dir, "dir", os.TempDir(), "folder for the server's log; everything else is in Postgres")
	flag.Parse()

	out := os.Stdout
	os.Stdout = os.Stderr // a library that prints must not come between the lines
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, release := withParent(ctx)
	err := run(ctx, o, out)
	release()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "temporal:", err)
		os.Exit(1)
	}
}

// run starts the server, measures and prints what came out. A server that does
// not start is no error: it is reported as skipped.
func run(ctx context.Context, o options, out io.Writer) error {
	name := "temporal"
	if o.regular {
		name = "temporal-activity"
	}
	lines := json.NewEncoder(out)
	logFile := filepath.Join(o.dir, "temporal.log") // with stack traces of several screens
	fmt.Fprintln(os.Stderr, "temporal: the server's log is in", logFile)
	logger := serverlog.NewZapLogger(serverlog.BuildZapLogger(serverlog.Config{Level: "warn", OutputFile: logFile}))
	server, address, err := startServer(o.postgres, logger)
	if err != nil {
		return lines.Encode(skipped{name, fmt.Sprintf("the server did not start: %v", err)})
	}
	p := newProvider()
	sdkLogger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	a, err := newActions(ctx, address, o.regular, p, sdklog.NewStructuredLogger(sdkLogger))
	if err != nil {
		return err
	}
	err = load{
		callers: o.concurrency,
		warmup:  o.warmup,
		window:  time.Duration(o.seconds * float64(time.Second)),
		perform: a.perform,
	}.measure(ctx, name, o.duplicates, p, func(r result) error { return lines.Encode(r) })
	if err != nil {
		return err // the server ends with this process
	}
	a.close()
	return server.Stop()
}
