package model

import (
	"flag"
	"strings"
	"testing"
)

var (
	deep   = flag.Int("depth", 0, "steps that every scenario is searched to, in place of its own; -1: until there is nothing new")
	faults = flag.Int("faults", -1, "faults that may happen in every scenario, in place of its own")
	only   = flag.String("scenario", "", "search only the scenarios with this in their names")
)

// Whatever happens in whatever order, every law holds at every step, and every
// world comes to an end by itself once nothing goes wrong any more.
func TestEveryWorld(t *testing.T) {
	for _, s := range Scenarios() {
		if !strings.Contains(s.Name, *only) {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			if *deep != 0 {
				s.Depth = max(*deep, 0)
			}
			if *faults >= 0 {
				s.Faults = *faults
			}
			r := New(s).Search(Laws(), Limits{Depth: s.Depth})
			t.Log(r)
			if r.Violation != nil {
				t.Error(r.Violation)
			}
		})
	}
}

// What the model assumes of providers and people is assumed for a reason: without
// any of it there are two effects of one key.
func TestEveryPremiseIsNeeded(t *testing.T) {
	for name, s := range Broken() {
		t.Run(name, func(t *testing.T) {
			r := New(s).Search(Laws()[:1], Limits{Depth: 22})
			if r.Violation == nil {
				t.Fatalf("no counterexample without this premise: either it is none, or the search sees nothing. %s", r)
			}
			t.Log(r, r.Violation)
		})
	}
}
