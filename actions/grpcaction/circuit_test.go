package grpcaction

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/onceward/onceward/actions"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// TestCircuit: an adapter that does not answer is left alone for a while, and
// then asked by one attempt.
func TestCircuit(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	p := &peer{execute: func(context.Context, *oncewardv1.ExecuteRequest) (*oncewardv1.ExecuteResponse, error) {
		if down.Load() {
			return nil, status.Error(codes.Internal, "down")
		}
		return applied(), nil
	}}
	address := serve(t, p)
	const openFor = 50 * time.Millisecond
	a := adapterAt(t, Options{Address: address, Circuit: Circuit{Failures: 2, OpenFor: openFor}})
	do := func() actions.Outcome { return a.Execute(t.Context(), callOf(t, `{}`)) }

	down.Store(true)
	if first, second := do(), do(); first.Kind != actions.Ambiguous || second.Kind != actions.Ambiguous {
		t.Fatalf("got %s and %s", shownOutcome(first), shownOutcome(second))
	}
	o := do()
	if o.Kind != actions.NotApplied || o.RetryAfter != openFor || !strings.Contains(o.Failure.Evidence, "circuit is open") || p.executes() != 2 {
		t.Fatalf("got %s, wait %s, after %d calls; want not applied without a third", shownOutcome(o), o.RetryAfter, p.executes())
	}
	if f := a.Lookup(t.Context(), actions.Query{Call: callOf(t, `{}`)}); len(p.looked) != 1 {
		t.Errorf("an open circuit stops a look-up: %+v", f)
	}
	down.Store(false)
	deadline, tick := time.Now().Add(patience), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for o = do(); o.Kind == actions.NotApplied && time.Now().Before(deadline); o = do() {
		<-tick.C // the circuit has a clock of its own
	}
	if o.Kind != actions.Applied || do().Kind != actions.Applied {
		t.Errorf("got %s, want the circuit closed", shownOutcome(o))
	}
}

// TestWhatOpensACircuit: answers do not, whatever they refuse; nobody there does.
func TestWhatOpensACircuit(t *testing.T) {
	t.Parallel()
	for kind := actions.Ambiguous; kind <= actions.RateLimited; kind++ {
		c := newCircuit("a.b", Circuit{Failures: 1, OpenFor: time.Hour})
		done, open := c.enter()
		if open != nil {
			t.Fatal("open from the start")
		}
		done(actions.Outcome{Kind: kind, Failure: actions.Failure{Code: "slow_down"}})
		if _, open = c.enter(); (open != nil) != (kind == actions.Ambiguous) {
			t.Errorf("%s: open %t", kind, open != nil)
		}
	}
	a := adapterAt(t, Options{Address: "127.0.0.1:1", Circuit: Circuit{Failures: 1}})
	a.Execute(t.Context(), callOf(t, `{}`))
	if o := a.Execute(t.Context(), callOf(t, `{}`)); !strings.Contains(o.Failure.Evidence, "circuit is open") || o.RetryAfter != DefaultCircuitOpenFor {
		t.Errorf("got %s", shownOutcome(o))
	}
	// An adapter cannot pass its own words off as that.
	claimed := outcomeOf(&oncewardv1.Outcome{Kind: 9, Failure: &oncewardv1.Failure{Code: codeUnreachable}})
	if claimed.Failure.Code == codeUnreachable {
		t.Errorf("got %s", shownOutcome(claimed))
	}
}
