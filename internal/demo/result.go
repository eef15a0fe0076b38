package demo

import (
	"io"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Result is what came of the three plays.
type Result struct {
	// Requests is how many lines were sent in each play.
	Requests int
	// Waiting is how many lines wait for a later release and were not sent.
	Waiting int
	// Speed is how many times faster than real the trace was played.
	Speed float64

	Direct           Tally
	Onceward, Killed Outcome

	cases []caseOf
}

// Mismatches says, a line each, which actions Onceward gave other effects than
// they want; none is the promise.
func (r Result) Mismatches() []string {
	var all []string
	for _, play := range []struct {
		play    Play
		outcome Outcome
	}{{Onceward, r.Onceward}, {Killed, r.Killed}} {
		for _, text := range play.outcome.mismatches {
			all = append(all, play.play.String()+": "+text)
		}
	}
	return all
}

// unresolved says, a line each, which operations were not finished.
func (r Result) unresolved() []string { return append(slices.Clone(r.Onceward.open), r.Killed.open...) }

// WriteJSON writes the result as one JSON object.
func (r Result) WriteJSON(w io.Writer) error {
	return json.MarshalWrite(w, struct {
		Requests   int      `json:"requests"`
		Waiting    int      `json:"waiting"`
		Direct     Tally    `json:"direct"`
		Onceward   Outcome  `json:"onceward"`
		Killed     Outcome  `json:"onceward_killed"`
		Mismatches []string `json:"mismatches,omitempty"`
	}{r.Requests, r.Waiting, r.Direct, r.Onceward, r.Killed, r.Mismatches()}, jsontext.Multiline(true))
}
