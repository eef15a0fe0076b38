package laws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// A provider that ignores keys acts and cuts the kept-alive connection. The
// request carries an Idempotency-Key, with which a transport would send it
// again by itself: one effect, doubt, and the look-up finds it.
func TestReport01_NoSilentResend(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{Provider: fakeprovider.Options{IgnoreKeys: true}})
	// The contract tells the truth: the key goes along and promises nothing.
	keyed := demoAdapter(t, w, "payments.refund.create")
	spec := keyed.Spec()
	spec.Type, spec.Contract.Keys = "test.keyless.refund", actions.KeyRules{}
	w.Adapters = []actions.Adapter{respecified{keyed, spec}}
	r := w.Start(t, nil)
	req := func(charge string) *oncewardv1.RequestActionRequest {
		req := apptest.Refund(charge, 500, "run_"+charge)
		req.ActionType = spec.Type
		return req
	}
	w.AskIn(t, r, req("ch_warm"), succeeded) // the connection is warm now
	for i, reset := range []bool{false, true} {
		w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying, Reset: reset})
		op := w.AskIn(t, r, req(fmt.Sprintf("ch_%d", i)), succeeded).GetOperation()
		w.WantOneEffect(t, op.GetId())
		w.WantTrail(t, op.GetId(), "claim doubt confirm")
	}
	if n := writes(w); n != 3 {
		t.Errorf("%d writes, want 3; %s", n, w.Describe())
	}
}

// A server's error whose request had succeeded, without keys: no second write,
// and the found object is the receipt.
func TestReport05_ErrorAfterApplying(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	for i, code := range []int{500, 502, 503, 504, 520, 599} {
		w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.ErrorAfterApplying, Status: code})
		op := w.AskIn(t, r, apptest.Invoice(fmt.Sprintf("inv_%d", i)), succeeded).GetOperation()
		w.WantOneEffect(t, op.GetId())
		if effects := w.Provider.EffectsFor(op.GetId()); effects[0].ID != op.GetReceipt().GetProviderReference() {
			t.Errorf("%d: the receipt names %s, the target holds %s", code, op.GetReceipt().GetProviderReference(), effects[0].ID)
		}
		if n := writes(w); n != i+1 {
			t.Errorf("%d: %d writes, want %d", code, n, i+1)
		}
	}
}

// An adapter that fails after its effect is called once, whatever it reports
// or does not report.
func TestReport07_OneCallWhateverComesBack(t *testing.T) {
	t.Parallel()
	var stubs []actions.Adapter
	for name, execute := range map[string]func(context.Context, actions.Call) actions.Outcome{
		"forgets":  func(context.Context, actions.Call) actions.Outcome { return actions.Outcome{} },
		"panics":   func(context.Context, actions.Call) actions.Outcome { panic(errors.New("boom")) },
		"no_kind":  func(context.Context, actions.Call) actions.Outcome { return actions.Outcome{Kind: 99} },
		"negative": func(context.Context, actions.Call) actions.Outcome { return actions.Outcome{Kind: -1} },
		"no_receipt": func(context.Context, actions.Call) actions.Outcome {
			return actions.Outcome{Kind: actions.Applied}
		},
	} {
		stubs = append(stubs, newStub("test."+name, execute))
	}
	w := apptest.New(t, apptest.Options{Adapters: stubs})
	r := w.Start(t, nil)
	for _, s := range stubs {
		// No keys and no look-up: a person must find out.
		resp := w.AskIn(t, r, stubRequest(s.Spec().Type, "key-"+s.Spec().Type), needsReview)
		w.AskIn(t, r, stubRequest(s.Spec().Type, "key-"+s.Spec().Type), needsReview)
		if n := s.(stub).calls.Load(); n != 1 {
			t.Errorf("%s: %d calls", s.Spec().Type, n)
		}
		w.WantTrail(t, resp.GetOperation().GetId(), "claim doubt escalate")
	}
}

// One provider key and one body for an operation, over tries, a restart, another
// process, and notes that the model rephrases: the first rendering is frozen.
func TestReport21_OneKeyOneBody(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	cut := fakeprovider.Fault{Kind: fakeprovider.DropBeforeReading}
	w.Provider.Next(cut, cut)
	first := w.Start(t, nil)
	req := func(note string) *oncewardv1.RequestActionRequest {
		return with(apptest.Refund("ch_1", 500, "run_1"), fmt.Sprintf(`{"currency":"usd","reason":%q,"amount":500,"charge_id":"ch_1"}`, note))
	}
	id := start(t, w, first, req("first note"))
	wantRequests(t, w, 2)
	first.Stop()
	w.Provider.Next(cut)
	child := w.StartChild(t, apptest.ChildOptions{})
	start(t, w, child.Replica, req("second note"))
	wantRequests(t, w, 3)
	child.Kill()
	w.Database.Age(t, w.Held(t, id), 2*time.Minute)
	last := w.Start(t, nil)
	w.AskIn(t, last, req("third note"), succeeded)
	w.WantOneEffect(t, id)
	bodies := map[string]bool{}
	for _, r := range w.Provider.Requests() {
		if r.Method == http.MethodPost {
			bodies[r.BodySHA256] = true
		}
	}
	if keys := providerKeys(w); len(keys) != 1 || len(bodies) != 1 {
		t.Errorf("%d keys and %d bodies; %s", len(keys), len(bodies), w.Describe())
	}
	var body struct{ Reason string }
	decode(t, w.Provider.EffectsFor(id)[0].Body, &body)
	if body.Reason != "first note" {
		t.Errorf("what was sent says %q", body.Reason)
	}
}

