package server

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/ledger"
)

// A hundred thousand tenants that are refused once each leave no more than a few
// limits behind; one that is over its limit is not forgotten.
func TestDenialsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDenials(func(context.Context, ledger.Denial) error { return nil }, slog.New(slog.DiscardHandler))
		flooded := denialKey{tenant: "flooded"}
		for range 2 * denialsAtOnce {
			d.admit(flooded)
		}
		for i := range 100_000 {
			d.admit(denialKey{tenant: fmt.Sprint("t", i), requests: i%2 == 0})
			if i%1000 == 0 {
				time.Sleep(time.Second) // of the bubble
			}
			if len(d.buckets) > 8*keptBuckets {
				t.Fatalf("%d limits after %d tenants", len(d.buckets), i)
			}
		}
		if b := d.buckets[flooded]; b == nil || b.skipped != denialsAtOnce {
			t.Errorf("what one tenant was refused too often is forgotten: %+v", b)
		}
	})
}

// A count of a tenant whose limit is not there (any more) finds one: nothing is
// lost when the queue is full.
func TestDenialsCountWithAFullQueue(t *testing.T) {
	t.Parallel()
	d := newDenials(func(context.Context, ledger.Denial) error { return nil }, slog.New(slog.DiscardHandler))
	for range maxDenialQueue {
		d.pass(ledger.Denial{Tenant: "other"}, 1)
	}
	d.pass(ledger.Denial{Tenant: "acme"}, 3)
	if b := d.buckets[denialKey{tenant: "acme"}]; b == nil || b.skipped != 3 {
		t.Errorf("counted %+v, want 3", b)
	}
}
