package ledger

import (
	"fmt"
	"strings"
)

// RenderStates returns STATES.md: the state machine as a table and a diagram.
func RenderStates() string {
	var b strings.Builder
	b.WriteString("# The state machine\n\n")
	b.WriteString("Rendered from `ledger.Moves` by `make generate`; do not edit. Everything that is not here is\n")
	b.WriteString("refused by `ledger.Next` and by the database.\n\n")
	b.WriteString("| from \\ event |")
	for _, e := range Events() {
		fmt.Fprintf(&b, " %s |", e)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(Events())) + "\n")
	for _, from := range append([]State{New}, States()...) {
		fmt.Fprintf(&b, "| %s |", shown(from))
		for _, e := range Events() {
			to, ok := Next(from, e)
			if !ok {
				b.WriteString(" |")
				continue
			}
			fmt.Fprintf(&b, " %s |", to)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n```mermaid\nstateDiagram-v2\n")
	for _, m := range Moves() {
		from := string(m.From)
		if m.From == New {
			from = "[*]"
		}
		fmt.Fprintf(&b, "    %s --> %s: %s\n", from, m.To, m.Event)
	}
	b.WriteString("    succeeded --> [*]\n    failed --> [*]\n```\n")
	return b.String()
}

func shown(s State) string {
	if s == New {
		return "(new)"
	}
	return string(s)
}
