package results

import "fmt"

// Target is a ratio of two figures, and what it should be.
type Target struct {
	Name        string
	Over, Under string // figures
	Want        float64
	AtMost      bool // it should be at most Want, not at least
}

// Limit is a figure that should be at most so much.
type Limit struct {
	Figure string
	Want   float64
}

// Targets are the ratios by name, in the order of the table.
func Targets() []Target {
	rate := func(name, kind string, callers int) string { return Prefix(name, kind, callers) + perSecond }
	var all []Target
	for _, callers := range []int{64, 256} {
		for _, other := range []struct {
			short, name string
			want        float64
		}{{"naive", "grpc-naive", 4}, {"dbos", "dbos", 7}, {"river", "river", 8}, {"restate", "restate", 9}, {"temporal", "temporal", 100}} {
			all = append(all, Target{
				Name: fmt.Sprintf("grpc_vs_%s_c%d", other.short, callers),
				Over: rate("grpc", "action", callers), Under: rate(other.name, "action", callers), Want: other.want,
			})
		}
	}
	all = append(all,
		Target{Name: "ledger_vs_naive_c256", Over: rate("ledger", "action", 256), Under: rate("ledger-naive", "action", 256), Want: 8},
		Target{Name: "single_vs_cte_c1", Over: Prefix("ledger", "action", 1) + p50, Under: Prefix("ledger-cte", "action", 1) + p50, Want: 1.1, AtMost: true},
		Target{Name: "replay_vs_echo_c64", Over: rate("replay", "duplicate", 64), Under: rate("echo", "action", 64), Want: 0.85},
		Target{Name: "replay_db_vs_dbos_c64", Over: rate("replay-db", "duplicate", 64), Under: rate("dbos", "duplicate", 64), Want: 3},
	)
	for _, size := range []string{"1m", "10m"} {
		grown := "growth-" + size
		all = append(all,
			Target{Name: "growth_" + size + "_claim", Over: rate(grown, "action", 256), Under: rate(grown+"-empty", "action", 256), Want: 0.85},
			Target{Name: "growth_" + size + "_claim_c64", Over: rate(grown, "action", 64), Under: rate(grown+"-empty", "action", 64), Want: 0.85},
			Target{Name: "growth_" + size + "_claim_after_checkpoint", Over: rate(grown+"-checkpointed", "action", 256), Under: rate(grown+"-empty-checkpointed", "action", 256), Want: 0.85},
			Target{Name: "growth_" + size + "_replay", Over: rate(grown, "duplicate", 64), Under: rate(grown+"-empty", "duplicate", 64), Want: 0.85},
			Target{Name: "growth_" + size + "_replay_vs_tenth", Over: rate(grown, "duplicate", 64), Under: rate(grown+"-tenth", "duplicate", 64), Want: 0.85},
			Target{Name: "growth_" + size + "_replay_grpc", Over: rate(grown+"-grpc", "duplicate", 64), Under: rate(grown+"-empty-grpc", "duplicate", 64), Want: 0.85},
			Target{Name: "growth_" + size + "_replay_grpc_day", Over: rate(grown+"-grpc-day", "duplicate", 64), Under: rate(grown+"-empty-grpc-day", "duplicate", 64), Want: 0.85},
		)
	}
	return all
}

// Limits are the figures that have a limit of their own.
func Limits() []Limit {
	return []Limit{
		{Figure: Prefix("ledger", "action", 256) + databaseCPU, Want: 40},
		{Figure: Prefix("grpc", "action", 64) + tail, Want: 3},
		{Figure: "grpc_rss_idle_mib", Want: 40},
		{Figure: "grpc_rss_c256_mib", Want: 150},
	}
}
