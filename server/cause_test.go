package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	agenttrace "github.com/onceward/onceward/examples/agent-trace"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// firstCall is the request that made the operation, in most tests here.
func firstCall() ledger.Run {
	return ledger.Run{RunID: "run", StepID: "refund", Attempt: 1, ToolCallID: "call_1", Agent: "planner", Instance: "worker-1"}
}

// repeat is that request once more, some seconds later, with changes.
func repeat(changes ...func(*again)) again {
	a := again{run: firstCall(), first: firstCall(), age: 10 * time.Second}
	for _, change := range changes {
		change(&a)
	}
	return a
}

func bothAre(change func(*ledger.Run)) func(*again) {
	return func(a *again) {
		change(&a.run)
		change(&a.first)
	}
}

func ended(how fate, since time.Duration) func(*again) {
	return func(a *again) { a.fate, a.since = how, since }
}
func elsewhere(a *again)   { a.run.Instance = "worker-2" }
func otherCall(a *again)   { a.run.ToolCallID = "call_2" }
func later(a *again)       { a.run.Attempt = 2 }
func otherStep(a *again)   { a.run.StepID = "goodwill" }
func otherRun(a *again)    { a.run.RunID = "run_2" }
func otherAgent(a *again)  { a.run.Agent = "reviewer" }
func serverDied(a *again)  { a.died = true }
func hours(a *again)       { a.age = 3 * time.Hour }
func noRun(r *ledger.Run)  { r.RunID, r.StepID = "", "" }
func noName(r *ledger.Run) { r.Instance = "" }
func noCall(r *ledger.Run) { r.ToolCallID = "" }
func noAgentName(r *ledger.Run) {
	r.Agent = ""
}

// Each row decides about something that no row before it fits.
func TestEachRowOfCausesDecides(t *testing.T) {
	t.Parallel()
	examples := map[string][]again{
		"left by its deadline": {
			repeat(ended(leftByDeadline, time.Second)),
			repeat(ended(leftByDeadline, soon), otherCall, later),        // the framework asked the model again
			repeat(ended(leftByDeadline, time.Second), elsewhere),        // another tool server takes the retry
			{age: time.Second, fate: leftByDeadline, since: time.Second}, // it says nothing of itself
		},
		"two instances at once":        {repeat(ended(stillWaiting, 0), elsewhere), repeat(ended(stillWaiting, 0), elsewhere, otherCall), repeat(ended(stillWaiting, 0), elsewhere, otherRun)},
		"two calls of a model at once": {repeat(ended(stillWaiting, 0), otherCall), repeat(ended(stillWaiting, 0), otherCall, otherStep)},
		"counted across instances":     {repeat(elsewhere, later), repeat(elsewhere, later, ended(leftByConnection, time.Second)), repeat(elsewhere, later, bothAre(noRun))},
		"another instance without a run": {
			repeat(elsewhere, bothAre(noRun)),
			repeat(elsewhere, bothAre(noRun), otherCall, ended(leftByConnection, time.Second)),
		},
		"another instance in the same step": {
			repeat(elsewhere), repeat(elsewhere, otherCall, later), repeat(elsewhere, ended(leftByConnection, time.Second)),
			repeat(elsewhere, ended(answered, time.Minute), hours), repeat(elsewhere, serverDied), repeat(elsewhere, ended(leftByDeadline, soon+1)),
		},
		"told to ask again": {
			repeat(ended(toldToWait, time.Second)), repeat(ended(toldToWait, 24*time.Hour), hours, later, bothAre(noName)),
			repeat(ended(toldToWait, time.Second), bothAre(noCall)), {fate: toldToWait, since: time.Second, age: time.Second},
		},
		"left by its connection": {
			repeat(ended(leftByConnection, time.Second)), repeat(ended(leftByConnection, time.Second), later),
			repeat(ended(leftByConnection, time.Second), bothAre(noName)), {fate: leftByConnection, since: time.Second, age: time.Second},
		},
		"its server died":                    {repeat(serverDied), repeat(serverDied, later, bothAre(noName))},
		"another tool call in the same step": {repeat(otherCall), repeat(otherCall, ended(toldToWait, time.Second)), repeat(otherCall, later, ended(answered, time.Second)), repeat(otherCall, bothAre(noName), hours)},
		"another step of the same run":       {repeat(otherStep), repeat(otherStep, otherCall, ended(leftByDeadline, time.Second)), repeat(otherStep, elsewhere)},
		"another run of the same tool call":  {repeat(otherRun), repeat(otherRun, elsewhere, hours)},
		"another agent":                      {repeat(otherRun, otherCall, otherAgent)},
		"another run of the same agent":      {repeat(otherRun, otherCall), repeat(otherRun, bothAre(noCall), hours)},
		"the caller counts":                  {repeat(later), repeat(later, bothAre(noName), hours), repeat(later, ended(answered, time.Second))},
		"the answer was lost":                {repeat(ended(answered, time.Second))},
		"the same message, much later":       {repeat(hours), repeat(hours, ended(answered, time.Hour)), repeat(hours, bothAre(noName)), repeat(hours, serverDied)},
	}
	for _, row := range causes {
		if len(examples[row.name]) == 0 {
			t.Errorf("no example of %q", row.name)
		}
		for i, a := range examples[row.name] {
			cause, stated, explanation := explain(a)
			if cause != row.cause || stated || explanation != row.because {
				t.Errorf("%s, example %d: %s, stated %t: %s", row.name, i, cause, stated, explanation)
			}
		}
		if row.cause == oncewardv1.RetryCause_RETRY_CAUSE_UNSPECIFIED || !strings.HasSuffix(row.because, ".") {
			t.Errorf("%s says %s because of %q", row.name, row.cause, row.because)
		}
		delete(examples, row.name)
	}
	for name := range examples {
		t.Errorf("there is no row %q", name)
	}
}

