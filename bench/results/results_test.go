package results_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/bench/contest"
	"github.com/onceward/onceward/bench/results"
)

func measured(t *testing.T) *results.Results {
	t.Helper()
	r := results.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	r.Rounds, r.Seconds = 3, 1
	for round := range 3 {
		for name, rate := range map[string]int64{"grpc": 4000, "grpc-naive": 1000} {
			r.Record(contest.Measurement{
				Name: name, Kind: contest.Action, Callers: 64, Ops: rate + int64(round)*100, Seconds: 1,
				P50: 1000, P99: 2500, DatabaseCPU: 40,
			})
		}
	}
	return r
}

func TestRatiosAreOfMediansWithTheirRangeOverRounds(t *testing.T) {
	r := measured(t)
	r.Finish(r.Started.Add(time.Minute))
	f := r.Figures["grpc_action_c64_per_second"]
	if f.Median != 4100 || f.Min != 4000 || f.Max != 4200 || len(f.Samples) != 3 {
		t.Errorf("figure %+v, want median 4100 of 4000, 4100, 4200", *f)
	}
	if got, want := r.Ratios["grpc_vs_naive_c64"], 4100.0/1100; got != want {
		t.Errorf("ratio %v, want %v", got, want)
	}
	if got := r.Ranges["grpc_vs_naive_c64"]; got.Min != 4200.0/1200 || got.Max != 4 {
		t.Errorf("range %+v, want 3.5 to 4", got)
	}
	if _, there := r.Ratios["grpc_vs_dbos_c64"]; there {
		t.Error("a ratio with what was not measured")
	}
}

func TestMissingFigures(t *testing.T) {
	r := measured(t)
	promises := map[string]contest.Widths{"grpc": {Actions: []int{64, 256}, Duplicates: []int{64}}}
	if got := r.Missing(promises, []int{64}); !slices.Equal(got, []string{"grpc_duplicate_c64_per_second"}) {
		t.Errorf("missing %v: 256 callers were not asked for, duplicates are not there", got)
	}
	r.Rounds = 4
	if got := r.Missing(promises, []int{64}); !slices.Contains(got, "grpc_action_c64_per_second") {
		t.Errorf("missing %v: a round has no figure", got)
	}
	r.Rounds, promises = 1, map[string]contest.Widths{"grpc": {Actions: []int{64}, Times: 3}}
	if got := r.Missing(promises, []int{64}); len(got) > 0 {
		t.Errorf("missing %v: three in one round were promised, and are there", got)
	}
	promises["grpc"] = contest.Widths{Actions: []int{64}, Times: 4}
	if got := r.Missing(promises, []int{64}); len(got) == 0 {
		t.Error("three figures do for the four that were promised")
	}
}

func TestPageKeepsWhatPeopleWrote(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	text, err := os.ReadFile("../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(page, text, 0o600); err != nil {
		t.Fatal(err)
	}
	r := measured(t)
	r.Skipped["temporal"] = "it is not there"
	r.Finish(r.Started)
	for range 2 { // the second time it replaces its own
		if err := r.WritePage(page); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(text), "<!-- measured")
	if !strings.HasPrefix(string(got), before) {
		t.Error("what stands before the measured part has changed")
	}
	for _, want := range []string{"| **Onceward**, over gRPC |  |  | 4,100 |", "`grpc_vs_naive_c64` | 3.73 | 3.50 to 4.00 | ≥ 4 | not reached", "Skipped: temporal"} {
		if strings.Count(string(got), want) != 1 {
			t.Errorf("the page does not have %q once:\n%s", want, got)
		}
	}
}

func TestMergeKeepsWhatWasNotMeasured(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	before := measured(t)
	before.Value("grpc_rss_idle_mib", "MiB", 30)
	before.Finish(before.Started)
	if err := before.Write(file); err != nil {
		t.Fatal(err)
	}
	now := results.New(before.Started.Add(time.Hour))
	now.Rounds = 1
	now.Record(contest.Measurement{Name: "grpc", Kind: contest.Action, Callers: 64, Ops: 8800, Seconds: 1, P50: 1, P99: 1})
	if err := now.Merge(file); err != nil {
		t.Fatal(err)
	}
	now.Finish(now.Started)
	if now.Figures["grpc_rss_idle_mib"].Median != 30 {
		t.Error("a figure of the earlier run is lost")
	}
	if got := now.Ratios["grpc_vs_naive_c64"]; got != 8 {
		t.Errorf("ratio %v, want 8: the new figure over the old one", got)
	}
	if got := now.Ranges["grpc_vs_naive_c64"]; got.Max != 0 {
		t.Errorf("range %+v over rounds of different runs", got)
	}
}

// A figure that an earlier run measured keeps that run's settings, however often it
// is taken over.
func TestEarlierRunsKeepTheirSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	r := measured(t)
	r.Settings = map[string]string{"shared_buffers": "15GB", "fsync": "on"}
	r.Rounds, r.Seconds, r.Machine.Load, r.Machine.Cores = 3, 2, 1.7, 2
	for _, later := range []time.Duration{0, time.Hour, 48 * time.Hour} {
		if later > 0 {
			at := r.Started.Add(later)
			r = results.New(at)
			r.Settings = map[string]string{"shared_buffers": "6GB", "fsync": "on"}
			r.Machine.Load, r.Machine.Cores = 0, 2
			r.Value("grpc_rss_idle_mib", "MiB", 30)
			if err := r.Merge(file); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Write(file); err != nil {
			t.Fatal(err)
		}
		page := r.Markdown()
		want := map[time.Duration]string{
			time.Hour:      "- Figures of 2026-01-02 03:04: 3 rounds of 2 s. They have other settings: shared_buffers=15GB. The machine had done other work right before (load average 1.7).\n",
			48 * time.Hour: "- Figures of 2026-01-02: 3 rounds of 2 s. They have other settings: shared_buffers=15GB. The machine had done other work right before (load average 1.7).\n",
		}[later]
		if strings.Contains(page, "other settings") != (later > 0) || !strings.Contains(page, want) {
			t.Errorf("after %v: %.600s", later, page)
		}
		if len(r.Earlier) > 1 {
			t.Errorf("after %v: %d runs are in it, of which two have no figure that is left", later, len(r.Earlier))
		}
	}
}
