package main

import (
	"context"
	"errors"
	"flag"
	"os"

	"google.golang.org/grpc"

	"github.com/onceward/onceward/bench/echo"
	"github.com/onceward/onceward/bench/telemetry"
)

// The servers run in processes of their own; a terminal's interrupt reaches them
// too, but it is the harness that ends them.

func echoServer(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("echo", flag.ContinueOnError)
	observed := flags.Bool("telemetry", true, "record spans and metrics")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var options []grpc.ServerOption
	if *observed {
		handler, shutdown := telemetry.New()
		defer func() { err = errors.Join(err, shutdown(context.WithoutCancel(ctx))) }()
		options = append(options, grpc.StatsHandler(handler))
	}
	return echo.Serve(ctx, options, os.Stdin, os.Stdout)
}
