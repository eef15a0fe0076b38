package ledger

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// design is the state machine as people agreed on it, a line a state. It is
// written out a second time so that a slip in Moves shows up.
const design = `
-: record→pending claim→running doubt→unknown escalate→needs_review
pending: claim→running doubt→unknown escalate→needs_review reject→failed cancel→failed expire→failed
running: confirm→succeeded refuse→failed defer→pending doubt→unknown
unknown: confirm→succeeded refuse→failed defer→pending replay→running escalate→needs_review
failed: correct→pending contradict→needs_review
needs_review: confirm→succeeded refuse→failed doubt→unknown approve→pending release→pending reject→failed cancel→failed expire→failed
succeeded:
`

// agreed reads design.
func agreed(t *testing.T) map[State]map[Event]State {
	t.Helper()
	table := make(map[State]map[Event]State)
	for line := range strings.Lines(strings.TrimSpace(design)) {
		name, moves, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			t.Fatalf("unreadable line %q", line)
		}
		from := State(strings.Trim(name, "-"))
		table[from] = make(map[Event]State)
		for _, move := range strings.Fields(moves) {
			event, to, _ := strings.Cut(move, "→")
			table[from][Event(event)] = State(to)
		}
	}
	return table
}

func TestNextDecidesEveryStateAndEvent(t *testing.T) {
	t.Parallel()
	table := agreed(t)
	froms := append([]State{New, "no such state"}, States()...)
	events := append([]Event{"", "no such event"}, Events()...)
	for _, from := range froms {
		for _, event := range events {
			want, legal := table[from][event]
			got, ok := Next(from, event)
			if got != want || ok != legal {
				t.Errorf("Next(%q, %q) = %q, %v; want %q, %v", from, event, got, ok, want, legal)
			}
		}
	}
}

func TestMovesAreSortedAndUnique(t *testing.T) {
	t.Parallel()
	// By state as in a life (failed before needs_review), then as in Events.
	order := []State{New, Pending, Running, Unknown, Failed, NeedsReview, Succeeded}
	rank := func(m Move) int {
		from, event := slices.Index(order, m.From), slices.Index(Events(), m.Event)
		if from < 0 || event < 0 || !slices.Contains(States(), m.To) {
			t.Fatalf("%v names no known state or event", m)
		}
		return from*len(Events()) + event
	}
	moves := Moves()
	for i := 1; i < len(moves); i++ {
		if rank(moves[i-1]) >= rank(moves[i]) {
			t.Errorf("%v comes before %v: a duplicate or out of order", moves[i-1], moves[i])
		}
	}
}

func TestMovesAreTheCallersOwn(t *testing.T) {
	t.Parallel()
	Moves()[0].To = "spoiled"
	if m := Moves()[0]; m.To == "spoiled" {
		t.Error("a caller of Moves can change the state machine")
	}
}

// A doubtful operation never becomes sendable by itself: the only ways out of
// unknown and running to pending are proofs (L4).
func TestLaw04_NoMoveTurnsDoubtIntoATryWithoutProof(t *testing.T) {
	t.Parallel()
	proofs := []Event{Defer, Release, Approve, Correct, Record}
	for _, m := range Moves() {
		if m.To == Pending && !slices.Contains(proofs, m.Event) {
			t.Errorf("%s leads from %q to pending", m.Event, m.From)
		}
		// Whoever replays has the same key, inside its horizon.
		if m.To == Running && m.From != New && m.From != Pending && !(m.From == Unknown && m.Event == Replay) {
			t.Errorf("%s leads from %q to running", m.Event, m.From)
		}
	}
	if to, _ := Next(Running, Doubt); to != Unknown {
		t.Errorf("doubt of a running operation leads to %q, want unknown", to)
	}
}

func TestFinal(t *testing.T) {
	t.Parallel()
	for _, s := range append([]State{New}, States()...) {
		if want := s == Succeeded || s == Failed; s.Final() != want {
			t.Errorf("%q.Final() = %v, want %v", s, s.Final(), want)
		}
	}
}

func TestStatesFileIsUpToDate(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("STATES.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(file) != RenderStates() {
		t.Error("STATES.md is not what RenderStates returns; run make generate")
	}
	for _, m := range Moves() {
		from := string(m.From)
		if m.From == New {
			from = "[*]"
		}
		if arrow := from + " --> " + string(m.To) + ": " + string(m.Event) + "\n"; !strings.Contains(string(file), arrow) {
			t.Errorf("the diagram lacks %q", arrow)
		}
	}
}

func TestReviewOpen(t *testing.T) {
	t.Parallel()
	var none *Review
	for _, c := range []struct {
		review *Review
		want   bool
	}{{none, false}, {&Review{}, true}, {&Review{Decision: Expired}, false}} {
		if got := c.review.Open(); got != c.want {
			t.Errorf("%+v.Open() = %v, want %v", c.review, got, c.want)
		}
	}
}
