package laws

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

func decode(t testing.TB, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// The same arguments in another spelling are the same request.
func TestReport15_SpellingIsNoDifference(t *testing.T) {
	t.Parallel()
	s := newStub("test.spelled", applied)
	w := apptest.New(t, apptest.Options{Adapters: []actions.Adapter{s}})
	r := w.Start(t, nil)
	req := stubRequest("test.spelled", "key")
	var first *oncewardv1.Operation
	for _, text := range []string{
		`{"a":1,"b":{"x":"é/","y":[1,2.5,100]}}`,
		`{"b":{"y":[1,2.5,100],"x":"é/"},"a":1}`,
		" {\n\t\"a\" : 1.0 , \"b\":{ \"x\":\"\\u00e9\\/\",\"y\":[1e0,25e-1,1E2] } }",
	} {
		op := w.AskIn(t, r, with(req, text), succeeded).GetOperation()
		if first == nil {
			first = op
		}
		if op.GetId() != first.GetId() || op.GetArgumentsHash() != first.GetArgumentsHash() {
			t.Errorf("%s is another operation", text)
		}
	}
	_, err := w.Try(t.Context(), r, with(req, `{"a":1,"b":{"x":"é/","y":[2.5,1,100]}}`)) // a list has an order
	apptest.WantReason(t, err, codes.FailedPrecondition, "IDEMPOTENCY_KEY_REUSED")
	if n := s.calls.Load(); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// Spellings that only look alike are a clear mismatch under one key, and no
// second effect; a key that is not plain ASCII is refused.
func TestReport19_LookAlikesAreAMismatch(t *testing.T) {
	t.Parallel()
	s := newStub("test.named", applied)
	w := apptest.New(t, apptest.Options{Adapters: []actions.Adapter{s}})
	r := w.Start(t, nil)
	named := func(name string) *oncewardv1.RequestActionRequest {
		text, err := json.Marshal(map[string]string{"name": name})
		if err != nil {
			t.Fatal(err)
		}
		return with(stubRequest("test.named", "key"), string(text))
	}
	w.AskIn(t, r, named("Ren\u00e9 Li"), succeeded)
	for _, name := range []string{"Rene\u0301 Li", "Ren\u00e9\u00a0Li", "Ren\u00e9\u200b Li", "Ren\u00e9 Li ", "ren\u00e9 Li"} {
		_, err := w.Try(t.Context(), r, named(name))
		apptest.WantReason(t, err, codes.FailedPrecondition, "IDEMPOTENCY_KEY_REUSED")
	}
	for _, key := range []string{"clé", "cle\u0301", "key\u200b", "key\u00a0", "key "} {
		req := named("Ren\u00e9 Li")
		req.IdempotencyKey = key
		_, err := w.Try(t.Context(), r, req)
		apptest.WantReason(t, err, codes.InvalidArgument, "INVALID_REQUEST")
	}
	if n := s.calls.Load(); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// Another tenant's key neither answers nor blocks ours, even while theirs is
// being worked on, and naming another tenant in a request does nothing.
func TestReport25_KeysOfTenantsAreApart(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	entered := make(chan struct{})
	s := newStub("test.slow", func(ctx context.Context, call actions.Call) actions.Outcome {
		if call.Tenant == "acme" {
			close(entered)
			<-hold
		}
		return applied(ctx, call)
	})
	w := apptest.New(t, apptest.Options{Adapters: []actions.Adapter{s}})
	r := w.Start(t, nil)
	t.Cleanup(func() { close(hold) }) // before the replica is stopped, which waits for it
	req := with(stubRequest("test.slow", "tenant:acme|same"), `{"tenant":"acme","tenant_id":"acme"}`)
	theirs := start(t, w, r, req)
	await(t, "the other tenant's call", entered)
	resp, err := r.Actions.RequestAction(apptest.As(t.Context(), w.Globex), req)
	if err != nil || resp.GetOperation().GetState() != succeeded || resp.GetOperation().GetTenant() != "globex" || resp.GetOperation().GetId() == theirs {
		t.Errorf("got %v, %v while the other's is under way", resp, err)
	}
	if _, err := r.Actions.RequestAction(t.Context(), req); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a credential: %v", err)
	}
	if n := s.calls.Load(); n != 2 {
		t.Errorf("%d calls, want one for each tenant", n)
	}
}

// 200 callers at once, half of them leave at random moments: one effect, and
// all who stay have the same receipt.
func TestReport33_LeaversTakeNothingAway(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	gate := fakeprovider.NewGate()
	t.Cleanup(gate.Release)
	w.Provider.Next(fakeprovider.Fault{HoldAfter: gate})
	receipts := make([]*oncewardv1.Receipt, 200)
	together(201, func(i int) {
		if i == 200 {
			await(t, "the request at the provider", gate.Reached())
			gate.Release()
			return
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if i%2 == 1 {
			defer time.AfterFunc(time.Duration(i*i%97)*time.Millisecond, cancel).Stop()
		}
		resp, err := w.Try(ctx, r, apptest.Invoice("inv_stampede"))
		switch {
		case err == nil:
			receipts[i] = resp.GetOperation().GetReceipt()
		case i%2 == 0, status.Code(err) != codes.Canceled:
			t.Errorf("caller %d: %v", i, err)
		}
	})
	for i, receipt := range receipts {
		if i%2 == 0 && (receipt.GetJson() == "" || receipt.GetJson() != receipts[0].GetJson()) {
			t.Errorf("caller %d has %v, the first %v", i, receipt, receipts[0])
		}
	}
	w.WantEffects(t, 1)
	if n := writes(w); n != 1 {
		t.Errorf("%d writes", n)
	}
}

// The caller's queue delivers the job again, hours apart, while it runs and
// when it is done.
func TestReport45_Redelivery(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, withoutReconciler)
	gate := fakeprovider.NewGate()
	t.Cleanup(gate.Release)
	w.Provider.Next(fakeprovider.Fault{HoldBefore: gate})
	req := apptest.Refund("ch_1", 500, "run_1")
	req.RetryCause = oncewardv1.RetryCause_RETRY_CAUSE_QUEUE_REDELIVERY
	id := start(t, w, r, req)
	await(t, "the request at the provider", gate.Reached())
	for range 5 {
		resp := w.Ask(t, r, apptest.Waiting(req, 0))
		if resp.GetOperation().GetId() != id || resp.GetOperation().GetState() != running || resp.GetNextStep().GetKind() != wait {
			t.Errorf("delivered while it runs: %v", resp)
		}
	}
	gate.Release()
	op := w.WaitFor(t, "acme", id, ledger.Succeeded)
	for range 5 {
		w.Database.Age(t, op, 5*time.Hour)
		if resp := w.AskIn(t, r, req, succeeded); !resp.GetReplayed() || resp.GetOperation().GetReceipt().GetJson() != string(op.Receipt) {
			t.Errorf("delivered when it is done: %v", resp)
		}
	}
	w.WantEffects(t, 1)
}

// Many parallel steps in one moment on two replicas: as many operations, keys
// and provider keys.
func TestReport59_ParallelKeysDoNotMeet(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	replicas := []*apptest.Replica{w.Start(t, nil), w.StartChild(t, apptest.ChildOptions{}).Replica}
	const n = 120
	together(n, func(i int) {
		req := apptest.Refund("ch_same", 5, "run_same")
		req.Run.StepId = fmt.Sprintf("step_%d", i/2)
		req.Run.RunId = []string{"run_a", "run_b"}[i%2]
		if resp, err := w.Try(t.Context(), replicas[i%2], req); err != nil || resp.GetOperation().GetState() != succeeded {
			t.Errorf("step %d: %v, %v", i, resp, err)
		}
	})
	w.WantEffects(t, n)
	if keys := providerKeys(w); len(keys) != n {
		t.Errorf("%d provider keys for %d operations", len(keys), n)
	}
	if got := w.Database.Count(t, `SELECT count(DISTINCT idempotency_key) FROM operations`); got != n {
		t.Errorf("%d keys for %d operations", got, n)
	}
}