func wantRequests(t testing.TB, w *apptest.World, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), apptest.Patience)
	defer cancel()
	if err := w.Provider.WaitFinished(ctx, n); err != nil {
		t.Fatalf("%v; %s", err, w.Describe())
	}
}

// Advisory arguments may change from try to try; the operation is the same, and
// the first rendering is the one that is sent, also by a later attempt.
func TestReport17_AdvisoryArgumentsAreNoIdentity(t *testing.T) {
	t.Parallel()
	var sent []string
	volatile := newStub("test.volatile", nil)
	volatile.spec.AdvisoryArgs = []string{"created_at", "trace"}
	volatile.execute = func(ctx context.Context, call actions.Call) actions.Outcome {
		sent = append(sent, string(call.Arguments.JSON()))
		if len(sent) == 1 {
			return actions.Outcome{Kind: actions.NotApplied}
		}
		return applied(ctx, call)
	}
	w := apptest.New(t, apptest.Options{Adapters: []actions.Adapter{volatile}})
	r := w.Start(t, nil)
	var ids []string
	for i := range 4 {
		req := with(stubRequest("test.volatile", "key"), fmt.Sprintf(`{"amount":5,"created_at":"2026-01-0%d","trace":{"id":%d}}`, i+1, i))
		if i == 3 {
			req = with(req, `{"amount":5}`) // left out is no mismatch either
		}
		ids = append(ids, w.AskIn(t, r, req, succeeded).GetOperation().GetId())
	}
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("operations %v, want one", ids)
		}
	}
	if len(sent) != 2 || sent[0] != sent[1] || sent[0] != `{"amount":5,"created_at":"2026-01-01","trace":{"id":0}}` {
		t.Errorf("sent %q", sent)
	}
}

// What was proved not applied is tried again with the same request; what is in
// doubt is not kept as a failure.
func TestReport23_ErrorsAreNotTheAnswerForEver(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.RateLimited})
	limited := w.AskIn(t, r, apptest.Refund("ch_1", 500, "run_1"), succeeded).GetOperation()
	w.WantTrail(t, limited.GetId(), "claim defer claim confirm")
	w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.ErrorBeforeApplying})
	broken := w.AskIn(t, r, apptest.Refund("ch_2", 500, "run_2"), succeeded).GetOperation()
	w.WantTrail(t, broken.GetId(), "claim doubt replay confirm")
	for _, op := range []*oncewardv1.Operation{limited, broken} {
		w.WantOneEffect(t, op.GetId())
	}
}

// Retry-After in seconds is seconds, as a date it is until then, and one that
// has passed leaves it to our own backoff.
func TestReport53_RetryAfter(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, withoutReconciler)
	now := time.Now()
	for i, c := range []struct {
		text     string
		from, to time.Duration
	}{
		{"120", 120 * time.Second, 120 * time.Second},
		{now.Add(time.Hour).UTC().Format(httpDate), 59 * time.Minute, time.Hour + time.Second},
		{now.Add(-time.Hour).UTC().Format(httpDate), time.Millisecond, 5 * time.Second},
		{"-120", time.Millisecond, 5 * time.Second},
		{"soon", time.Millisecond, 5 * time.Second},
	} {
		w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.RateLimited, RetryAfterText: c.text})
		op := w.WaitFor(t, "acme", start(t, w, r, apptest.Refund(fmt.Sprintf("ch_%d", i), 1, fmt.Sprintf("run_%d", i))), ledger.Pending)
		if wait := op.NextAttemptAt.Sub(op.UpdatedAt); wait < c.from || wait > c.to {
			t.Errorf("Retry-After: %s waits %s, want %s to %s", c.text, wait, c.from, c.to)
		}
	}
}

const httpDate = "Mon, 02 Jan 2006 15:04:05 GMT"

// A success whose answer the database refuses is a success.
func TestReport55_AnswersThatTheDatabaseRefuses(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	for i, fault := range []fakeprovider.Fault{
		{Kind: fakeprovider.NULAnswer}, {Kind: fakeprovider.LoneSurrogateAnswer}, {Kind: fakeprovider.InvalidUTF8Answer},
		{Kind: fakeprovider.HugeAnswer, Size: 5 << 20},
		{Kind: fakeprovider.NULAnswer, Field: "id"}, {Kind: fakeprovider.InvalidUTF8Answer, Field: "id"},
	} {
		name := fmt.Sprintf("odd_%d", i)
		for _, req := range []*oncewardv1.RequestActionRequest{
			apptest.Refund("ch_"+name, 5, "run_"+name), apptest.Invoice("inv_" + name), apptest.Contact(name + "@example.test"),
		} {
			w.Provider.Next(fault)
			resp := w.Ask(t, r, req)
			op := resp.GetOperation()
			if op.GetState() == failed {
				t.Errorf("%s %s: a success became %v", fault, req.GetActionType(), op)
				continue
			}
			if fault.Field == "id" && op.GetState() == needsReview {
				continue // the reference itself is unreadable: a person may look
			}
			w.WantOneEffect(t, op.GetId())
			if again := w.Ask(t, r, req); !proto.Equal(again.GetOperation().GetReceipt(), op.GetReceipt()) || again.GetOperation().GetReceipt().GetJson() == "" {
				t.Errorf("%s: the receipt is %v, then %v", fault, op.GetReceipt(), again.GetOperation().GetReceipt())
			}
		}
	}
}
