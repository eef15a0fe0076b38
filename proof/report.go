package proof

import (
	"slices"
	"time"
)

// Verdict is what a path came to.
type Verdict string

// The verdicts. All but Safe and NotApplicable are failures.
const (
	// Safe: one effect or none, as the final state claims, and no request more
	// than the contract allows.
	Safe Verdict = "safe"
	// Unsafe: two effects, or a request that could have made a second one.
	Unsafe Verdict = "UNSAFE"
	// Lie: the state or the receipt claims what is not so.
	Lie Verdict = "LIE"
	// Leak: a credential in the ledger or in a receipt.
	Leak Verdict = "LEAK"
	// Stuck: neither settled nor before a person in time.
	Stuck Verdict = "STUCK"
	// NotApplicable: the path says nothing about this subject; the detail says
	// why.
	NotApplicable Verdict = "n/a"
)

// Failed reports whether the verdict is one of failure.
func (v Verdict) Failed() bool { return v != Safe && v != NotApplicable }

// PathReport is what came of one path.
type PathReport struct {
	Path    string  `json:"path"`
	Title   string  `json:"title"`
	Verdict Verdict `json:"verdict"`
	// Detail says why, for every verdict but Safe.
	Detail string `json:"detail,omitempty"`
	// Writes and Lookups are the requests that the target received.
	Writes  int `json:"writes"`
	Lookups int `json:"lookups"`
	// Attempts are those that the ledger has on record.
	Attempts int `json:"attempts"`
	// Effects is how many the target holds.
	Effects int `json:"effects"`
	// State is the operation's in the end; empty where none was recorded.
	State string `json:"state,omitempty"`
	// Reason is why a person is asked, or why it failed.
	Reason string        `json:"reason,omitempty"`
	Took   time.Duration `json:"took_ns"`
}

// Severity of a danger.
type Severity string

// The severities.
const (
	Warning Severity = "warning"
	Error   Severity = "error"
)

// Danger is what is wrong with a contract as it stands, before anything is run.
type Danger struct {
	Code     string   `json:"code"` // stable, lower snake case
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	// Acknowledged is the author's reason to live with it, where there is one.
	Acknowledged string `json:"acknowledged,omitempty"`
}

// SubjectReport is what came of one subject.
type SubjectReport struct {
	ActionType string       `json:"action_type"`
	Provider   string       `json:"provider"`
	Paths      []PathReport `json:"paths"` // in the order of Paths
	Dangers    []Danger     `json:"dangers"`
}

// Report is what came of a run.
type Report struct {
	Subjects []SubjectReport `json:"subjects"` // in the order of Options.Subjects
}

// Failures counts the paths with a verdict of failure and the dangers that are
// errors. A run without any has proved its subjects.
func (r Report) Failures() int {
	n := 0
	for _, s := range r.Subjects {
		n += s.Failures()
	}
	return n
}

// Failures is that of one subject.
func (s SubjectReport) Failures() int {
	n := 0
	for _, p := range s.Paths {
		if p.Verdict.Failed() {
			n++
		}
	}
	for _, d := range s.Dangers {
		if d.Severity == Error {
			n++
		}
	}
	return n
}

// Path returns the report of a path, or false.
func (s SubjectReport) Path(name string) (PathReport, bool) {
	i := slices.IndexFunc(s.Paths, func(p PathReport) bool { return p.Path == name })
	if i < 0 {
		return PathReport{}, false
	}
	return s.Paths[i], true
}
