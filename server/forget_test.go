package server

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/onceward/onceward/actions"
)

// tracedRefunds are refunds that are told when the arguments of a call are gone from
// memory.
type tracedRefunds struct {
	refunds
	gone chan struct{}
}

func (w tracedRefunds) Execute(ctx context.Context, call actions.Call) actions.Outcome {
	reason, _ := call.Arguments.Text("reason")
	runtime.AddCleanup(unsafe.StringData(reason), func(gone chan struct{}) { close(gone) }, w.gone)
	return w.refunds.Execute(ctx, call)
}

// What is remembered of an operation has its receipt, and does not point to its
// arguments, not even by way of something else: they are gone with their call.
func TestTheMemoryHoldsNoArguments(t *testing.T) {
	t.Parallel()
	adapter := tracedRefunds{gone: make(chan struct{})}
	s := newFastServerOf(t, adapter, newMemoryLedger(), quiet(), nil)
	for _, replayed := range []bool{false, true, true} { // made, read again, from memory
		resp, err := call(t.Context(), s, "acme", refundRequest("key-1", strings.Clone(refundArguments)))
		if err != nil || resp.GetReplayed() != replayed {
			t.Fatalf("got %v, %v", resp, err)
		}
	}
	tick, late := time.NewTicker(time.Millisecond), time.After(10*time.Second)
	defer tick.Stop()
	for {
		select {
		case <-adapter.gone:
			if s.replays.get("acme", "key-1") == nil {
				t.Error("the operation is not remembered")
			}
			return
		case <-tick.C:
			runtime.GC()
		case <-late:
			t.Fatal("something still points to the arguments of a call that has ended")
		}
	}
}
