package laws

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// Other arguments are refused whether the key was the caller's, composed by a
// recipe, or made of run and step, and the operation answers as before.
func TestLaw05_OtherArgumentsOnEachKindOfKey(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	for name, c := range map[string]struct {
		req   *oncewardv1.RequestActionRequest
		other string
	}{
		"caller's key": {apptest.Keyed(apptest.Refund("ch_1", 500, "run_1"), "key-1"), `{"charge_id":"ch_1","amount":501,"currency":"usd"}`},
		"recipe":       {apptest.Contact("li@example.test"), `{"email":"li@example.test","name":"Lee"}`},
		"run and step": {apptest.Refund("ch_2", 500, "run_2"), `{"charge_id":"ch_2","amount":500,"currency":"eur"}`},
	} {
		t.Run(name, func(t *testing.T) {
			first := w.AskIn(t, r, c.req, succeeded)
			check := unchanged(t, w)
			_, err := w.Try(t.Context(), r, with(c.req, c.other))
			st := apptest.WantReason(t, err, codes.FailedPrecondition, "IDEMPOTENCY_KEY_REUSED")
			wantPlain(t, st.Err())
			check(t)
			again := w.AskIn(t, r, c.req, succeeded)
			if !again.GetReplayed() || !proto.Equal(again.GetOperation(), first.GetOperation()) {
				t.Errorf("the operation changed: %v, was %v", again, first)
			}
		})
	}
}

// The receipt of every duplicate is the original's, byte for byte, whatever the
// provider wrote into it, on another replica, and as GetOperation has it.
func TestLaw06_ReceiptByteForByte(t *testing.T) {
	t.Parallel()
	receipts := []string{
		`{"id":"r","b":1.50,"a":1e400,"big":123456789012345678901234567890}`,
		"{ \"b\" : 1 ,\n\t\"a\":[1, 2] }",
		`{"a":"\u0000 \ud800 \u00e9 é 🎉 \/"}`,
		`{"a":1,"a":2}`,
	}
	stubs := make([]actions.Adapter, len(receipts))
	for i, receipt := range receipts {
		stubs[i] = receiptStub(fmt.Sprintf("test.receipt%d", i), receipt)
	}
	w := apptest.New(t, apptest.Options{Adapters: stubs})
	a, b := w.Start(t, nil), w.Start(t, nil)
	for i, receipt := range receipts {
		req := stubRequest(fmt.Sprintf("test.receipt%d", i), fmt.Sprintf("key-%d", i))
		first := w.AskIn(t, a, req, succeeded)
		for _, r := range []*apptest.Replica{a, b} {
			again := w.AskIn(t, r, req, succeeded)
			got, err := r.Actions.GetOperation(apptest.As(t.Context(), w.Agent), &oncewardv1.GetOperationRequest{
				Selector: &oncewardv1.GetOperationRequest_IdempotencyKey{IdempotencyKey: req.GetIdempotencyKey()}})
			if err != nil {
				t.Fatal(err)
			}
			for _, op := range []*oncewardv1.Operation{first.GetOperation(), again.GetOperation(), got.GetOperation()} {
				if op.GetReceipt().GetJson() != receipt {
					t.Errorf("receipt is %q, want %q", op.GetReceipt().GetJson(), receipt)
				}
			}
			if !again.GetReplayed() || first.GetReplayed() {
				t.Errorf("replayed is %v, then %v", first.GetReplayed(), again.GetReplayed())
			}
		}
		if n := stubs[i].(stub).calls.Load(); n != 1 {
			t.Errorf("%d calls", n)
		}
	}
}

// Two receipts for one operation: the first stays, and a person is told.
func TestLaw07_LateReceiptIsEvidence(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	gate := fakeprovider.NewGate()
	t.Cleanup(gate.Release)
	w.Provider.Next(fakeprovider.Fault{HoldAfter: gate})
	slow := w.Start(t, withoutReconciler)
	id := start(t, w, slow, apptest.Invoice("inv_1"))
	await(t, "the request at the provider", gate.Reached())
	w.Database.Age(t, w.Held(t, id), 2*time.Minute)
	w.Start(t, nil) // expires the lease and finds the effect
	before := w.WaitFor(t, "acme", id, ledger.Succeeded)
	gate.Release()
	slow.Stop() // after its attempt was settled
	after := w.Held(t, id)
	if after.State != ledger.Succeeded || string(after.Receipt) != string(before.Receipt) || after.Attempt != before.Attempt || after.Incident != "" {
		t.Errorf("the late answer changed the operation: %+v, was %+v", after, before)
	}
	w.WantOneEffect(t, id)
	w.WantTrail(t, id, "claim doubt confirm")
}

