package contest

import (
	"context"
	"fmt"

	"github.com/google/uuid"
)

// Contestant does the job that is compared: one action under a key, around a
// provider that answers at once, durable before and after the provider was
// called. It is safe for concurrent use between Start and Close.
type Contestant interface {
	// Name is unique, and begins the names of the figures.
	Name() string
	// Start makes everything ready, in a database of its own.
	Start(ctx context.Context, env Env) error
	// Do returns when the caller holds the receipt of a new action.
	Do(ctx context.Context, key string) error
	// Duplicate asks for an action that is finished, and returns when the caller
	// holds its receipt. It fails when a second action was made.
	Duplicate(ctx context.Context, key string) error
	// Check fails unless exactly so many actions are on record and as many
	// effects were caused: a benchmark that loses work is no benchmark.
	Check(ctx context.Context, actions int64) error
	// Close ends what Start began.
	Close() error
}

// NewKey is a key as callers make them: random, so that it falls anywhere in an
// index.
func NewKey() string { return "order-" + uuid.NewString() }

// Same fails unless what was counted is what was done.
func Same(what string, counted, done int64) error {
	if counted != done {
		return fmt.Errorf("%s: %d on record, %d done", what, counted, done)
	}
	return nil
}
