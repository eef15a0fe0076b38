package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/onceward/onceward/fakeprovider"
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

	executed = oncewardv1.Disposition_DISPOSITION_EXECUTED
	replayed = oncewardv1.Disposition_DISPOSITION_REPLAYED
	joined   = oncewardv1.Disposition_DISPOSITION_JOINED
	accepted = oncewardv1.Disposition_DISPOSITION_ACCEPTED
)

// action is one of the demo action types, as a test asks for it.
type action struct {
	name    string
	request func(name string) *oncewardv1.RequestActionRequest
}

// The four kinds of provider. The name of a request is in the body that the
// provider sees, so that a fault can be meant for it alone.
func refund() action {
	return action{"refund", func(name string) *oncewardv1.RequestActionRequest {
		return apptest.Refund("ch_"+name, 500, "run_"+name)
	}}
}
func invoice() action { return action{"invoice", apptest.Invoice} }
func contact() action {
	return action{"contact", func(name string) *oncewardv1.RequestActionRequest { return apptest.Contact(name + "@example.test") }}
}
func note() action {
	return action{"note", func(name string) *oncewardv1.RequestActionRequest { return apptest.Note(name, "run_"+name) }}
}

func onProvider() []action { return []action{refund(), invoice(), contact()} }
func everyAction() []action {
	return append(onProvider(), note())
}

// forRequest gives faults to the writes whose body names the request.
func forRequest(w *apptest.World, name string, faults ...fakeprovider.Fault) {
	w.Provider.ForMatch(write(name), faults...)
}

// answer is what one of many callers got.
type answer struct {
	resp *oncewardv1.RequestActionResponse
	err  error
}

// crowd lets n callers ask at one moment, each on the replica of its number,
// and returns their answers.
func crowd(t testing.TB, w *apptest.World, n int, req *oncewardv1.RequestActionRequest, replicas ...*apptest.Replica) []answer {
	t.Helper()
	answers := make([]answer, n)
	start := make(chan struct{})
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() {
			<-start
			answers[i].resp, answers[i].err = w.Try(t.Context(), replicas[i%len(replicas)], proto.CloneOf(req))
		})
	}
	close(start)
	callers.Wait()
	return answers
}

// wantOneReceipt fails the test unless all got the same receipt of the same
// operation and one of them, or nobody, caused it. It returns the receipt.
func wantOneReceipt(t testing.TB, w *apptest.World, answers []answer, mayExecute int) *oncewardv1.Operation {
	t.Helper()
	var first *oncewardv1.Operation
	made := 0
	for i, a := range answers {
		if a.err != nil {
			t.Fatalf("caller %d: %v; %s", i, a.err, w.Describe())
		}
		op := a.resp.GetOperation()
		if first == nil {
			first = op
		}
		if op.GetState() != succeeded || op.GetId() != first.GetId() || !proto.Equal(op.GetReceipt(), first.GetReceipt()) {
			t.Fatalf("caller %d got %v, the first %v; %s", i, op, first, w.Describe())
		}
		if a.resp.GetReplayed() != (a.resp.GetDisposition() == replayed) {
			t.Errorf("caller %d: replayed is %v with %s", i, a.resp.GetReplayed(), a.resp.GetDisposition())
		}
		if d := a.resp.GetDisposition(); d == executed {
			made++
		}
	}
	if made != mayExecute {
		t.Errorf("%d callers were told that they caused the action, want %d", made, mayExecute)
	}
	return first
}

