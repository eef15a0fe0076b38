package demo

import (
	"fmt"
	"maps"
	"slices"
)

// Tally is what the target held in the end, judged for every action.
type Tally struct {
	// Effects is how many effects the target holds.
	Effects int `json:"effects"`
	// Duplicates are the effects beyond what each action wants.
	Duplicates int `json:"duplicates"`
	// Missing are the effects that actions want and the target does not hold.
	Missing int `json:"missing"`

	// byAction counts the effects of each action.
	byAction map[string]int
	// mismatches says for each action that has not the effects it wants what
	// is wrong, in the order of the trace.
	mismatches []string
}

// tally judges what the target holds by what each action wants. Effects on
// targets that no line names are duplicates: nobody wants them.
func tally(lines []Line, held map[target]int) Tally {
	t := Tally{byAction: map[string]int{}}
	left := maps.Clone(held)
	for _, line := range lines {
		if _, judged := t.byAction[line.Action]; judged {
			continue
		}
		got := left[line.target]
		delete(left, line.target)
		t.byAction[line.Action] = got
		t.Effects += got
		t.Duplicates += max(got-line.ExpectEffects, 0)
		t.Missing += max(line.ExpectEffects-got, 0)
		if got != line.ExpectEffects {
			t.mismatches = append(t.mismatches, fmt.Sprintf("action %s (%s): %d effects, want %d", line.Action, line.Case, got, line.ExpectEffects))
		}
	}
	var strays []string
	for stray, n := range left {
		t.Effects += n
		t.Duplicates += n
		strays = append(strays, fmt.Sprintf("%s: %d effects that no request asked for", stray, n))
	}
	slices.Sort(strays)
	t.mismatches = append(t.mismatches, strays...)
	return t
}

func (t target) String() string {
	if t.local() {
		return fmt.Sprintf("note of %s on %s", t.tenant, t.note.subject)
	}
	return t.natural
}

// caseOf is a case of the trace: the actions that it tells of.
type caseOf struct {
	name    string
	actions []string
	want    int
}

// casesOf groups the actions of a trace, in its order.
func casesOf(lines []Line) []caseOf {
	var cases []caseOf
	at := map[string]int{}
	seen := map[string]bool{}
	for _, line := range lines {
		if seen[line.Action] {
			continue
		}
		seen[line.Action] = true
		i, ok := at[line.Case]
		if !ok {
			i = len(cases)
			at[line.Case] = i
			cases = append(cases, caseOf{name: line.Case})
		}
		cases[i].actions = append(cases[i].actions, line.Action)
		cases[i].want += line.ExpectEffects
	}
	return cases
}

// of is how many effects the case has in a play.
func (c caseOf) of(t Tally) int {
	n := 0
	for _, action := range c.actions {
		n += t.byAction[action]
	}
	return n
}
