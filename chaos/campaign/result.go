package campaign

import (
	"slices"
	"time"

	"github.com/onceward/onceward/chaos/history"
	"github.com/onceward/onceward/chaos/judge"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/ledger"
)

// Result is what came out, as one line of JSON has it.
type Result struct {
	Seed    uint64  `json:"seed"`
	Seconds float64 `json:"seconds"`
	// Requests is how often callers asked, of whom so many got an answer.
	Requests int `json:"requests"`
	Answered int `json:"answered"`
	// Actions are the operations on record, Effects what the target holds.
	Actions   int `json:"actions"`
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	Effects   int `json:"effects"`
	// Duplicates are effects beyond the first of an action, Lost receipts that a caller
	// has and the ledger has not, Unresolved operations that are still open.
	Duplicates int `json:"duplicates"`
	Lost       int `json:"lost"`
	Violations int `json:"violations"`
	Unresolved int `json:"unresolved"`
	// DuplicatesServed are answers to requests that caused nothing, MismatchesRefused
	// requests with other arguments under a key that was taken.
	DuplicatesServed  int `json:"duplicates_served"`
	MismatchesRefused int `json:"mismatches_refused"`
	Doubted           int `json:"doubted"`
	Reviewed          int `json:"reviewed"`
	Attempts          int `json:"attempts"`
	// Faults is how often each was made; Skipped steps and faults of the schedule came
	// too late or met another one.
	Faults        map[string]int `json:"faults"`
	SkippedSteps  int            `json:"skipped_steps"`
	SkippedFaults int            `json:"skipped_faults"`
	// FailedFaults are those of them that could not be made or mended: mistakes of the
	// harness, or of what it runs.
	FailedFaults []string `json:"failed_faults,omitempty"`
	// Unanswered says why callers got no answer that told them anything.
	Unanswered map[string]int     `json:"unanswered"`
	Resolve    map[string]Resolve `json:"time_to_resolve"`
	// DrainSeconds is how long it took until nothing was open, all faults healed.
	DrainSeconds float64           `json:"drain_seconds"`
	Drift        map[string]Drift  `json:"drift,omitempty"`
	Broken       []judge.Violation `json:"broken,omitempty"`
	Stories      string            `json:"stories,omitempty"` // the folder
	Replicas     int               `json:"replicas"`
	Sabotage     string            `json:"sabotage,omitempty"`
	// Error says why the campaign could not be run or judged; what is above is what was
	// known by then.
	Error string `json:"error,omitempty"`
}

// Resolve is how long operations in doubt were open.
type Resolve struct {
	Operations int     `json:"operations"`
	P50        float64 `json:"p50_seconds"`
	Max        float64 `json:"max_seconds"`
}

// mostShown is how many violations the line has; the folder has all.
const mostShown = 10

func (o Options) result(f judge.Facts, violations []judge.Violation, c *callers, m *monkey) Result {
	r := Result{
		Seed: o.Seed, Replicas: o.Replicas, Sabotage: string(o.Sabotage), Actions: len(f.Operations), Effects: len(f.Effects),
		Violations: len(violations), Broken: violations[:min(len(violations), mostShown)],
		Faults: m.count(), SkippedSteps: c.skipped, SkippedFaults: m.skipped, FailedFaults: m.failed,
		Unanswered: map[string]int{}, Resolve: map[string]Resolve{},
	}
	for _, call := range f.Calls {
		if call.Kind == history.Request {
			r.Requests++
		}
		switch {
		case call.Answer == history.Reused:
			r.MismatchesRefused++
		case call.Disposition == "REPLAYED" || call.Disposition == "JOINED":
			r.DuplicatesServed++
		}
		switch {
		case call.Answer == history.Nothing:
			r.Unanswered[call.Reason]++
		case call.Kind == history.Request:
			r.Answered++
		}
	}
	effects := map[string]int{}
	for _, e := range f.Effects {
		effects[e.OperationID]++
	}
	for _, n := range effects {
		r.Duplicates += n - 1
	}
	for _, op := range f.Operations {
		r.Attempts += op.Attempts
		switch op.State {
		case ledger.Succeeded:
			r.Succeeded++
		case ledger.Failed:
			r.Failed++
		default:
			r.Unresolved++
		}
	}
	for _, v := range violations {
		if v.Rule == judge.ReceiptLost {
			r.Lost++
		}
	}
	for _, e := range f.Events {
		switch {
		case e.Event == string(ledger.Doubt):
			r.Doubted++
		case e.To == string(ledger.NeedsReview) && e.From != e.To:
			r.Reviewed++
		}
	}
	for fault, n := range c.world.lookupFaults() {
		r.Faults[lookupsPrefix+fault] = n
	}
	for _, w := range f.Writes {
		if w.Fault != string(fakeprovider.None) {
			r.Faults[answersPrefix+w.Fault]++
		}
	}
	for kind, took := range resolved(f, c, m.done) {
		slices.Sort(took)
		r.Resolve[kind] = Resolve{len(took), seconds(took[len(took)/2]), seconds(took[len(took)-1])}
	}
	return r
}

func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }
