package telemetry_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
)

const requestSpan = "onceward.v1.ActionService/RequestAction"

// A request whose answer is a 500 after the effect, and that is found by a look-up:
// one trace, in which each span is below the one that it is a part of.
func TestOneTraceFromRequestToReconciliation(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	var mu sync.Mutex
	var told []string // headers of a trace that the provider saw
	w.Provider.ForMatch(func(r *http.Request, _ []byte) bool {
		mu.Lock()
		defer mu.Unlock()
		for header := range r.Header {
			if h := strings.ToLower(header); h == "traceparent" || h == "tracestate" || h == "baggage" {
				told = append(told, header)
			}
		}
		return false
	}, fakeprovider.Fault{Times: -1})
	r, _ := w.observed(t, 1, nil)
	w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.ErrorAfterApplying})
	id := w.AskIn(t, r, patient(apptest.Invoice("inv_planted")), succeeded).GetOperation().GetId()

	request := w.span(t, requestSpan, id)
	for _, name := range []string{"policy", "claim", "wait"} {
		w.below(t, w.span(t, name, ""), request)
	}
	attempt, reconcile := w.span(t, "attempt", id), w.span(t, "reconcile", id)
	w.below(t, attempt, request)
	w.below(t, w.span(t, "settle", id), request)
	w.below(t, reconcile, request)
	w.below(t, w.span(t, http.MethodPost, ""), attempt)
	lookup := w.span(t, "lookup", "")
	w.below(t, lookup, reconcile)
	w.below(t, w.span(t, http.MethodGet, ""), lookup)
	if got := attributeOf(attempt, "onceward.outcome"); got != "ambiguous" {
		t.Errorf("the attempt proved %q", got)
	}
	if got := attributeOf(attempt, "onceward.tenant") + attributeOf(attempt, "onceward.attempt"); got != "acme1" {
		t.Errorf("the attempt is %q", got)
	}
	if attributeOf(reconcile, "onceward.result") != "found" || attributeOf(reconcile, "onceward.state") != "succeeded" {
		t.Errorf("the look has %v", reconcile.Attributes())
	}

	// What is in spans is not about the arguments, and nothing of them is sent.
	for _, s := range w.spans.Ended() {
		if text := fmt.Sprint(s.Name(), s.Attributes(), s.Events(), s.Status()); strings.Contains(text, "inv_planted") || strings.Contains(text, "example.test") {
			t.Errorf("a span has arguments: %s", text)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(told) > 0 {
		t.Errorf("the provider was told of the trace: %v", told)
	}
	// Who has the operation finds its trace.
	if lines := w.log.lines("trace_id="+request.SpanContext().TraceID().String(), id); len(lines) < 3 {
		t.Errorf("the log has the trace in %q", lines)
	}
}

// A process that dies leaves its trace to another one.
func TestOneTraceAcrossReplicas(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	a, _ := w.observed(t, 1, withoutReconciler)
	w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying})
	id := w.Ask(t, a, apptest.Waiting(apptest.Invoice("inv_1"), 0)).GetOperation().GetId()
	w.WaitFor(t, "acme", id, ledger.Unknown)
	request := w.span(t, requestSpan, id)
	a.Stop()

	b, _ := w.observed(t, 1, nil)
	w.WaitFor(t, "acme", id, ledger.Succeeded)
	reconcile := w.span(t, "reconcile", id)
	w.below(t, reconcile, request)
	if !reconcile.Parent().IsRemote() {
		t.Error("its parent is not another process's")
	}
	// Who asks again has a trace of its own, with a link.
	w.Ask(t, b, apptest.Invoice("inv_1"))
	apptest.Eventually(t, func() bool {
		for _, s := range w.spans.Ended() {
			if s.Name() == requestSpan && attributeOf(s, "onceward.disposition") == "replayed" {
				w.linked(t, s, request)
				return s.SpanContext().TraceID() != request.SpanContext().TraceID()
			}
		}
		return false
	}, w.tree)
}

// A reviewer's call is a trace of its own, and what it does is in the operation's.
func TestReviewIsInTheTrace(t *testing.T) {
	t.Parallel()
	w := newWatched(t, stub{typ: "test.gated", approval: true, execute: applied})
	r, _ := w.observed(t, 1, withoutReconciler) // which might be the first to see what was approved
	op := w.AskIn(t, r, asks("test.gated", "key-1"), needsReview).GetOperation()
	resolve(t, w, r, op, approve())
	w.WaitFor(t, "acme", op.GetId(), ledger.Succeeded)

	request, review := w.span(t, requestSpan, op.GetId()), w.span(t, "review", op.GetId())
	call := w.span(t, "onceward.v1.ReviewService/ResolveReview", "")
	w.below(t, review, request)
	w.linked(t, review, call)
	w.linked(t, call, request)
	if call.SpanContext().TraceID() == request.SpanContext().TraceID() {
		t.Error("the reviewer's call is in the trace of the request")
	}
	attempt := w.span(t, "attempt", op.GetId())
	w.below(t, attempt, request)
	if got := attributeOf(attempt, "onceward.outcome"); got != "applied" {
		t.Errorf("the attempt proved %q", got)
	}
}

// What is not kept is not remembered, and makes no spans later.
func TestTracesThatAreNotKept(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	r, _ := w.observed(t, 0, nil)
	w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.ErrorAfterApplying})
	id := w.AskIn(t, r, patient(apptest.Invoice("inv_1")), succeeded).GetOperation().GetId()
	if spans := w.spans.Ended(); len(spans) > 0 {
		t.Errorf("there are spans:\n%s", w.tree())
	}
	if got := w.Held(t, id).Run.TraceParent; got != "" {
		t.Errorf("the operation remembers %s", got)
	}
	if lines := w.log.lines("trace_id"); len(lines) > 0 {
		t.Errorf("the log has a trace in %q", lines)
	}
}