// What several causes fit has none.
func TestCauseIsNotGuessed(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]again{
		"nothing is known":                           {age: time.Second},
		"the same message soon, and no caller seen":  repeat(),
		"the same message soon from who knows where": repeat(ended(answered, time.Second), bothAre(noName)),
		"sent twice at once":                         repeat(ended(stillWaiting, 0)),
		"sent twice at once, counted":                repeat(ended(stillWaiting, 0), later),
		"without tool calls, soon":                   repeat(bothAre(noCall), ended(answered, time.Second)),
		"other runs of nobody":                       repeat(otherRun, bothAre(noAgentName), bothAre(noCall)),
		"one names its run":                          repeat(func(a *again) { a.first.RunID = "" }),
		"left long ago by its deadline":              {fate: leftByDeadline, since: soon + 1, age: soon + 2},
		"left long ago by its connection":            {fate: leftByConnection, since: soon + 1, age: soon + 2},
	} {
		cause, stated, explanation := explain(a)
		if cause != oncewardv1.RetryCause_RETRY_CAUSE_UNSPECIFIED || stated || !strings.HasPrefix(explanation, "Not known: ") {
			t.Errorf("%s: %s, stated %t: %s", name, cause, stated, explanation)
		}
	}
}

func TestCallersWordCounts(t *testing.T) {
	t.Parallel()
	for number, name := range oncewardv1.RetryCause_name {
		a := repeat(otherCall)
		a.cause = oncewardv1.RetryCause(number)
		cause, stated, explanation := explain(a)
		if number == 0 {
			if cause != oncewardv1.RetryCause_RETRY_CAUSE_MODEL_RETRY || stated {
				t.Errorf("%s: %s, stated %t", name, cause, stated)
			}
		} else if cause != a.cause || !stated || explanation != "The caller says so." {
			t.Errorf("%s: %s, stated %t: %s", name, cause, stated, explanation)
		}
	}
	// A number from the future means nothing yet.
	a := repeat(otherCall)
	a.cause = 99
	if cause, stated, _ := explain(a); cause != oncewardv1.RetryCause_RETRY_CAUSE_MODEL_RETRY || stated {
		t.Errorf("cause 99: %s, stated %t", cause, stated)
	}
}

