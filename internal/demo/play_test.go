package demo

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	agenttrace "github.com/onceward/onceward/examples/agent-trace"
	"github.com/onceward/onceward/fakeprovider"
)

func sample(t *testing.T) []Line {
	t.Helper()
	lines, err := Decode(agenttrace.Name, agenttrace.Trace())
	if err != nil {
		t.Fatal(err)
	}
	lines, _ = playable(lines)
	return lines
}

func TestTally(t *testing.T) {
	a, b, c := target{natural: "a"}, target{natural: "b"}, target{natural: "c"}
	lines := []Line{
		{Action: "A", Case: "one", ExpectEffects: 1, target: a}, {Action: "A", Case: "one", ExpectEffects: 1, target: a},
		{Action: "B", Case: "one", ExpectEffects: 1, target: b}, {Action: "C", Case: "none", ExpectEffects: 0, target: c},
	}
	tests := []struct {
		name                         string
		held                         map[target]int
		effects, duplicates, missing int
		mismatches                   int
	}{
		{"right", map[target]int{a: 1, b: 1}, 2, 0, 0, 0},
		{"nothing", nil, 0, 0, 2, 2},
		// A duplicate must not make up for what is missing.
		{"one twice, one not", map[target]int{a: 2}, 2, 1, 1, 2},
		{"unwanted", map[target]int{a: 1, b: 1, c: 1}, 3, 1, 0, 1},
		{"stray", map[target]int{a: 1, b: 1, {natural: "z"}: 2}, 4, 2, 0, 1},
	}
	for _, test := range tests {
		got := tally(lines, test.held)
		if got.Effects != test.effects || got.Duplicates != test.duplicates || got.Missing != test.missing || len(got.mismatches) != test.mismatches {
			t.Errorf("%s: got %+v", test.name, got)
		}
	}
}

// Straight at the provider, each case goes wrong in the way that its story tells.
func TestPlayDirect(t *testing.T) {
	t.Parallel()
	got, err := playDirect(t.Context(), Options{Speed: 5, Progress: func(Progress) {}}, sample(t))
	if err != nil {
		t.Fatal(err)
	}
	for action, want := range map[string]int{
		"A01": 3, "A02": 3, "A03a": 1, "A03b": 2, "A03c": 2, "A04": 4, "A05": 1, "A06": 2, "A07": 1, "A08": 0, "A09": 2,
		"A10": 8, "A11": 0, "A12a": 1, "A12b": 1, "A13": 3, "A14": 2, "A15": 2, "A16": 2, "A17": 2, "A18": 1,
	} {
		if got.byAction[action] != want {
			t.Errorf("action %s has %d effects, want %d", action, got.byAction[action], want)
		}
	}
	if got.Effects != 43 || got.Duplicates != 24 || got.Missing != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestKillPoints(t *testing.T) {
	lines := sample(t)
	byNumber := map[int]Line{}
	firstOf := map[string]int{}
	for _, line := range lines {
		byNumber[line.Number] = line
		if _, ok := firstOf[line.Action]; !ok {
			firstOf[line.Action] = line.Number
		}
	}
	for _, n := range []int{0, 1, 5, 1000} {
		points := killPoints(lines, n)
		if len(points) > n || n <= 5 && len(points) != n {
			t.Errorf("asked for %d kills, got %d", n, len(points))
		}
		applied := 0
		for number, point := range points {
			line := byNumber[number]
			if firstOf[line.Action] != number || line.target.local() || sheltered(line) {
				t.Errorf("a kill at line %d, which causes no call that the provider takes", number)
			}
			if point.applied {
				applied++
			}
		}
		if want := (len(points) + 1) / 2; applied != want {
			t.Errorf("%d of %d kills are after the provider has applied it, want %d", applied, len(points), want)
		}
	}
}

// A service that cannot be had ends the whole demo, with its reason.
func TestRunFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("no database")
	_, err := Run(t.Context(), Options{
		Trace: sample(t), Speed: 20,
		Open: func(context.Context, Setup) (Service, error) { return nil, broken },
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if _, err := Run(t.Context(), Options{Trace: sample(t), Speed: 0}); err == nil {
		t.Error("speed 0 was accepted")
	}
}

func TestReport(t *testing.T) {
	lines := sample(t)
	right := map[target]int{}
	for _, line := range lines {
		right[line.target] = line.ExpectEffects
	}
	doubled := map[target]int{}
	for on, count := range right {
		doubled[on] = 2 * count
	}
	r := Result{
		Requests: len(lines), Waiting: 2, cases: casesOf(lines), Direct: tally(lines, doubled),
		Onceward: Outcome{Tally: tally(lines, right), Replayed: 26}, Killed: Outcome{Tally: tally(lines, right), Kills: 5},
	}
	if wrong := r.Mismatches(); len(wrong) > 0 {
		t.Errorf("mismatches %v, want none: those of the direct side are no news", wrong)
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if len(line) > 80 {
			t.Errorf("wider than a screen: %s", line)
		}
	}
	for _, want := range []string{"fan-out                                   1       ! 2         1         1\n", "duplicates                                0        20         0         0\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no line %q in\n%s", want, text.String())
		}
	}

	delete(right, target{natural: fakeprovider.RefundOf("ch_1010")})
	r.Killed.Tally = tally(lines, right)
	wrong := r.Mismatches()
	if len(wrong) != 1 || !strings.Contains(wrong[0], "A10 (fan-out): 0 effects, want 1") {
		t.Errorf("mismatches %v, want the missing effect of A10", wrong)
	}
	var out bytes.Buffer
	if err := r.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "A10 (fan-out)") {
		t.Errorf("the mismatch is not in %s", out.String())
	}
}
