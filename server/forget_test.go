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
	w.watch(reason)
	return w.refunds.Execute(ctx, call)
}

func (w tracedRefunds) watch(text string) {
	runtime.AddCleanup(unsafe.StringData(text), func(gone chan struct{}) { gone <- struct{}{} }, w.gone)
}

// What is remembered of an operation has its receipt, and does not point to its
// arguments, not even by way of something else: they are gone with their call.
func TestTheMemoryHoldsNoArguments(t *testing.T) {
	t.Parallel()
	adapter := tracedRefunds{gone: make(chan struct{}, 4)}
	s := newFastServerOf(t, adapter, newMemoryLedger(), quiet(), nil)
	for _, replayed := range []bool{false, true, true} { // made, read again, from memory
		arguments := strings.Clone(refundArguments)
		adapter.watch(arguments)
		resp, err := call(t.Context(), s, "acme", refundRequest("key-1", arguments))
		if err != nil || resp.GetReplayed() != replayed {
			t.Fatalf("got %v, %v", resp, err)
		}
	}
	texts := 4 // as they came, three times, and as the provider's call had them
	tick, late := time.NewTicker(time.Millisecond), time.After(10*time.Second)
	defer tick.Stop()
	for {
		select {
		case <-adapter.gone:
			if texts--; texts > 0 {
				continue
			}
			if s.replays.get("acme", "key-1") == nil {
				t.Error("the operation is not remembered")
			}
			return
		case <-tick.C:
			runtime.GC()
		case <-late:
			t.Fatalf("something still points to %d texts of calls that have ended", texts)
		}
	}
}
