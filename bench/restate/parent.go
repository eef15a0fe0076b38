package main

import (
	"context"
	"errors"
	"os"
	"time"
)

// This file is the same in bench/temporal and bench/restate.

var errOrphaned = errors.New("the process that started this one is gone")

// withParent returns a context that ends when the process that started this one
// is gone: nobody waits for the figures then, and nobody else would end us.
func withParent(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	parent := os.Getppid()
	go func() {
		for os.Getppid() == parent {
			select {
			case <-ctx.Done():
				return
			case <-time.After(250 * time.Millisecond):
			}
		}
		cancel(errOrphaned)
	}()
	return ctx, func() { cancel(nil) }
}
