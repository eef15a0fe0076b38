package telemetry_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/internal/telemetry"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

const (
	succeeded   = oncewardv1.OperationState_OPERATION_STATE_SUCCEEDED
	needsReview = oncewardv1.OperationState_OPERATION_STATE_NEEDS_REVIEW
)

// watched is a world whose replicas are observed.
type watched struct {
	*apptest.World
	spans *tracetest.SpanRecorder
	log   *notes
}

func newWatched(t *testing.T, adapters ...actions.Adapter) *watched {
	return &watched{apptest.New(t, apptest.Options{Adapters: adapters}), tracetest.NewSpanRecorder(), &notes{}}
}

// observed starts a replica with telemetry of its own: as many as there are
// processes. ratio is the share of traces that are kept.
func (w *watched) observed(t *testing.T, ratio float64, change func(*app.Config)) (*apptest.Replica, *telemetry.Telemetry) {
	t.Helper()
	told, err := telemetry.New(t.Context(), telemetry.Options{SampleRatio: ratio, Processors: []sdktrace.SpanProcessor{w.spans}})
	if err != nil {
		t.Fatal(err)
	}
	return w.Start(t, func(c *app.Config) {
		c.Telemetry, c.Log = told, slog.New(slog.NewTextHandler(w.log, nil))
		if change != nil {
			change(c)
		}
	}), told
}

func withoutReconciler(c *app.Config) { c.Reconcile = false }

// notes is a log that can be read while it is written.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notes) Write(data []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(data)
}

func (n *notes) lines(with ...string) (found []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
lines:
	for line := range strings.Lines(n.text.String()) {
		for _, text := range with {
			if !strings.Contains(line, text) {
				continue lines
			}
		}
		found = append(found, line)
	}
	return found
}

// span waits for the only ended span of a name that is about an operation, or for
// any where operation is empty.
func (w *watched) span(t *testing.T, name, operation string) sdktrace.ReadOnlySpan {
	t.Helper()
	var found sdktrace.ReadOnlySpan
	apptest.Eventually(t, func() bool {
		for _, s := range w.spans.Ended() {
			if s.Name() == name && (operation == "" || attributeOf(s, "onceward.operation") == operation) {
				found = s
				return true
			}
		}
		return false
	}, func() string { return "no span " + name + " in\n" + w.tree() })
	return found
}

func attributeOf(s sdktrace.ReadOnlySpan, key string) string {
	for _, a := range s.Attributes() {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// tree describes the spans that have ended.
func (w *watched) tree() string {
	var b strings.Builder
	for _, s := range w.spans.Ended() {
		b.WriteString(s.Name() + " " + s.SpanContext().SpanID().String() + " below " + s.Parent().SpanID().String() +
			" of trace " + s.SpanContext().TraceID().String() + "\n")
	}
	return b.String()
}

// below fails the test unless one span is the parent of another, in one trace.
func (w *watched) below(t *testing.T, child, parent sdktrace.ReadOnlySpan) {
	t.Helper()
	if child.Parent().SpanID() != parent.SpanContext().SpanID() || child.SpanContext().TraceID() != parent.SpanContext().TraceID() {
		t.Errorf("%s is not below %s:\n%s", child.Name(), parent.Name(), w.tree())
	}
}

// linked fails the test unless one span has a link to the trace of another.
func (w *watched) linked(t *testing.T, from, to sdktrace.ReadOnlySpan) {
	t.Helper()
	for _, l := range from.Links() {
		if l.SpanContext.TraceID() == to.SpanContext().TraceID() {
			return
		}
	}
	t.Errorf("%s has no link to the trace of %s:\n%s", from.Name(), to.Name(), w.tree())
}

// stub is an adapter whose provider exists in the test only.
type stub struct {
	typ      string
	approval bool
	timeout  time.Duration // zero: the default
	execute  func(context.Context, actions.Call) actions.Outcome
}

func (s stub) Spec() actions.Spec {
	return actions.Spec{
		Type: s.typ, Version: "1", Schema: []byte(`{"type":"object"}`), RequiresApproval: s.approval, Timeout: s.timeout,
		Contract: actions.Contract{Provider: "stub", Version: "1"},
	}
}
func (stub) Validate(actions.Arguments) error { return nil }
func (s stub) Execute(ctx context.Context, call actions.Call) actions.Outcome {
	return s.execute(ctx, call)
}

func applied(_ context.Context, call actions.Call) actions.Outcome {
	return actions.Outcome{Kind: actions.Applied, Receipt: actions.Receipt{Reference: "ref_" + call.OperationID, JSON: []byte(`{"ok":true}`)}}
}

// asks is a request of a stub.
func asks(typ, key string) *oncewardv1.RequestActionRequest {
	req := apptest.Keyed(apptest.Note("n", "run"), key)
	req.ActionType = typ
	return req
}

// forgetful is a ledger whose changes are made, and whose first answers to a worker
// are lost.
type forgetful struct {
	app.Ledger
	left atomic.Int32
}

func (f *forgetful) Apply(ctx context.Context, c ledger.Change) (ledger.Operation, error) {
	op, err := f.Ledger.Apply(ctx, c)
	if err == nil && c.Actor == "worker" && f.left.Add(-1) >= 0 {
		return ledger.Operation{}, ledger.ErrUnavailable
	}
	return op, err
}

func resolve(t *testing.T, w *watched, r *apptest.Replica, op *oncewardv1.Operation, decision *oncewardv1.ResolveReviewRequest) {
	t.Helper()
	decision.ReviewId = op.GetReview().GetId()
	if _, err := r.Reviews.ResolveReview(apptest.As(t.Context(), w.Reviewer), decision); err != nil {
		t.Fatal(err)
	}
}

func approve() *oncewardv1.ResolveReviewRequest {
	return &oncewardv1.ResolveReviewRequest{Decision: &oncewardv1.ResolveReviewRequest_Approve{Approve: &oncewardv1.Approve{}}}
}

// patient is a request that is held until its operation ends.
func patient(req *oncewardv1.RequestActionRequest) *oncewardv1.RequestActionRequest {
	return apptest.Waiting(req, 20*time.Second)
}