// Ten years do not end an operation that is not finished: it keeps its row, its
// key and its state, and the request still finds it.
func TestLaw08_UnfinishedNeverExpires(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{Adapters: []actions.Adapter{newStub("test.approved", applied).approved()}})
	serving := w.Start(t, withoutReconciler)
	w.Ask(t, serving, apptest.Waiting(stubRequest("test.approved", "approval"), 0))
	w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying})
	doubt := apptest.Invoice("inv_doubt")
	w.WaitFor(t, "acme", start(t, w, serving, doubt), ledger.Unknown)
	w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.RateLimited, RetryAfter: time.Hour})
	deferred := apptest.Refund("ch_deferred", 1, "run_deferred")
	w.WaitFor(t, "acme", start(t, w, serving, deferred), ledger.Pending)
	gate := fakeprovider.NewGate()
	t.Cleanup(gate.Release)
	w.Provider.Next(fakeprovider.Fault{HoldBefore: gate})
	claimed := apptest.Contact("li@example.test")
	start(t, w, serving, claimed)
	await(t, "the request at the provider", gate.Reached())

	ops, err := w.Owner().List(t.Context(), "acme", ledger.Filter{}, "", 10)
	if err != nil || len(ops) != 4 {
		t.Fatalf("%d operations, %v", len(ops), err)
	}
	for _, op := range ops {
		w.Database.Age(t, op, years)
	}
	for range 3 {
		if _, _, _, err := w.Owner().Sweep(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
	}
	for i, req := range []*oncewardv1.RequestActionRequest{stubRequest("test.approved", "approval"), doubt, deferred, claimed} {
		got := w.Ask(t, serving, apptest.Waiting(req, 0)).GetOperation()
		want := ops[len(ops)-1-i] // newest first
		if got.GetId() != want.ID || got.GetState() == failed || got.GetWindowEndsAt() != nil {
			t.Errorf("%s: operation %s is %s, want %s as %s", req.GetActionType(), got.GetId(), got.GetState(), want.ID, want.State)
		}
	}
}

// What a caller says about its own tries changes nothing: same key, same
// operation, one effect, one number of attempts.
func TestLaw09_CallersCountDecidesNothing(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	var first *oncewardv1.Operation
	for i := range int32(6) {
		req := apptest.Refund("ch_1", 500, "run_1")
		req.Run.Attempt, req.Run.ToolCallId, req.Run.ToolVersion = i, fmt.Sprintf("call_%d", i), fmt.Sprint(i)
		req.Run.Agent = fmt.Sprintf("planner-%d", i)
		req.RetryCause = oncewardv1.RetryCause(i + 1)
		req.IntentId = fmt.Sprintf("goal-%d", i)
		op := w.AskIn(t, r, req, succeeded).GetOperation()
		if first == nil {
			first = op
		}
		if !proto.Equal(op, first) {
			t.Errorf("try %d got %v, the first %v", i, op, first)
		}
	}
	if n := w.Held(t, first.GetId()).Attempt; n != 1 {
		t.Errorf("%d attempts", n)
	}
	w.WantEffects(t, 1)
}

// A request has no field that could ask for attempts, backoff, a time to retry,
// a budget or an approval: who adds one must think about this law first. The
// answer advises when to ask again and tells nothing of how we retry.
func TestLaw09_RequestsCarryNoRetryPolicy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		message proto.Message
		fields  []string
	}{
		{&oncewardv1.RequestActionRequest{}, []string{
			"action_type", "arguments", "arguments_json", "corrects_operation_id", "distinct_from_operation_id",
			"idempotency_key", "intent_id", "retry_cause", "run", "wait"}},
		{&oncewardv1.RunContext{}, []string{"agent", "attempt", "instance", "run_id", "step_id", "tool_call_id", "tool_version"}},
		{&oncewardv1.RequestActionResponse{}, []string{"disposition", "duplicate", "next_step", "observation", "operation", "replayed"}},
		{&oncewardv1.NextStep{}, []string{"kind", "message", "retry_after"}},
	} {
		d := c.message.ProtoReflect().Descriptor()
		if got := fieldNames(d); !slices.Equal(got, c.fields) {
			t.Errorf("%s has the fields %v, not %v: does the planner decide about retries by one of them?", d.Name(), got, c.fields)
		}
	}
}

func fieldNames(d protoreflect.MessageDescriptor) []string {
	var names []string
	for i := range d.Fields().Len() {
		names = append(names, string(d.Fields().Get(i).Name()))
	}
	slices.Sort(names)
	return names
}

func receiptStub(actionType, receipt string) stub {
	return newStub(actionType, func(context.Context, actions.Call) actions.Outcome {
		return actions.Outcome{Kind: actions.Applied, Receipt: actions.Receipt{Reference: "r", JSON: []byte(receipt)}}
	})
}
