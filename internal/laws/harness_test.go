package laws

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/internal/pgtest"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

func TestMain(m *testing.M) {
	os.Exit(apptest.Main(func() int { return pgtest.Main(m) }))
}

// Short names for what the tests say all the time.
const (
	succeeded   = oncewardv1.OperationState_OPERATION_STATE_SUCCEEDED
	failed      = oncewardv1.OperationState_OPERATION_STATE_FAILED
	running     = oncewardv1.OperationState_OPERATION_STATE_RUNNING
	needsReview = oncewardv1.OperationState_OPERATION_STATE_NEEDS_REVIEW

	askHuman = oncewardv1.NextStepKind_NEXT_STEP_KIND_ASK_HUMAN
	wait     = oncewardv1.NextStepKind_NEXT_STEP_KIND_WAIT
)

// years is longer than every timer.
const years = 10 * 365 * 24 * time.Hour

// start sends a request that is answered once it is recorded, and returns its
// operation's id.
func start(t testing.TB, w *apptest.World, r *apptest.Replica, req *oncewardv1.RequestActionRequest) string {
	t.Helper()
	return w.Ask(t, r, apptest.Waiting(req, 0)).GetOperation().GetId()
}

// with returns a copy of a request with other arguments.
func with(req *oncewardv1.RequestActionRequest, arguments string) *oncewardv1.RequestActionRequest {
	c := proto.CloneOf(req)
	c.ArgumentsForm = &oncewardv1.RequestActionRequest_ArgumentsJson{ArgumentsJson: arguments}
	return c
}

// stubRequest asks for a stub's action, with a key of the caller's.
func stubRequest(actionType, key string) *oncewardv1.RequestActionRequest {
	return &oncewardv1.RequestActionRequest{ActionType: actionType, IdempotencyKey: key, Wait: durationpb.New(apptest.Patience)}
}

func withoutReconciler(c *app.Config) { c.Reconcile = false }

// writes counts the requests that could have had an effect.
func writes(w *apptest.World) int {
	n := 0
	for _, r := range w.Provider.Requests() {
		if r.Method == http.MethodPost {
			n++
		}
	}
	return n
}

// records counts everything on record, but refused requests.
func records(t testing.TB, w *apptest.World) int {
	t.Helper()
	return w.Database.Count(t, `SELECT (SELECT count(*) FROM operations) + (SELECT count(*) FROM attempts)
		+ (SELECT count(*) FROM reviews) + (SELECT count(*) FROM audit_events WHERE event <> 'deny') + (SELECT count(*) FROM tombstones)`)
}

// unchanged returns a check that nothing was recorded or sent since now.
func unchanged(t testing.TB, w *apptest.World) func(t testing.TB) {
	t.Helper()
	recorded, sent := records(t, w), len(w.Provider.Requests())
	return func(t testing.TB) {
		t.Helper()
		if n := records(t, w); n != recorded {
			t.Errorf("%d rows were recorded for it", n-recorded)
		}
		if n := len(w.Provider.Requests()); n != sent {
			t.Errorf("%d requests were sent for it; %s", n-sent, w.Describe())
		}
	}
}

// internals is what no caller should read in an error.
var internals = regexp.MustCompile(`(?i)sqlstate|pgx|postgres|\b(select|insert|update) [a-z*]|goroutine|panic|\.go\b|0x[0-9a-f]{6}|(^|\s)(ledger|server|dispatch|actions|proto|grpc): |\*?(ledger|actions|structpb|oncewardv1)\.[A-Z]|/[a-z]+/[a-z]+/|127\.0\.0\.1`)

// wantPlain fails the test when an error tells of our insides.
func wantPlain(t testing.TB, err error) {
	t.Helper()
	st := status.Convert(err)
	if found := internals.FindString(st.Message()); found != "" {
		t.Errorf("the error shows %q: %s", found, st.Message())
	}
	for _, d := range st.Details() {
		if found := internals.FindString(strings.ReplaceAll(fmt.Sprint(d), "type.googleapis.com/", "")); found != "" {
			t.Errorf("a detail of the error shows %q: %v", found, d)
		}
	}
}

func await(t testing.TB, what string, signal <-chan struct{}) {
	t.Helper()
	select {
	case <-signal:
	case <-time.After(apptest.Patience):
		t.Fatalf("waited in vain for: %s", what)
	}
}

