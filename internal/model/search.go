package model

import (
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/onceward/onceward/ledger"
)

// Result is what a search has seen.
type Result struct {
	Scenario string
	Worlds   int                  // that differ
	Steps    int                  // from one to another
	Depth    int                  // steps to the farthest of them
	Complete bool                 // there are no more
	Kinds    map[Kind]bool        // of steps that were taken
	Moves    map[ledger.Move]bool // that operations made
	// Violation is nil, or the shortest way to a broken law.
	Violation *Violation
}

func (r Result) String() string {
	end := "and no more"
	if !r.Complete {
		end = "and there is more"
	}
	return fmt.Sprintf("%s: %d worlds, %d steps, depth %d, %s", r.Scenario, r.Worlds, r.Steps, r.Depth, end)
}

// Violation is a law that is broken, and how it came to that.
type Violation struct {
	Law   string
	What  string
	Trace []string
}

func (v *Violation) String() string {
	if v == nil {
		return "every law holds"
	}
	return fmt.Sprintf("%s: %s, after:\n  %s", v.Law, v.What, strings.Join(v.Trace, "\n  "))
}

// Limits bound a search. Zero fields do not.
type Limits struct {
	Depth  int // steps from the beginning
	Worlds int
}

// origin is how a world was reached first.
type origin struct {
	from int32
	step Step
}

// fingerprint tells worlds apart: 128 bits, so that among a hundred million of
// them two are taken for one with a probability below 10^-22.
type fingerprint struct{ a, b uint64 }

// Search goes through every world of a scenario in the order of the steps that
// lead to it, and stops at the first broken law.
func (m *Model) Search(laws []Law, limits Limits) Result {
	type found struct {
		world World
		id    int32
	}
	seeds := [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	mark := func(w *World) fingerprint {
		return fingerprint{maphash.Comparable(seeds[0], *w), maphash.Comparable(seeds[1], *w)}
	}
	steps := m.Steps()
	result := Result{Scenario: m.Name, Kinds: map[Kind]bool{}, Moves: map[ledger.Move]bool{}}
	origins := []origin{{from: -1}}
	begin := m.Begin()
	seen := map[fingerprint]struct{}{mark(&begin): {}}
	hopes := map[fingerprint]bool{}
	layer := []found{{begin, 0}}
	broken := func(law, what string, id int32, last ...Step) Result {
		result.Violation = &Violation{Law: law, What: what, Trace: m.trace(origins, id, last...)}
		result.Worlds = len(origins)
		return result
	}
	for ; len(layer) > 0; result.Depth++ {
		if limits.Depth > 0 && result.Depth == limits.Depth || limits.Worlds > 0 && len(origins) > limits.Worlds {
			result.Worlds = len(origins)
			return result
		}
		var next []found
		for i := range layer {
			at := &layer[i]
			if what := m.hopeless(at.world, steps, hopes, mark); what != "" {
				return broken("every doubt ends", what, at.id)
			}
			for _, s := range steps {
				after, ok, err := m.Do(&at.world, s)
				if err != nil {
					return broken("what the ledger refuses is not asked of it", err.Error(), at.id, s)
				}
				if !ok {
					continue
				}
				result.Steps++
				for _, law := range laws {
					if what := law.Check(m, &at.world, after, s); what != "" {
						return broken(law.Name, what, at.id, s)
					}
				}
				if *after == at.world {
					continue
				}
				p := mark(after)
				if _, known := seen[p]; known {
					continue
				}
				seen[p] = struct{}{}
				m.note(&result, &at.world, s)
				next = append(next, found{*after, int32(len(origins))})
				origins = append(origins, origin{at.id, s})
			}
		}
		layer = next
	}
	result.Worlds, result.Complete = len(origins), true
	return result
}

// note remembers what a step to a new world was.
func (m *Model) note(r *Result, before *World, s Step) {
	r.Kinds[s.kind()] = true
	from := m.state(before.Keys[s.Key].Row)
	for _, event := range m.moved {
		to, _ := ledger.Next(from, event)
		r.Moves[ledger.Move{From: from, Event: event, To: to}] = true
		from = to
	}
}

// patience is how many fair steps every world must come to an end in.
const patience = 120

// hopeless says why nothing comes of a world in which nothing goes wrong any more
// and nobody asks for anything new: what is due is done, one by one, and time
// passes when nothing is. Each operation has ended then, or a person is asked.
func (m *Model) hopeless(w World, steps []Step, hopes map[fingerprint]bool, mark func(*World) fingerprint) string {
	var way []fingerprint
	w.Faults = 0
	for range patience {
		p := mark(&w)
		if hopes[p] || m.ended(w) {
			for _, p := range way {
				hopes[p] = true
			}
			return ""
		}
		way = append(way, p)
		moved := false
		for _, s := range steps {
			if !s.fair() {
				continue
			}
			after, ok, err := m.Do(&w, s)
			if ok && err == nil && *after != w {
				w, moved = *after, true
				break
			}
		}
		if !moved {
			return "nothing is due, and it has not ended: " + m.Describe(w)
		}
	}
	return fmt.Sprintf("it has not ended after %d fair steps: %s", patience, m.Describe(w))
}

// ended reports whether every operation has ended or is before a person.
func (m *Model) ended(w World) bool {
	for i := range m.Keys {
		r := w.Keys[i].Row
		if r.Exists && !m.state(r).Final() && r.Review == 0 {
			return false
		}
	}
	return true
}

// trace is the way to a world, with its last steps.
func (m *Model) trace(origins []origin, id int32, last ...Step) []string {
	for ; id > 0; id = origins[id].from {
		last = append([]Step{origins[id].step}, last...)
	}
	w := m.Begin()
	lines := make([]string, 0, len(last))
	for i, s := range last {
		after, _, err := m.Do(&w, s)
		line := fmt.Sprintf("%2d. %s", i+1, m.Tell(w, s))
		if now := m.Describe(*after); now != m.Describe(w) {
			line += "\n        → " + now
		}
		if err != nil {
			line += "\n        → " + err.Error()
		}
		lines, w = append(lines, line), *after
	}
	return lines
}