// The retries of the sample trace, with what their callers say of the cause left
// out, and with what the server sees of each and what the trace does not have:
// instances, and the hours that it plays in milliseconds.
func TestCausesOfTheSampleTrace(t *testing.T) {
	t.Parallel()
	type seen struct {
		fate      fate
		since     time.Duration
		age       time.Duration
		instances bool // callers name theirs
		want      oncewardv1.RetryCause
	}
	const (
		model   = oncewardv1.RetryCause_RETRY_CAUSE_MODEL_RETRY
		network = oncewardv1.RetryCause_RETRY_CAUSE_NETWORK_TIMEOUT
		timeout = oncewardv1.RetryCause_RETRY_CAUSE_TOOL_TIMEOUT
		crash   = oncewardv1.RetryCause_RETRY_CAUSE_CRASH_REPLAY
		queue   = oncewardv1.RetryCause_RETRY_CAUSE_QUEUE_REDELIVERY
	)
	cases := map[string]seen{
		"answer-lost":     {fate: leftByConnection, want: network},
		"makes-sure":      {fate: answered, want: model},
		"crash-replay":    {fate: answered, instances: true, want: crash},
		"redelivery":      {fate: answered, since: time.Hour, age: 2 * time.Hour, want: queue},
		"fan-out":         {fate: stillWaiting, instances: true, want: queue},
		"slow":            {fate: leftByDeadline, want: timeout},
		"lagging-look-up": {fate: leftByDeadline, want: timeout},
		"lost-before":     {fate: leftByDeadline, want: timeout},
		// The caller says EXPLICIT_RETRY; each has a new id of the model's, though.
		"lying-500":  {fate: answered, want: model},
		"rate-limit": {fate: answered, want: model},
		"refused":    {fate: answered, want: model},
		"cut-short":  {fate: answered, want: model},
	}
	explicit := oncewardv1.RetryCause_RETRY_CAUSE_EXPLICIT_RETRY
	played := map[string]int{}
	first := map[string]ledger.Run{}
	lines := bufio.NewScanner(bytes.NewReader(agenttrace.Trace()))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var line struct {
			Case, Action string
			Request      struct {
				Run        ledger.Run `json:"run"`
				RetryCause string     `json:"retry_cause"`
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("line %d: %v", n, err)
		}
		s, known := cases[line.Case]
		run := line.Request.Run
		if s.instances {
			run.Instance = fmt.Sprintf("worker-%d", n)
		}
		begun, repeated := first[line.Action]
		if !repeated {
			first[line.Action] = run
			continue
		}
		if !known {
			continue // other actions under one key, or refused
		}
		played[line.Case]++
		a := again{run: run, first: begun, fate: s.fate, since: s.since, age: max(s.age, time.Second)}
		if cause, stated, explanation := explain(a); cause != s.want || stated {
			t.Errorf("line %d (%s): %s, want %s: %s", n, line.Case, cause, s.want, explanation)
		}
		if said := causeNamed(line.Request.RetryCause); said != s.want && said != explicit && line.Case != "refused" {
			t.Errorf("line %d (%s): the caller says %s, and the rules would say %s", n, line.Case, said, s.want)
		}
	}
	for name := range cases {
		if played[name] == 0 {
			t.Errorf("the trace repeats nothing in the case %s", name)
		}
	}
}

// An answer has the cause, and it is counted.
func TestDuplicateIsExplainedAndCounted(t *testing.T) {
	t.Parallel()
	book := &tallyBook{}
	s := &Server{tallies: newTallies(book.add, quiet())}
	op := paid("4.90", "EUR")
	op.Run, op.CreatedAt = ledger.Run{RunID: "run", StepID: "step", ToolCallID: "call_1"}, time.Now().Add(-time.Second)
	req := &oncewardv1.RequestActionRequest{Run: &oncewardv1.RunContext{RunId: "run", StepId: "step", ToolCallId: "call_2"}}
	got := s.explained(req, op, answered, time.Second)
	if got.GetCause() != oncewardv1.RetryCause_RETRY_CAUSE_MODEL_RETRY || got.GetStated() || !strings.Contains(got.GetExplanation(), "another tool call") {
		t.Errorf("explained as %s", got)
	}
	req.RetryCause = oncewardv1.RetryCause_RETRY_CAUSE_TOOL_TIMEOUT
	if got = s.explained(req, op, answered, time.Second); got.GetCause() != req.GetRetryCause() || !got.GetStated() {
		t.Errorf("explained as %s", got)
	}
	req, op.Reason = &oncewardv1.RequestActionRequest{}, doubtLeaseExpired
	op.Run = ledger.Run{}
	if got = s.explained(req, op, fateUnknown, 0); got.GetCause() != oncewardv1.RetryCause_RETRY_CAUSE_NETWORK_TIMEOUT {
		t.Errorf("explained as %s", got)
	}
	s.tallies.flush(t.Context())
	want := "acme refund duplicate model_retry false EUR: 1 4.9\nacme refund duplicate network_timeout false EUR: 1 4.9\nacme refund duplicate tool_timeout true EUR: 1 4.9"
	if counted := book.counted(); counted != want {
		t.Errorf("counted\n%s\nwant\n%s", counted, want)
	}
}