// theOnly returns the one operation that the tenant has.
func theOnly(t testing.TB, w *apptest.World) ledger.Operation {
	t.Helper()
	ops, err := w.Owner().List(t.Context(), "acme", ledger.Filter{}, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(ops) != 1 {
		t.Fatalf("the ledger holds %d operations, want one: %+v", len(ops), ops)
	}
	return w.Held(t, ops[0].ID)
}

// endLease lets the lease of an operation run out, as if the time had passed.
// It does so by a minute more than any worker's lease, and less than any
// reconciler's on top of it.
func endLease(t testing.TB, w *apptest.World, op ledger.Operation) {
	t.Helper()
	w.Database.Age(t, op, 2*time.Minute)
}

// writes counts the requests that could have had an effect and name something.
func writes(w *apptest.World, name string) int { return requests(w, "POST", name) }

func requests(w *apptest.World, method, name string) int {
	n := 0
	for _, r := range w.Provider.Requests() {
		if r.Method == method && (strings.Contains(r.NaturalKey, name) || strings.Contains(r.Target, name)) {
			n++
		}
	}
	return n
}

// wantSound fails the test unless the whole world is in order: nothing was sent
// without a row, no operation has two effects, none is stuck, and the audit
// record and the attempts say the same as the rows.
func wantSound(t testing.TB, w *apptest.World) {
	t.Helper()
	sent, applied := map[string]bool{}, map[string]int{}
	for _, r := range w.Provider.Requests() {
		if r.OperationID != "" {
			sent[r.OperationID] = true
		}
	}
	for _, e := range w.Provider.Effects() {
		applied[e.OperationID]++
	}
	for id := range sent {
		if w.Database.Count(t, `SELECT count(*) FROM operations WHERE id = $1::uuid`, id) != 1 {
			t.Errorf("something was sent for %s, which the ledger does not know", id)
		}
	}
	for id, n := range applied {
		if n != 1 {
			t.Errorf("operation %s has %d effects; %s", id, n, w.Describe())
		}
	}
	for what, query := range map[string]string{
		"operations are stuck": `SELECT count(*) FROM operations WHERE status IN ('pending', 'running', 'unknown')`,
		"running operations are in no lease": `SELECT count(*) FROM operations o WHERE status = 'running' AND NOT EXISTS (SELECT FROM leases l
			WHERE l.tenant_id = o.tenant_id AND o.idempotency_key = ANY (l.idempotency_keys))`,
		"operations have other attempts than they count": `SELECT count(*) FROM operations o WHERE attempt <>
			(SELECT count(*) FROM attempts a WHERE a.tenant_id = o.tenant_id AND a.operation_id = o.id)`,
		"attempts of finished operations are open": `SELECT count(*) FROM attempts a JOIN operations o ON o.tenant_id = a.tenant_id AND o.id = a.operation_id
			WHERE a.ended_at IS NULL AND o.status <> 'running'`,
		"operations are elsewhere than their audit record ends": `SELECT count(*) FROM operations o WHERE status IS DISTINCT FROM
			(SELECT to_status FROM audit_events e WHERE e.tenant_id = o.tenant_id AND e.operation_id = o.id ORDER BY sequence DESC LIMIT 1)`,
		"audit events do not follow from the ones before": `SELECT count(*) FROM (SELECT from_status,
			lag(to_status, 1, '') OVER (PARTITION BY tenant_id, operation_id ORDER BY sequence) AS before FROM audit_events) e WHERE from_status <> before`,
	} {
		if n := w.Database.Count(t, query); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
}

// withoutReconciler makes a replica that only serves.
func withoutReconciler(c *app.Config) { c.Reconcile = false }

// await waits for a signal that must come.
func await(t testing.TB, what string, signal <-chan struct{}) {
	t.Helper()
	select {
	case <-signal:
	case <-time.After(apptest.Patience):
		t.Fatalf("waited in vain for: %s", what)
	}
}

// provided waits until the provider counts n of something: one of its methods
// WaitEffects, WaitRequests, WaitFinished.
func provided(t testing.TB, wait func(context.Context, int) error, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), apptest.Patience)
	defer cancel()
	if err := wait(ctx, n); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until something holds.
func eventually(t testing.TB, w *apptest.World, what string, holds func() bool) {
	t.Helper()
	apptest.Eventually(t, holds, func() string { return fmt.Sprintf("%s; %s", what, w.Describe()) })
}
