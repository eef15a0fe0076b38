package campaign

import (
	"testing"
	"time"

	"github.com/onceward/onceward/chaos/history"
	"github.com/onceward/onceward/ledger"
)

func TestDrift(t *testing.T) {
	t.Parallel()
	var looks []Look
	for i := range 8 {
		looks = append(looks, Look{RSSBytes: int64(100 * (i + 1)), Goroutines: 50})
	}
	looks[1].RSSBytes = 0 // it could not be asked
	drifts := driftOf(looks)
	if d := drifts["rss_bytes"]; d.First != 100 || d.Last != 750 || d.Ratio != 7.5 {
		t.Errorf("rss: %+v", d)
	}
	if d := drifts["goroutines"]; d.Ratio != 1 {
		t.Errorf("goroutines: %+v", d)
	}
	if d := drifts["open"]; d.Ratio != 0 {
		t.Errorf("what was never there: %+v", d)
	}
	if driftOf(looks[:3]) != nil {
		t.Error("three looks have no quarters")
	}
}

func TestLatencies(t *testing.T) {
	t.Parallel()
	var calls []history.Call
	for i := range 100 {
		calls = append(calls, history.Call{Kind: history.Request, Answer: history.Told, State: ledger.Succeeded, Returned: time.Duration(i+1) * time.Millisecond})
	}
	calls = append(calls, history.Call{Kind: history.Request, Returned: time.Hour}, history.Call{Kind: history.Read, Answer: history.Told, Returned: time.Hour})
	if p50, p99 := latencies(calls); p50 != 51 || p99 != 100 {
		t.Errorf("p50 %v, p99 %v", p50, p99)
	}
	if p50, _ := latencies(nil); p50 != 0 {
		t.Errorf("of nothing: %v", p50)
	}
}
