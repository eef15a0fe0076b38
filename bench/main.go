package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/onceward/onceward/bench/onceward"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// run is the harness, or one of the servers that it starts.
func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "echo":
			return echoServer(ctx, args[1:])
		case "serve":
			return onceward.Serve(ctx, args[1:], os.Stdin, os.Stdout)
		}
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	return measure(ctx, o)
}
