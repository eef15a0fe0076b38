package results

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/bench/contest"
	"github.com/onceward/onceward/bench/machine"
)

// Results are one run, or several put together.
type Results struct {
	Started  time.Time         `json:"started"`
	Finished time.Time         `json:"finished"`
	Rounds   int               `json:"rounds"`
	Seconds  float64           `json:"seconds_each"`
	Machine  machine.Facts     `json:"machine"`
	Versions map[string]string `json:"versions"`
	// Settings of the Postgres server that differ from its defaults, and those
	// that decide what a commit is.
	Settings map[string]string `json:"settings"`
	// Earlier are the runs whose figures were put together with those of this one.
	Earlier []Run              `json:"earlier,omitempty"`
	Figures map[string]*Figure `json:"figures"`
	Ratios  map[string]float64 `json:"ratios"`
	Ranges  map[string]Range   `json:"ratio_ranges"`
	Skipped map[string]string  `json:"skipped"`
	// Profiles are the functions that took most processor time, as text.
	Profiles map[string]string `json:"profiles,omitempty"`
}

// Run is when a run began, how it measured and what else the machine did before it.
type Run struct {
	Started  time.Time         `json:"started"`
	Settings map[string]string `json:"settings"`
	Rounds   int               `json:"rounds"`
	Seconds  float64           `json:"seconds_each"`
	Load     float64           `json:"load_before"`
}

// Figure is one number, measured once or several times in each round.
type Figure struct {
	Unit    string    `json:"unit"`
	Median  float64   `json:"median"`
	Min     float64   `json:"min"`
	Max     float64   `json:"max"`
	Samples []float64 `json:"samples"`
	// Run is when the run began that measured it, where runs were put together.
	Run time.Time `json:"run"`
}

// Range is what a ratio was in single measurements. Its ends are zero where the two
// figures have no rounds in common.
type Range struct {
	Of  string  `json:"of"`
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// New begins empty results.
func New(started time.Time) *Results {
	return &Results{
		Started: started, Machine: machine.Describe(),
		Versions: map[string]string{}, Settings: map[string]string{}, Figures: map[string]*Figure{},
		Ratios: map[string]float64{}, Ranges: map[string]Range{}, Skipped: map[string]string{}, Profiles: map[string]string{},
	}
}

// Prefix is how the names of a measurement's figures begin.
func Prefix(name, kind string, callers int) string {
	return fmt.Sprintf("%s_%s_c%d", strings.ReplaceAll(name, "-", "_"), kind, callers)
}

// Record adds one measurement to its figures.
func (r *Results) Record(m contest.Measurement) {
	prefix := Prefix(m.Name, m.Kind, m.Callers)
	r.Value(prefix+perSecond, "1/s", m.PerSecond())
	r.Value(prefix+p50, "µs", m.P50)
	r.Value(prefix+p99, "µs", m.P99)
	if m.P50 > 0 {
		r.Value(prefix+tail, "", m.P99/m.P50)
	}
	if m.DatabaseCPU > 0 {
		r.Value(prefix+databaseCPU, "µs", m.DatabaseCPU)
	}
	if m.ServerCPU > 0 {
		r.Value(prefix+serverCPU, "µs", m.ServerCPU)
	}
}

// How the names of figures end.
const (
	perSecond   = "_per_second"
	p50         = "_p50_us"
	p99         = "_p99_us"
	tail        = "_p99_over_p50"
	databaseCPU = "_db_cpu_us"
	serverCPU   = "_server_cpu_us"
)

// Missing are the figures that an entry promised and that are not there for
// every round, as often as it promised.
func (r *Results) Missing(promises map[string]contest.Widths, callers []int) []string {
	var missing []string
	for name, widths := range promises {
		for kind, wanted := range map[string][]int{contest.Action: widths.Actions, contest.Duplicate: widths.Duplicates} {
			for _, c := range wanted {
				rate := Prefix(name, kind, c) + perSecond
				f := r.Figures[rate]
				if slices.Contains(callers, c) && (f == nil || len(f.Samples) != r.Rounds*max(widths.Times, 1) || f.Min <= 0) {
					missing = append(missing, rate)
				}
			}
		}
	}
	slices.Sort(missing)
	return missing
}

// Value adds one sample to a figure.
func (r *Results) Value(name, unit string, value float64) {
	f := r.Figures[name]
	if f == nil {
		f = &Figure{Unit: unit, Run: r.Started}
		r.Figures[name] = f
	}
	f.Samples = append(f.Samples, value)
	sorted := slices.Sorted(slices.Values(f.Samples))
	f.Min, f.Max = sorted[0], sorted[len(sorted)-1]
	f.Median = (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// Merge takes from an earlier file what this run did not measure.
func (r *Results) Merge(file string) error {
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var before Results
	if err := json.Unmarshal(text, &before); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for name, f := range before.Figures {
		if r.Figures[name] == nil {
			r.Figures[name] = f
		}
	}
	for _, run := range append(before.Earlier, Run{before.Started, before.Settings, before.Rounds, before.Seconds, before.Machine.Load}) {
		if r.has(run) {
			r.Earlier = append(r.Earlier, run)
		}
	}
	for name, version := range before.Versions {
		if r.Versions[name] == "" {
			r.Versions[name] = version
		}
	}
	for name, text := range before.Profiles {
		if r.Profiles[name] == "" {
			r.Profiles[name] = text
		}
	}
	return nil
}

// has reports whether a figure is of a run.
func (r *Results) has(run Run) bool {
	for _, f := range r.Figures {
		if f.Run.Equal(run.Started) {
			return true
		}
	}
	return false
}

// Finish computes the ratios.
func (r *Results) Finish(at time.Time) {
	r.Finished = at
	for _, t := range Targets() {
		over, under := r.Figures[t.Over], r.Figures[t.Under]
		if over == nil || under == nil || under.Median == 0 {
			continue
		}
		r.Ratios[t.Name] = over.Median / under.Median
		spread := Range{Of: t.Over + " / " + t.Under}
		// Samples of one turn belong together; those of different runs do not.
		if over.Run.Equal(under.Run) && len(over.Samples) == len(under.Samples) {
			for i := range over.Samples {
				ratio := over.Samples[i] / under.Samples[i]
				if i == 0 {
					spread.Min, spread.Max = ratio, ratio
				}
				spread.Min, spread.Max = min(spread.Min, ratio), max(spread.Max, ratio)
			}
		}
		r.Ranges[t.Name] = spread
	}
}

// Write writes results.json.
func (r *Results) Write(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
