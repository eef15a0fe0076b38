package server

import (
	"time"

	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// again is a request whose operation existed before it: what its cause is found
// from. It is compared with the request that made the operation.
type again struct {
	cause oncewardv1.RetryCause // as the caller says
	run   ledger.Run            // of this request
	first ledger.Run            // of the request that made the operation
	// fate is what became of the last caller before this one, where this server
	// knows it, and since how long ago.
	fate  fate
	since time.Duration
	// died: the server that worked on the operation did not report, so that its
	// caller got no answer (ledger.Operation.Reason is lease_expired).
	died bool
	// age is how long ago the operation was recorded.
	age time.Duration
}

// doubtLeaseExpired is the ledger's reason for doubt about an operation whose
// server did not report.
const doubtLeaseExpired = "lease_expired"

// Bounds of what belongs together in time.
const (
	// soon is how long after the last caller left somebody comes because it
	// left. Callers that try again do so within seconds, the most patient ones
	// within minutes; after that another reason is as likely.
	soon = 5 * time.Minute
	// late is when nobody can still be waiting for the first request, and its
	// client has long given up trying: only what keeps jobs sends them again.
	late = 5*time.Minute + maxWait
)

// explain says why a request was sent again. The caller's word counts (stated);
// else the first row of causes that fits decides. Where none fits the cause is
// unset: the explanation says then what is missing.
func explain(a again) (cause oncewardv1.RetryCause, stated bool, explanation string) {
	if _, known := oncewardv1.RetryCause_name[int32(a.cause)]; known && a.cause != oncewardv1.RetryCause_RETRY_CAUSE_UNSPECIFIED {
		return a.cause, true, "The caller says so."
	}
	for i := range causes {
		if row := &causes[i]; row.when(&a) {
			return row.cause, false, row.because
		}
	}
	return oncewardv1.RetryCause_RETRY_CAUSE_UNSPECIFIED, false,
		"Not known: what the two requests say of themselves fits several causes. Requests that name run, step, attempt, tool call and instance can be told apart."
}

// explained explains and counts a request that is answered from an operation that
// existed before it. What became of the caller before is as fates.arrived says. Who
// comes for an outcome, as it was told to, prevents nothing, and is not counted:
// without this server its first call would have waited for that outcome.
func (s *Server) explained(req *oncewardv1.RequestActionRequest, op *ledger.Operation, last fate, since time.Duration) *oncewardv1.Duplicate {
	a := again{
		cause: req.GetRetryCause(), run: fromRun(req.GetRun()), first: op.Run, fate: last, since: since,
		died: op.Reason == doubtLeaseExpired, age: time.Since(op.CreatedAt),
	}
	cause, stated, explanation := explain(a)
	if !a.polls() {
		s.tallies.duplicate(op, cause, stated)
	}
	return &oncewardv1.Duplicate{Cause: cause, Stated: stated, Explanation: explanation}
}

// causeRow is one rule: what a repeated request shows, and what it means.
type causeRow struct {
	name    string // for tests
	when    func(*again) bool
	cause   oncewardv1.RetryCause
	because string // one sentence, without anything that a caller has said
}

// causes are the rules, the first that fits decides. What the server saw itself
// comes before what requests say, and what can only be so before what is likely.
//
// How it goes where agents run, from which the rows come: client libraries send
// the same message again when a connection breaks, with everything in it as it
// was. Agent frameworks bound a tool call in time, give up, and call again,
// themselves or by asking the model. A model that calls again makes a new tool
// call, with a new id, in the step that it is in or in a later one. A run that is
// resumed after a crash replays its steps in another process, with recorded tool
// calls or with new ones. A queue gives a job that was not acknowledged to
// another worker, and counts deliveries, since no worker lives to count them.
var causes = [...]causeRow{
	{
		// Its deadline ended the call: it meant to give up, and comes again. A
		// process that crashes does not wait for its deadline.
		name:    "left by its deadline",
		when:    func(a *again) bool { return a.sameStep() && a.fate == leftByDeadline && a.since <= soon },
		cause:   oncewardv1.RetryCause_RETRY_CAUSE_TOOL_TIMEOUT,
		because: "The time of the caller before it ended before there was an outcome.",
	},
	{
		// The first worker waits for its answer, so it did not crash, and its
		// call did not time out: somebody gave the job to a second one.
		name:    "two instances at once",
		when:    func(a *again) bool { return a.otherInstance() && a.fate == stillWaiting },
		cause:   oncewardv1.RetryCause_RETRY_CAUSE_QUEUE_REDELIVERY,
		because: "Another instance asks while the one before it still waits for its answer: both were given the same job.",
	},
	{
		// One process, two tool calls, the first one not answered yet: no retry
		// of anything, the model called twice in one turn.
		name: "two calls of a model at once",
		when: func(a *again) bool {
			return a.sameRun() && a.sameInstance() && a.otherToolCall() && a.fate == stillWaiting
		},
		cause:   oncewardv1.RetryCause_RETRY_CAUSE_MODEL_RETRY,
		because: "The same instance makes a second tool call while the first one still waits for its answer.",
	},
	{
		// The run goes on in another process, and who counts its attempts did not
		// go down with the first: a queue's delivery count, or an activity's.
		name:    "counted across instances",
		when:    func(a *again) bool { return a.sameToolCall() && a.otherInstance() && a.grew() },
		cause:   oncewardv1.RetryCause_RETRY_CAUSE_QUEUE_REDELIVERY,
		because: "Another instance brings the same tool call with a higher attempt: the count is kept outside of both, as a queue counts deliveries.",
	},
	{
		// Jobs that are no agent's run are given out by queues.
		name:    "another instance without a run",
		when:    func(a *again) bool { return a.otherInstance() && a.run.RunID == "" && a.first.RunID == "" },
		cause:   oncewardv1.RetryCause_RETRY_CAUSE_QUEUE_REDELIVERY,
		because: "Another instance brings the same job, which belongs to no run.",
	},
	{
		// The step is done over in another process, from its recorded tool calls
		// or by asking the model anew.
		name:    "another instance in the same step",
		when:    func(a *again) bool { return a.otherInstance() && a.sameStep() && a.run.RunID != "" },
		cause:   oncewardv1.RetryCause_RETRY_CAUSE_CRASH_REPLAY,
		because: "Another instance asks in the same step of the same run: the run was taken up again elsewhere.",
	},
	{
		// It does as it was told. A model that was told so, and makes another tool
		// call, has its own row below.
		name:    "told to ask again",
		when:    (*again).told,
		cause:   oncewardv1.RetryCause_RETRY_CAUSE_EXPLICIT_RETRY,
		because: "The caller before it was told to ask again, because the operation was not finished.",
	},
	{
		// It was cut off, and the same process comes again.
		name: "left by its connection",
		when: func(a *again) bool {
			return a.sameStep() && !a.otherInstance() && a.fate == leftByConnection && a.since <= soon
		},
		cause:   oncewardv1.RetryCause_RETRY_CAUSE_NETWORK_TIMEOUT,
		because: "The connection of the caller before it broke before there was an answer.",
	},
	{
		// As before, but it was the server that went away.
		name:    "its server died",
		when:    func(a *again) bool { return a.sameStep() && !a.otherInstance() && a.died && a.age <= late },
		cause:   oncewardv1.RetryCause_RETRY_CAUSE_NETWORK_TIMEOUT,
		because: "The server that worked on the operation stopped without an answer to its caller.",
	},
	{
		// Ids of tool calls are the model's: a new one is a new call. A step that
		// is done over after a crash would look the same where instances are not
		// named, and is told apart above where they are.
		name:    "another tool call in the same step",
		when:    func(a *again) bool { return a.run.RunID != "" && a.sameStep() && a.otherToolCall() },
		cause:   oncewardv1.RetryCause_RETRY_CAUSE_MODEL_RETRY,
		because: "The model made another tool call in the same step of the same run.",
	},
	{
		// Retries stay in their step; a plan does not.
		name:    "another step of the same run",
		when:    func(a *again) bool { return a.sameRun() && a.otherStep() },
		cause:   oncewardv1.RetryCause_RETRY_CAUSE_MODEL_RETRY,
		because: "Another step of the same run came to the same action.",
	},
	{
		// The job began anew with what was recorded of it.
		name:    "another run of the same tool call",
		when:    func(a *again) bool { return a.otherRun() && a.sameToolCall() },
		cause:   oncewardv1.RetryCause_RETRY_CAUSE_QUEUE_REDELIVERY,
		because: "Another run brings the same tool call: the job was started again with what was recorded of it.",
	},
	{
		// Two agents, one goal: a hand-over that was done twice.
		name: "another agent",
		when: func(a *again) bool {
			return a.otherRun() && a.run.Agent != "" && a.first.Agent != "" && a.run.Agent != a.first.Agent
		},
		cause:   oncewardv1.RetryCause_RETRY_CAUSE_MODEL_RETRY,
		because: "A run of another agent came to the same action.",
	},
	{
		// A model does not begin runs; whoever does began a second one for the
		// same action.
		name:    "another run of the same agent",
		when:    func(a *again) bool { return a.otherRun() && a.run.Agent != "" && a.run.Agent == a.first.Agent },
		cause:   oncewardv1.RetryCause_RETRY_CAUSE_QUEUE_REDELIVERY,
		because: "Another run of the same agent came to the same action: the job was started a second time.",
	},
	{
		// The same tool call, and the caller counts: its own retry loop.
		name: "the caller counts",
		when: func(a *again) bool {
			return a.sameStep() && a.sameToolCall() && !a.otherInstance() && a.grew() && a.fate != stillWaiting
		},
		cause:   oncewardv1.RetryCause_RETRY_CAUSE_EXPLICIT_RETRY,
		because: "The same tool call comes with a higher attempt: the caller tries again by its own policy.",
	},
	{
		// The same message from the same process, soon after it was answered: it
		// never saw the answer.
		name: "the answer was lost",
		when: func(a *again) bool {
			return a.sameStep() && a.sameToolCall() && a.sameInstance() && a.fate == answered && a.since <= soon
		},
		cause:   oncewardv1.RetryCause_RETRY_CAUSE_NETWORK_TIMEOUT,
		because: "The same instance sends the same message again soon after it was answered: the answer did not reach it.",
	},
	{
		// Nobody who asked first is still trying. What sends the very same
		// message after that is what keeps messages.
		name: "the same message, much later",
		when: func(a *again) bool {
			return a.sameStep() && a.sameToolCall() && !a.grew() && a.age > late && (a.fate == fateUnknown || a.since > soon)
		},
		cause:   oncewardv1.RetryCause_RETRY_CAUSE_QUEUE_REDELIVERY,
		because: "The same message comes again long after anybody waited for its answer, as from a queue.",
	},
}

// told: the caller before was told to ask again, or to ask a person first, and
// this is that caller, as far as the two requests say. It may come back after any
// time: it waits for a provider, or for an approval.
func (a *again) told() bool {
	return a.sameStep() && !a.otherInstance() && !a.otherToolCall() && a.fate == toldToWait
}

// polls: it only comes for the outcome, and does not say anything else.
func (a *again) polls() bool {
	_, known := oncewardv1.RetryCause_name[int32(a.cause)]
	said := known && a.cause != oncewardv1.RetryCause_RETRY_CAUSE_UNSPECIFIED && a.cause != oncewardv1.RetryCause_RETRY_CAUSE_EXPLICIT_RETRY
	return !said && a.told()
}

func (a *again) sameRun() bool   { return a.run.RunID != "" && a.run.RunID == a.first.RunID }
func (a *again) otherRun() bool  { return different(a.run.RunID, a.first.RunID) }
func (a *again) otherStep() bool { return different(a.run.StepID, a.first.StepID) }

// sameStep also holds for requests that name neither run nor step.
func (a *again) sameStep() bool {
	return a.run.RunID == a.first.RunID && a.run.StepID == a.first.StepID
}

func (a *again) sameToolCall() bool {
	return a.run.ToolCallID != "" && a.run.ToolCallID == a.first.ToolCallID
}
func (a *again) otherToolCall() bool { return different(a.run.ToolCallID, a.first.ToolCallID) }

func (a *again) sameInstance() bool {
	return a.run.Instance != "" && a.run.Instance == a.first.Instance
}
func (a *again) otherInstance() bool { return different(a.run.Instance, a.first.Instance) }

// grew: the caller counts its attempts, and this is a later one.
func (a *again) grew() bool { return a.run.Attempt > max(a.first.Attempt, 1) }

// different reports whether two names are there and not the same.
func different(a, b string) bool { return a != "" && b != "" && a != b }
