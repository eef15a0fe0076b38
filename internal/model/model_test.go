package model

import (
	"flag"
	"maps"
	"strings"
	"testing"

	"github.com/onceward/onceward/ledger"
)

var (
	deep   = flag.Int("depth", 0, "steps that every scenario is searched to, in place of its own; -1: until there is nothing new")
	faults = flag.Int("faults", -1, "faults that may happen in every scenario, in place of its own")
	only   = flag.String("scenario", "", "search only the scenarios with this in their names")
)

// Whatever happens in whatever order, every law holds at every step, and every
// world comes to an end by itself once nothing goes wrong any more.
func TestEveryWorld(t *testing.T) {
	kinds, moves := map[Kind]bool{}, map[ledger.Move]bool{}
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
			maps.Copy(kinds, r.Kinds)
			maps.Copy(moves, r.Moves)
		})
	}
	if *only == "" && *deep == 0 && *faults < 0 && !t.Failed() {
		everythingHappened(t, kinds, moves)
	}
}

// everythingHappened fails where a search would pass because what could go wrong
// never came up.
func everythingHappened(t *testing.T, kinds map[Kind]bool, moves map[ledger.Move]bool) {
	t.Helper()
	for kind := range Passes + 1 {
		if !kinds[kind] {
			t.Errorf("nowhere this happens: %s", told[kind])
		}
	}
	for _, move := range ledger.Moves() {
		switch {
		case move.Event == ledger.Record, move.Event == ledger.Expire && move.From == ledger.Pending, move.Event == ledger.Reject && move.From == ledger.Pending:
			// The model has no asynchronous requests and no policy.
		case move.Event == ledger.Contradict, move.Event == ledger.Escalate && move.From == ledger.Pending:
			// Not while its premises hold, as TestEveryPremiseIsNeeded says.
		case !moves[move]:
			t.Errorf("nowhere a %q operation goes to %s by %s", move.From, move.To, move.Event)
		}
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