// together runs n functions at one moment and waits for them.
func together(n int, do func(i int)) {
	begin := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { <-begin; do(i) })
	}
	close(begin)
	all.Wait()
}

// stub is an adapter whose provider exists in the test only. The zero execute
// is ambiguous.
type stub struct {
	spec    actions.Spec
	execute func(context.Context, actions.Call) actions.Outcome
	calls   *atomic.Int32
}

var _ actions.Adapter = stub{}

func newStub(actionType string, execute func(context.Context, actions.Call) actions.Outcome) stub {
	return stub{
		spec: actions.Spec{
			Type: actionType, Version: "1", Schema: []byte(`{"type":"object"}`),
			Contract: actions.Contract{Provider: "stub", Version: "1"},
		},
		execute: execute, calls: new(atomic.Int32),
	}
}

// approved makes every operation of a stub wait for a reviewer.
func (s stub) approved() stub { s.spec.RequiresApproval = true; return s }

func (s stub) Spec() actions.Spec               { return s.spec }
func (s stub) Validate(actions.Arguments) error { return nil }
func (s stub) Execute(ctx context.Context, call actions.Call) actions.Outcome {
	s.calls.Add(1)
	return s.execute(ctx, call)
}

// applied is a success of a stub.
func applied(_ context.Context, call actions.Call) actions.Outcome {
	return actions.Outcome{Kind: actions.Applied, Receipt: actions.Receipt{Reference: "ref_" + call.OperationID, JSON: []byte(`{"ok":true}`)}}
}

// respecified is an adapter of the demo under another name and contract.
type respecified struct {
	actions.Adapter
	spec actions.Spec
}

func (r respecified) Spec() actions.Spec { return r.spec }
func (r respecified) Lookup(ctx context.Context, q actions.Query) actions.Finding {
	return r.Adapter.(actions.Looker).Lookup(ctx, q)
}

// demoAdapter returns an adapter of the demo against the world's provider.
func demoAdapter(t testing.TB, w *apptest.World, actionType string) actions.Adapter {
	t.Helper()
	adapters, err := demo.New(w.Options.Demo)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range adapters {
		if a.Spec().Type == actionType {
			return a
		}
	}
	t.Fatalf("the demo has no %s", actionType)
	return nil
}

// forgetful is a ledger that fails a method as often as its counter says:
// before the statement, or, where after is set, when it was made.
type forgetful struct {
	app.Ledger
	after             bool
	open, startFails  atomic.Int32
	apply             atomic.Int32
	applyCalls, opens atomic.Int32
}

func (f *forgetful) fails(left *atomic.Int32) bool { return left.Add(-1) >= 0 }

func (f *forgetful) Open(ctx context.Context, o ledger.Opening) (ledger.Operation, bool, error) {
	f.opens.Add(1)
	fail := f.fails(&f.open)
	if fail && !f.after {
		return ledger.Operation{}, false, ledger.ErrUnavailable
	}
	op, created, err := f.Ledger.Open(ctx, o)
	if fail {
		return ledger.Operation{}, false, ledger.ErrUnavailable
	}
	return op, created, err
}

func (f *forgetful) Start(ctx context.Context, c ledger.Claiming) (ledger.Operation, error) {
	fail := f.fails(&f.startFails)
	if fail && !f.after {
		return ledger.Operation{}, ledger.ErrUnavailable
	}
	op, err := f.Ledger.Start(ctx, c)
	if fail {
		return ledger.Operation{}, ledger.ErrUnavailable
	}
	return op, err
}

func (f *forgetful) Apply(ctx context.Context, c ledger.Change) (ledger.Operation, error) {
	f.applyCalls.Add(1)
	fail := f.fails(&f.apply)
	if fail && !f.after {
		return ledger.Operation{}, ledger.ErrUnavailable
	}
	op, err := f.Ledger.Apply(ctx, c)
	if fail {
		return ledger.Operation{}, ledger.ErrUnavailable
	}
	return op, err
}

// forgets makes a replica use a forgetful ledger.
func forgets(f *forgetful) func(*app.Config) {
	return func(c *app.Config) {
		c.WrapLedger = func(l app.Ledger) app.Ledger { f.Ledger = l; return f }
	}
}