// Who was told to come again for the outcome, and does, prevents nothing. Whoever
// else comes in between does.
func TestPollsAreNotCounted(t *testing.T) {
	t.Parallel()
	const explicit, network = oncewardv1.RetryCause_RETRY_CAUSE_EXPLICIT_RETRY, oncewardv1.RetryCause_RETRY_CAUSE_NETWORK_TIMEOUT
	first := &oncewardv1.RunContext{RunId: "run", StepId: "step", ToolCallId: "call_1", Instance: "worker-1", Attempt: 1}
	for name, tt := range map[string]struct {
		last    fate
		since   time.Duration
		run     *oncewardv1.RunContext
		cause   oncewardv1.RetryCause // as stated
		state   ledger.State
		counted string
	}{
		"a poll":                       {toldToWait, time.Second, first, 0, ledger.Running, ""},
		"a poll that gets the outcome": {toldToWait, time.Second, first, 0, ledger.Succeeded, ""},
		"after an approval":            {toldToWait, 3 * time.Hour, first, 0, ledger.Succeeded, ""},
		"a poll that counts": {toldToWait, time.Second, &oncewardv1.RunContext{RunId: "run", StepId: "step", ToolCallId: "call_1", Attempt: 2}, explicit,
			ledger.Running, ""},
		"of a caller without names": {toldToWait, time.Second, &oncewardv1.RunContext{RunId: "run", StepId: "step"}, 99, ledger.Running, ""},
		"for another reason":        {toldToWait, time.Second, first, network, ledger.Running, "network_timeout true"},
		"another tool call": {toldToWait, time.Second, &oncewardv1.RunContext{RunId: "run", StepId: "step", ToolCallId: "call_2", Instance: "worker-1"}, 0,
			ledger.Running, "model_retry false"},
		"another instance": {toldToWait, time.Second, &oncewardv1.RunContext{RunId: "run", StepId: "step", ToolCallId: "call_1", Instance: "worker-2"}, 0,
			ledger.Running, "crash_replay false"},
		"another step":         {toldToWait, time.Second, &oncewardv1.RunContext{RunId: "run", StepId: "later"}, 0, ledger.Running, "model_retry false"},
		"after the outcome":    {answered, time.Second, first, 0, ledger.Succeeded, "network_timeout false"},
		"while another waits":  {stillWaiting, 0, first, 0, ledger.Running, " false"},
		"after a tool timeout": {leftByDeadline, time.Second, first, 0, ledger.Running, "tool_timeout false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			book := &tallyBook{}
			s := &Server{tallies: newTallies(book.add, quiet())}
			op := paid("4.90", "EUR")
			op.State, op.Run, op.CreatedAt = tt.state, fromRun(first), time.Now().Add(-time.Second)
			got := s.explained(&oncewardv1.RequestActionRequest{Run: tt.run, RetryCause: tt.cause}, op, tt.last, tt.since)
			if tt.counted == "" && got.GetCause() != explicit || got.GetExplanation() == "" {
				t.Errorf("explained as %s", got)
			}
			s.tallies.flush(t.Context())
			want := ""
			if tt.counted != "" {
				want = "acme refund duplicate " + tt.counted + " EUR: 1 4.9"
			}
			if counted := book.counted(); counted != want {
				t.Errorf("counted %q, want %q", counted, want)
			}
		})
	}
}
