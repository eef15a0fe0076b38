package actionstest_test

import (
	"testing"

	"github.com/onceward/onceward/actions/actionstest"
	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/proof"
)

// TestPathsBite: a path that is called safe has done what it says. What is
// counted of a refund shows it: that the worker died and another attempt was
// made, that the effect was hidden from the first look.
func TestPathsBite(t *testing.T) {
	t.Parallel()
	report := actionstest.Report(t, subject(refund, demo.Options{}, fakeprovider.Options{}))
	wantProved(t, report)
	atLeast := func(n int) func(int) bool { return func(got int) bool { return got >= n } }
	exactly := func(n int) func(int) bool { return func(got int) bool { return got == n } }
	for _, want := range []struct {
		path                      string
		writes, lookups, attempts func(int) bool
		effects                   int
		state                     string
	}{
		{"plain", exactly(1), exactly(0), exactly(1), 1, "succeeded"},
		{"repeated", exactly(1), exactly(0), exactly(1), 1, "succeeded"},
		{"joined", exactly(1), exactly(0), exactly(1), 1, "succeeded"},
		{"mismatch", exactly(1), exactly(0), exactly(1), 1, "succeeded"},
		{"drop-fin", exactly(2), exactly(0), exactly(2), 1, "succeeded"},
		{"drop-before", exactly(2), exactly(0), exactly(2), 1, "succeeded"},
		{"malformed", exactly(1), atLeast(1), exactly(1), 1, "succeeded"},
		{"huge", exactly(1), atLeast(1), exactly(1), 1, "succeeded"},
		{"accepted", exactly(1), atLeast(1), exactly(1), 1, "succeeded"},
		{"redirect-307", exactly(1), exactly(0), exactly(1), 0, "failed"},
		{"slow-applied", atLeast(2), exactly(0), atLeast(2), 1, "succeeded"},
		{"slow-lost", atLeast(2), exactly(0), atLeast(2), 1, "succeeded"},
		{"slow-late", atLeast(2), exactly(0), atLeast(2), 1, "succeeded"},
		{"in-flight", atLeast(3), exactly(0), atLeast(3), 1, "succeeded"},
		{"refused", exactly(1), exactly(0), exactly(1), 0, "failed"},
		{"rate-limited", exactly(2), exactly(0), exactly(2), 1, "succeeded"},
		{"refused-after-doubt", exactly(2), atLeast(1), exactly(2), 1, "succeeded"},
		{"rate-limited-after-doubt", exactly(3), exactly(0), exactly(3), 1, "succeeded"},
		{"lookup-lags", exactly(1), atLeast(1), exactly(1), 1, "succeeded"},
		{"lookup-two", exactly(1), exactly(1), exactly(1), 1, "needs_review"},
		{"lookup-errors", exactly(1), exactly(4), exactly(1), 1, "succeeded"},
		{"lookup-garbled", exactly(1), exactly(4), exactly(1), 1, "succeeded"},
		{"lookup-down", exactly(1), atLeast(4), exactly(1), 1, "needs_review"},
		{"horizon-passed", exactly(1), atLeast(1), exactly(1), 1, "succeeded"},
		{"unreachable", exactly(1), exactly(0), atLeast(2), 1, "succeeded"},
		{"killed-before-sending", exactly(1), exactly(0), exactly(2), 1, "succeeded"},
		{"killed-after-sending", exactly(2), exactly(0), exactly(2), 1, "succeeded"},
	} {
		got, _ := report.Path(want.path)
		if got.Verdict != proof.Safe || got.State != want.state || got.Effects != want.effects ||
			!want.writes(got.Writes) || !want.lookups(got.Lookups) || !want.attempts(got.Attempts) {
			t.Errorf("%s: %+v", want.path, got)
		}
	}
}
