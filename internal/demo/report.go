package demo

import (
	"fmt"
	"io"
	"strings"
)

// WriteText writes the result for a person: one screen, under 80 columns.
func (r Result) WriteText(w io.Writer) error {
	var b strings.Builder
	actions, wanted := 0, 0
	for _, c := range r.cases {
		actions, wanted = actions+len(c.actions), wanted+c.want
	}
	fmt.Fprintf(&b, `
%d requests of AI agents, with their retries, replays and rephrasings: %d
actions, of which %d should happen, each once. They were sent three times, each
time to a provider of its own that loses answers, lies and lags.

  Effects that the provider holds      wanted    direct  Onceward    killed
`, r.Requests, actions, wanted)
	for _, c := range r.cases {
		fmt.Fprintf(&b, "  %-35.35s%8d%s%s%s\n", c.name, c.want,
			judged(c.of(r.Direct), c.want), judged(c.of(r.Onceward.Tally), c.want), judged(c.of(r.Killed.Tally), c.want))
	}
	row := func(name string, cells ...string) {
		fmt.Fprintf(&b, "  %-35s%8s%10s%10s%10s\n", name, cells[0], cells[1], cells[2], cells[3])
	}
	b.WriteString("  " + strings.Repeat("-", 73) + "\n")
	row("effects", n(wanted), n(r.Direct.Effects), n(r.Onceward.Effects), n(r.Killed.Effects))
	row("duplicates", "0", n(r.Direct.Duplicates), n(r.Onceward.Duplicates), n(r.Killed.Duplicates))
	row("missing", "0", n(r.Direct.Missing), n(r.Onceward.Missing), n(r.Killed.Missing))
	row("answered from the ledger", "", "-", n(r.Onceward.Replayed), n(r.Killed.Replayed))
	row("refused (other arguments, open intent)", "", "-", n(r.Onceward.Refused), n(r.Killed.Refused))
	row("in doubt for a while, then resolved", "", "-", n(r.Onceward.UnknownResolved), n(r.Killed.UnknownResolved))
	row("process killed (kill -9) in mid-call", "", "-", "-", n(r.Killed.Kills))
	b.WriteString(`
direct    each request is one call of the provider, as an agent's tool makes it
Onceward  the same requests through a real Onceward on a real Postgres
killed    the same, while Onceward is killed in mid-call and started again
!         not what was wanted
`)
	if r.Waiting > 0 {
		fmt.Fprintf(&b, "%d requests were not sent in any play: they wait for a later release.\n", r.Waiting)
	}
	for _, text := range r.unresolved() {
		fmt.Fprintf(&b, "OPEN: %s\n", text)
	}
	for _, text := range r.Mismatches() {
		fmt.Fprintf(&b, "WRONG: %s\n", text)
	}
	b.WriteString("\nThe requests: examples/agent-trace/README.md. Try it yourself: onceward dev\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// judged is a count with a mark where it is not what was wanted.
func judged(got, want int) string {
	if got != want {
		return fmt.Sprintf("%10s", fmt.Sprintf("! %d", got))
	}
	return fmt.Sprintf("%10d", got)
}

func n(count int) string { return fmt.Sprint(count) }
