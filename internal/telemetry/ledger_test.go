package telemetry

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/onceward/onceward/ledger"
)

// ledgerMetrics are the metrics of a ledger with a clock, and room for some action
// types.
func ledgerMetrics(t *testing.T, actionTypes int) (*Ledger, *prometheus.Registry, *time.Time) {
	t.Helper()
	r := prometheus.NewRegistry()
	l := newLedger(r, newNames(actionTypes, 0).of)
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	l.open.now = func() time.Time { return now }
	return l, r, &now
}

// shownBy are the values of some metrics, a line each, as a scrape has them.
func shownBy(t *testing.T, r *prometheus.Registry, names string) []string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	var lines []string
	for line := range strings.Lines(w.Body.String()) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, _, _ = strings.Cut(name, "{")
		if slices.Contains(strings.Fields(names), name) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// wantShown compares some metrics.
func wantShown(t *testing.T, r *prometheus.Registry, names, lines string) {
	t.Helper()
	var wanted []string
	for line := range strings.Lines(lines) {
		if line = strings.TrimSpace(line); line != "" {
			wanted = append(wanted, line)
		}
	}
	if g, w := strings.Join(shownBy(t, r, names), "\n"), strings.Join(wanted, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

const openMetrics = "onceward_operations onceward_oldest_operation_age_seconds onceward_overdue_operations onceward_kill_switches onceward_open_reviews onceward_restores"

func TestCensusIsTold(t *testing.T) {
	t.Parallel()
	l, r, now := ledgerMetrics(t, 2)
	wantShown(t, r, openMetrics, "") // nothing is known yet

	l.Counted(ledger.Census{
		Open: []ledger.OpenCount{
			{State: ledger.Unknown, ActionType: "a", Count: 2, Overdue: 1, Oldest: 3 * time.Minute},
			{State: ledger.Unknown, ActionType: "b", Count: 1, Oldest: 5 * time.Minute},
			{State: ledger.NeedsReview, ActionType: "a", Count: 7, Oldest: time.Hour},
			{State: ledger.NeedsReview, ActionType: "c", Count: 1, Overdue: 1, Oldest: time.Second}, // one too many
			{State: ledger.NeedsReview, Count: 100, Oldest: time.Hour},
		},
		Switches: map[ledger.SwitchScope]int{ledger.SwitchProvider: 2},
		Restores: 1,
		Reviews:  map[ledger.ReviewReason]int{ledger.Contradicted: 1, ledger.Inconclusive: 107},
	}, true)
	rest := `
		onceward_kill_switches{scope="action_type"} 0
		onceward_kill_switches{scope="installation"} 0
		onceward_kill_switches{scope="provider"} 2
		onceward_kill_switches{scope="tenant"} 0
		onceward_oldest_operation_age_seconds{state="needs_review"} 3600
		onceward_oldest_operation_age_seconds{state="pending"} 0
		onceward_oldest_operation_age_seconds{state="running"} 0
		onceward_oldest_operation_age_seconds{state="unknown"} 300
		onceward_open_reviews{reason="approval_required"} 0
		onceward_open_reviews{reason="budget_exhausted"} 0
		onceward_open_reviews{reason="contradicted"} 1
		onceward_open_reviews{reason="inconclusive"} 107
		onceward_operations{action_type="a",state="needs_review"} 7
		onceward_operations{action_type="a",state="unknown"} 2
		onceward_operations{action_type="b",state="unknown"} 1
		onceward_operations{action_type="other",state="needs_review"} 101
		onceward_overdue_operations{state="needs_review"} 1
		onceward_overdue_operations{state="pending"} 0
		onceward_overdue_operations{state="running"} 0
		onceward_overdue_operations{state="unknown"} 1
		onceward_restores 1`
	wantShown(t, r, openMetrics, rest)

	// What is gone is 0, and no gap.
	l.Counted(ledger.Census{Open: []ledger.OpenCount{{State: ledger.Unknown, ActionType: "a", Count: 1, Oldest: time.Second}}}, true)
	wantShown(t, r, "onceward_operations", `
		onceward_operations{action_type="a",state="needs_review"} 0
		onceward_operations{action_type="a",state="unknown"} 1
		onceward_operations{action_type="b",state="unknown"} 0
		onceward_operations{action_type="other",state="needs_review"} 0`)

	// Absent, not stale: when none could be made, and when none came.
	*now = now.Add(censusKept)
	if len(shownBy(t, r, openMetrics)) == 0 {
		t.Error("gone after a minute")
	}
	*now = now.Add(time.Second)
	wantShown(t, r, openMetrics, "")
	l.Counted(ledger.Census{}, true)
	wantShown(t, r, "onceward_overdue_operations", `
		onceward_overdue_operations{state="needs_review"} 0
		onceward_overdue_operations{state="pending"} 0
		onceward_overdue_operations{state="running"} 0
		onceward_overdue_operations{state="unknown"} 0`)
	l.Counted(ledger.Census{}, false)
	wantShown(t, r, openMetrics, "")
}

func TestStoreIsTold(t *testing.T) {
	t.Parallel()
	l, r, _ := ledgerMetrics(t, 1)
	wantShown(t, r, "onceward_ledger_up onceward_ledger_waiting onceward_ledger_connections", "")
	l.Load(func() ledger.Load {
		return ledger.Load{Waiting: [ledger.Lanes]int{ledger.Writes: 3, ledger.Reads: 1}, Idle: 2, Used: 5, Limit: 17}
	})
	l.Looked(true)
	l.Batch(ledger.Writes, 40, 20*time.Millisecond)
	l.Batch(ledger.Writes, 2, time.Millisecond)
	l.Overloaded(ledger.Writes)
	l.Overloaded(ledger.Reads) // of which none is refused: nothing to count
	l.AmbiguousCommit(ledger.FoundLost)
	l.AmbiguousCommit(ledger.FoundUnknown)
	l.AmbiguousCommit(ledger.FoundLost)
	l.Unanswered()
	wantShown(t, r, "onceward_ledger_up onceward_ledger_waiting onceward_ledger_connections onceward_ledger_overloaded_total "+
		"onceward_ledger_ambiguous_commits_total onceward_ledger_errors_total", `
		onceward_ledger_ambiguous_commits_total{result="committed"} 0
		onceward_ledger_ambiguous_commits_total{result="lost"} 2
		onceward_ledger_ambiguous_commits_total{result="unknown"} 1
		onceward_ledger_connections{state="idle"} 2
		onceward_ledger_connections{state="limit"} 17
		onceward_ledger_connections{state="used"} 5
		onceward_ledger_errors_total 1
		onceward_ledger_overloaded_total{lane="alterations"} 0
		onceward_ledger_overloaded_total{lane="writes"} 1
		onceward_ledger_up 1
		onceward_ledger_waiting{lane="alterations"} 0
		onceward_ledger_waiting{lane="reads"} 1
		onceward_ledger_waiting{lane="writes"} 3`)
	l.Looked(false)
	wantShown(t, r, "onceward_ledger_up", "onceward_ledger_up 0")
	gathered := shownBy(t, r, "onceward_ledger_batch_rows_bucket onceward_ledger_batch_rows_sum onceward_ledger_batch_duration_seconds_bucket onceward_ledger_batch_duration_seconds_count")
	for _, line := range []string{
		`onceward_ledger_batch_rows_bucket{lane="writes",le="2"} 1`, `onceward_ledger_batch_rows_bucket{lane="writes",le="64"} 2`,
		`onceward_ledger_batch_rows_bucket{lane="writes",le="512"} 2`, `onceward_ledger_batch_rows_sum{lane="writes"} 42`,
		`onceward_ledger_batch_duration_seconds_bucket{lane="writes",le="0.001"} 1`, `onceward_ledger_batch_duration_seconds_count{lane="reads"} 0`,
	} {
		if !slices.Contains(gathered, line) {
			t.Errorf("no %s in\n%s", line, strings.Join(gathered, "\n"))
		}
	}
}

// Batches are hot: telling of one allocates nothing.
func TestTellingOfABatchAllocatesNothing(t *testing.T) {
	l, _, _ := ledgerMetrics(t, 1)
	if n := testing.AllocsPerRun(100, func() { l.Batch(ledger.Reads, 7, time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// However many action types a ledger has, the label has few values.
func TestActionTypesOfACensusAreBounded(t *testing.T) {
	t.Parallel()
	l, r, _ := ledgerMetrics(t, 5)
	for i := range 1000 {
		l.Counted(ledger.Census{Open: []ledger.OpenCount{{State: ledger.Pending, ActionType: fmt.Sprint("type", i), Count: 1}}}, true)
		if n := len(shownBy(t, r, "onceward_operations")); n > 6 {
			t.Fatalf("%d values", n)
		}
	}
}

func TestLedgerMetricsAreWellNamed(t *testing.T) {
	t.Parallel()
	l, r, _ := ledgerMetrics(t, 5)
	registerBuild(r, "v1")
	l.Counted(ledger.Census{Open: []ledger.OpenCount{{State: ledger.Pending, ActionType: "a", Count: 1}}}, true)
	l.Looked(true)
	l.Load(func() ledger.Load { return ledger.Load{} })
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
