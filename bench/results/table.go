package results

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/bench/contest"
	"github.com/onceward/onceward/bench/memory"
)

// Marks enclose what is generated in the page.
const (
	beginMark = "<!-- measured: begin (make bench writes this part) -->"
	endMark   = "<!-- measured: end -->"
)

// WritePage replaces the generated part of a page.
func (r *Results) WritePage(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), beginMark)
	_, after, closed := strings.Cut(rest, endMark)
	if !ok || !closed {
		return fmt.Errorf("%s has no part between %q and %q", file, beginMark, endMark)
	}
	return os.WriteFile(file, []byte(before+beginMark+"\n\n"+r.Markdown()+"\n"+endMark+after), 0o644)
}

// row is one line of the first table.
type row struct{ name, about string }

func rows() []row {
	return []row{
		{"grpc", "**Onceward**, over gRPC"},
		{"grpc-naive", "the same server, one transaction a step, statement by statement"},
		{"ledger", "Onceward's ledger alone, in process"},
		{"ledger-cte", "one statement a step, each its own commit, in process"},
		{"ledger-naive", "one transaction a step, statement by statement, in process"},
		{"floor", "pgbench with the ledger's statements, one row a statement"},
		{"dbos", "DBOS Transact Go, in process"},
		{"river", "River, in process"},
		{"restate", "Restate (a server and a log of its own)"},
		{"temporal", "Temporal on Postgres, local activity"},
		{"temporal-activity", "Temporal on Postgres, regular activity"},
		{"echo", "bare gRPC echo: nothing is stored"},
		{"replay", "a duplicate, from memory, over gRPC"},
		{"replay-db", "a duplicate, from the database, over gRPC"},
	}
}

// Markdown is the generated part of the page.
func (r *Results) Markdown() string {
	var b strings.Builder
	r.header(&b)
	r.rates(&b)
	r.targets(&b)
	r.growth(&b)
	r.memory(&b)
	for _, name := range slices.Sorted(maps.Keys(r.Profiles)) {
		fmt.Fprintf(&b, "\nWhere the processor time of the server goes (%s):\n\n```\n%s\n```\n", name, strings.TrimRight(r.Profiles[name], "\n"))
	}
	return b.String()
}

func (r *Results) header(b *strings.Builder) {
	m := r.Machine
	fmt.Fprintf(b, "Measured %s, %d rounds of %g s a figure; medians.\n\n", r.Started.UTC().Format(time.DateOnly), r.Rounds, r.Seconds)
	fmt.Fprintf(b, "- Machine: %s, %d cores, %s GiB, %s, kernel %s. Callers, servers and database share it.\n", m.Processor, m.Cores, plain(m.MemoryGiB), m.System, m.Kernel)
	if m.Busy() {
		fmt.Fprintf(b, "- **The machine was busy with other work** (load average %.1f before the run): the figures say little.\n", m.Load)
	}
	fmt.Fprintf(b, "- Versions: %s.\n", list(r.Versions, " "))
	fmt.Fprintf(b, "- Postgres settings: %s.\n", list(r.Settings, "="))
	for _, run := range r.Earlier {
		other := map[string]string{}
		for name, value := range run.Settings {
			if r.Settings[name] != value {
				other[name] = value
			}
		}
		fmt.Fprintf(b, "- Figures of %s: %d rounds of %g s.", r.when(run.Started), run.Rounds, run.Seconds)
		if len(other) > 0 {
			fmt.Fprintf(b, " They have other settings: %s.", list(other, "="))
		}
		machine := m
		if machine.Load = run.Load; machine.Busy() {
			fmt.Fprintf(b, " The machine had done other work right before (load average %.1f).", run.Load)
		}
		b.WriteString("\n")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Skipped)) {
		fmt.Fprintf(b, "- **Skipped: %s**: %s.\n", name, strings.TrimRight(r.Skipped[name], "."))
	}
}

func list(m map[string]string, between string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, name+between+m[name])
	}
	return strings.Join(parts, ", ")
}

func (r *Results) rates(b *strings.Builder) {
	b.WriteString("\n| actions per second | c=1 | c=8 | c=64 | c=256 | p50, p99 at c=64 | CPU each, c=64: database | server | duplicates per second, c=64 |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, row := range rows() {
		row.about += cmp.Or(r.earlier(Prefix(row.name, "action", 64)+perSecond), r.earlier(Prefix(row.name, "duplicate", 64)+perSecond))
		cells := []string{}
		for _, callers := range []int{1, 8, 64, 256} {
			cells = append(cells, r.cell(Prefix(row.name, "action", callers)+perSecond))
		}
		latency := ""
		if f := r.Figures[Prefix(row.name, "action", 64)+p50]; f != nil && f.Median > 0 {
			latency = fmt.Sprintf("%s, %s ms", millis(f.Median), millis(r.Figures[Prefix(row.name, "action", 64)+p99].Median))
		}
		cells = append(cells, latency, r.cost(row.name, databaseCPU), r.cost(row.name, serverCPU), r.cell(Prefix(row.name, "duplicate", 64)+perSecond))
		if strings.Join(cells, "") != "" {
			fmt.Fprintf(b, "| %s | %s |\n", row.about, strings.Join(cells, " | "))
		}
	}
}

