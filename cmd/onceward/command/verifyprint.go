package command

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/onceward/onceward/proof"
)

// walked is proof.Options.Progress: the path that has just ended on a terminal,
// else the failures as they come and how far it is from time to time.
func (p *progress) walked(step proof.Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf("%d/%d  %s  %s: %s", step.Done, step.Total, step.ActionType, step.Path.Path, step.Path.Verdict)
	const every = 100 // lines of a log are read later, and by people
	if p.terminal || step.Path.Verdict.Failed() || step.Done%every == 0 || step.Done == step.Total {
		p.line(text)
	}
}

func printPaths(w io.Writer, asJSON bool) error {
	if asJSON {
		return printJSON(w, proof.Paths())
	}
	rows := [][]string{{"PATH", "WHAT HAPPENS"}}
	for _, p := range proof.Paths() {
		rows = append(rows, []string{p.Name, p.Title})
	}
	return printTable(w, rows)
}

// verifyReport is the report as --json prints it.
type verifyReport struct {
	Failures int `json:"failures"`
	proof.Report
}

func writeReportJSON(w io.Writer, r proof.Report) error {
	return printJSON(w, verifyReport{r.Failures(), r})
}

// writeReport writes a table for each subject, its dangers, and one line that
// sums up.
func writeReport(w io.Writer, r proof.Report) error {
	counts := map[proof.Verdict]int{}
	for _, s := range r.Subjects {
		fmt.Fprintf(w, "%s on %s\n", s.ActionType, s.Provider)
		rows := [][]string{{"PATH", "REQUESTS", "EFFECTS", "FINAL STATE", "VERDICT"}}
		for _, p := range s.Paths {
			counts[p.Verdict]++
			rows = append(rows, []string{p.Path, requestsOf(p), effectsOf(p), cmp.Or(p.State, "-"), verdictOf(p)})
		}
		if err := printTable(w, rows); err != nil {
			return err
		}
		writeDangers(w, s.Dangers)
		fmt.Fprintln(w)
	}
	total, counted := 0, []string{}
	for _, v := range []proof.Verdict{proof.Safe, proof.Unsafe, proof.Lie, proof.Leak, proof.Stuck, proof.NotApplicable} {
		total += counts[v]
		if counts[v] > 0 {
			counted = append(counted, fmt.Sprintf("%d %s", counts[v], v))
		}
	}
	_, err := fmt.Fprintf(w, "%d paths of %d action types: %s\n", total, len(r.Subjects), strings.Join(counted, ", "))
	return err
}

func writeDangers(w io.Writer, dangers []proof.Danger) {
	for _, d := range dangers {
		fmt.Fprintf(w, "danger (%s) %s: %s\n", d.Severity, d.Code, d.Message)
		if d.Acknowledged != "" {
			fmt.Fprintf(w, "  acknowledged: %s\n", d.Acknowledged)
		}
	}
}

func requestsOf(p proof.PathReport) string {
	if p.State == "" {
		return "-"
	}
	text := fmt.Sprintf("%d writes", p.Writes)
	if p.Writes == 1 {
		text = "1 write"
	}
	switch p.Lookups {
	case 0:
		return text
	case 1:
		return text + ", 1 look-up"
	default:
		return fmt.Sprintf("%s, %d look-ups", text, p.Lookups)
	}
}

func effectsOf(p proof.PathReport) string {
	if p.State == "" && p.Effects == 0 {
		return "-"
	}
	return fmt.Sprint(p.Effects)
}

func verdictOf(p proof.PathReport) string {
	if p.Detail == "" {
		return string(p.Verdict)
	}
	return string(p.Verdict) + ": " + p.Detail
}
