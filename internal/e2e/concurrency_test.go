package e2e

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/apptest"
)

// Two workers in two processes claim the same operation at once: one sends.
func TestLaw01_TwoProcessesClaimAtOnce(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	a := w.StartChild(t, apptest.ChildOptions{}).Replica
	b := w.StartChild(t, apptest.ChildOptions{}).Replica
	for _, act := range everyAction() {
		for round := range 5 {
			answers := crowd(t, w, 4, act.request(fmt.Sprintf("%s_%d", act.name, round)), a, b)
			op := wantOneReceipt(t, w, answers, 1)
			w.WantOneEffect(t, op.GetId())
			w.WantTrail(t, op.GetId(), "claim confirm")
		}
	}
	wantSound(t, w)
}

func TestLaw01_SixtyFourCallersAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		replicas int
	}{{"one replica", 1}, {"two replicas", 2}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := apptest.New(t, apptest.Options{})
			var replicas []*apptest.Replica
			for range c.replicas {
				replicas = append(replicas, w.Start(t, nil))
			}
			for _, act := range everyAction() {
				answers := crowd(t, w, 64, act.request(act.name), replicas...)
				op := wantOneReceipt(t, w, answers, 1)
				w.WantOneEffect(t, op.GetId())
				w.WantTrail(t, op.GetId(), "claim confirm")
			}
			if n := writes(w, ""); n != len(onProvider()) {
				t.Errorf("%d writes went to the provider, want one for each action; %s", n, w.Describe())
			}
			wantSound(t, w)
		})
	}
}

// Callers of another replica join an attempt that is under way, and hear its
// end without a notification from the database.
func TestCallersJoinAcrossReplicas(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	var joins atomic.Int32
	a, b := w.Start(t, nil), w.Start(t, countJoins(&joins))
	gate := fakeprovider.NewGate()
	t.Cleanup(gate.Release)
	w.Provider.Next(fakeprovider.Fault{HoldAfter: gate})

	req := refund().request("joined")
	first := make(chan answer, 1)
	go func() {
		resp, err := w.Try(t.Context(), a, req)
		first <- answer{resp, err}
	}()
	await(t, "the request at the provider", gate.Reached())
	others := make(chan []answer, 1)
	go func() { others <- crowd(t, w, 32, req, b) }()
	eventually(t, w, "all join on the other replica", func() bool { return joins.Load() == 32 })
	gate.Release()

	answers := <-others
	for i, got := range answers {
		if d := got.resp.GetDisposition(); d != joined {
			t.Errorf("caller %d: %s, want joined", i, d)
		}
	}
	op := wantOneReceipt(t, w, append(answers, <-first), 1)
	w.WantTrail(t, op.GetId(), "claim confirm")
	w.WantEffects(t, 1)
	wantSound(t, w)
}