func (r *Results) targets(b *strings.Builder) {
	b.WriteString("\n| ratio | measured | in single measurements | target | |\n|---|---|---|---|---|\n")
	for _, t := range Targets() {
		value, ok := r.Ratios[t.Name]
		if !ok {
			continue
		}
		spread := ""
		if in := r.Ranges[t.Name]; in.Max > 0 {
			spread = fmt.Sprintf("%.2f to %.2f", in.Min, in.Max)
		}
		sign, reached := "≥", value >= t.Want
		if t.AtMost {
			sign, reached = "≤", value <= t.Want
		}
		fmt.Fprintf(b, "| `%s`%s | %.2f | %s | %s %g | %s |\n", t.Name, r.earlier(t.Over), value, spread, sign, t.Want, verdict(reached))
	}
	for _, l := range Limits() {
		if f := r.Figures[l.Figure]; f != nil {
			fmt.Fprintf(b, "| `%s`%s | %s | %s to %s | ≤ %g | %s |\n", l.Figure, r.earlier(l.Figure), plain(f.Median), plain(f.Min), plain(f.Max), l.Want, verdict(f.Median <= l.Want))
		}
	}
}

func verdict(reached bool) string {
	if reached {
		return "reached"
	}
	return "not reached"
}

func (r *Results) growth(b *strings.Builder) {
	header := false
	for _, size := range []string{"1m", "10m"} {
		for _, row := range []row{{"growth-" + size + "-empty", "empty, beside " + size}, {"growth-" + size + "-tenth", "a tenth of " + size}, {"growth-" + size, size + " finished operations"}} {
			row.about += r.earlier(Prefix(row.name, "duplicate", 64) + perSecond)
			cells := []string{
				r.cell(Prefix(row.name, "action", 64) + perSecond), r.cell(Prefix(row.name, "action", 256) + perSecond),
				r.cell(Prefix(row.name, "duplicate", 64) + perSecond),
				r.cell(Prefix(row.name+"-grpc", "duplicate", 64) + perSecond), r.cell(Prefix(row.name+"-grpc-day", "duplicate", 64) + perSecond),
			}
			if strings.Join(cells, "") == "" {
				continue
			}
			if !header {
				b.WriteString("\n| per second | claims and settlements, ledger alone, c=64 | c=256 | replays of any operation, ledger alone, c=64 | over gRPC, c=64 | of the last day, over gRPC, c=64 |\n|---|---|---|---|---|---|\n")
				header = true
			}
			fmt.Fprintf(b, "| %s | %s |\n", row.about, strings.Join(cells, " | "))
		}
	}
}

// memory says what reads at random places of memory cost.
func (r *Results) memory(b *strings.Builder) {
	for i, mib := range memory.Sizes() {
		mean, late := r.Figures[memory.Mean(mib)], r.Figures[memory.Late(mib)]
		if mean == nil || late == nil {
			return
		}
		if i == 0 {
			b.WriteString("\n| a read at a random place of | ns | the 99th of 100 | |\n|---|---|---|---|\n")
		}
		fmt.Fprintf(b, "| %s MiB of memory | %s | %s | %s |\n", plain(float64(mib)), plain(mean.Median), plain(late.Median), strings.TrimPrefix(r.earlier(memory.Mean(mib)), ", "))
	}
}

// earlier says when a figure was measured, where that was not in this run.
func (r *Results) earlier(name string) string {
	if f := r.Figures[name]; f != nil && !f.Run.Equal(r.Started) {
		return ", " + r.when(f.Run)
	}
	return ""
}

// when is the day of an earlier run, with the time where this one has the same day.
func (r *Results) when(run time.Time) string {
	run = run.UTC()
	if day := run.Format(time.DateOnly); day != r.Started.UTC().Format(time.DateOnly) {
		return day
	}
	return run.Format("2006-01-02 15:04")
}

// cost is the processor time of one piece of a row's work, or nothing.
func (r *Results) cost(name, of string) string {
	for _, kind := range []string{contest.Action, contest.Duplicate} {
		if cell := r.cell(Prefix(name, kind, 64) + of); cell != "" {
			return cell + " µs"
		}
	}
	return ""
}

// cell is the median of a figure, or nothing.
func (r *Results) cell(name string) string {
	f := r.Figures[name]
	if f == nil {
		return ""
	}
	return plain(f.Median)
}

// plain writes a number with the digits that mean something, and commas.
func plain(v float64) string {
	if v < 100 {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
	}
	digits := fmt.Sprintf("%.0f", v)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

func millis(micros float64) string { return fmt.Sprintf("%.3g", micros/1000) }
