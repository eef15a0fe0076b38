package laws

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// One effect for a key, however the request comes: many callers, two replicas,
// lost answers, a lease that runs out, a restart.
func TestLaw01_OneKeyOneEffect(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	a, b := w.Start(t, nil), w.Start(t, nil)
	requests := []*oncewardv1.RequestActionRequest{
		apptest.Refund("ch_1", 500, "run_1"), apptest.Invoice("inv_1"), apptest.Contact("li@example.test"), apptest.Note("n", "run_1"),
	}
	w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying, Times: 2})
	for _, req := range requests {
		together(16, func(i int) {
			if _, err := w.Try(t.Context(), []*apptest.Replica{a, b}[i%2], req); err != nil {
				t.Errorf("%s: %v", req.GetActionType(), err)
			}
		})
	}
	a.Stop()
	c := w.Start(t, nil)
	for _, req := range requests {
		w.WantOneEffect(t, w.AskIn(t, c, req, succeeded).GetOperation().GetId())
	}
	w.WantEffects(t, 3)
}

// Whatever reaches the provider finds its attempt on record: running, claimed
// under the number that counts it, and committed, since another connection
// sees it. First attempts, deferred ones and replays alike.
func TestLaw02_TheLedgerFirst(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	conn := w.Database.Owner(t)
	var mu sync.Mutex // of conn, and of what was seen
	var seen []string
	w.Provider.ForMatch(func(r *http.Request, body []byte) bool {
		if r.Method != http.MethodPost {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		var status, outcome string
		var attempt int
		err := conn.QueryRow(context.WithoutCancel(t.Context()), `
			SELECT o.status, o.attempt, coalesce(a.outcome, 'open') FROM operations o
			JOIN attempts a ON a.tenant_id = o.tenant_id AND a.operation_id = o.id AND a.number = o.attempt
			WHERE position(o.id::text in $1) > 0`, string(body)).Scan(&status, &attempt, &outcome)
		if err != nil {
			status = "missing: " + err.Error()
		}
		seen = append(seen, fmt.Sprintf("%s %d %s", status, attempt, outcome))
		return false // it only looks
	}, fakeprovider.Fault{Times: -1})

	r := w.Start(t, nil)
	w.Provider.Next(
		fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying}, fakeprovider.Fault{}, // replayed with its key
		fakeprovider.Fault{Kind: fakeprovider.RateLimited}, fakeprovider.Fault{}, // deferred
	)
	w.AskIn(t, r, apptest.Refund("ch_1", 500, "run_1"), succeeded)
	w.AskIn(t, r, apptest.Refund("ch_2", 500, "run_2"), succeeded)
	w.AskIn(t, r, apptest.Invoice("inv_1"), succeeded)
	w.AskIn(t, r, apptest.Contact("li@example.test"), succeeded)
	mu.Lock()
	defer mu.Unlock()
	want := []string{"running 1 open", "running 2 open", "running 1 open", "running 2 open", "running 1 open", "running 1 open"}
	if !slices.Equal(seen, want) {
		t.Errorf("the provider's requests found on record %q, want %q", seen, want)
	}
}

// An attempt that proves nothing leaves unknown, not failed and not pending:
// a timeout, a cut connection, a server's error, a page of a proxy.
func TestLaw03_DoubtIsAState(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{Demo: demo.Options{Timeout: 300 * time.Millisecond}})
	r := w.Start(t, withoutReconciler)
	for i, fault := range []fakeprovider.Fault{
		{Kind: fakeprovider.NeverAnswer}, {Kind: fakeprovider.NeverAnswer, Apply: true},
		{Kind: fakeprovider.DropBeforeReading}, {Kind: fakeprovider.DropAnswerAfterApplying},
		{Kind: fakeprovider.ErrorBeforeApplying}, {Kind: fakeprovider.ErrorAfterApplying, Status: 503},
		{Kind: fakeprovider.HTML502}, {Kind: fakeprovider.Accepted202}, {Kind: fakeprovider.TruncateAnswer},
	} {
		w.Provider.Next(fault)
		id := start(t, w, r, apptest.Refund(fmt.Sprintf("ch_%d", i), 500, fmt.Sprintf("run_%d", i)))
		op := w.WaitFor(t, "acme", id, ledger.Unknown, ledger.Failed, ledger.Pending, ledger.Succeeded)
		if op.State != ledger.Unknown || !op.InDoubt || op.Effect == ledger.EffectNotApplied || op.Effect == ledger.EffectNone {
			t.Errorf("%s: %s with effect %s, in doubt %v (%s)", fault, op.State, op.Effect, op.InDoubt, op.Reason)
		}
	}
}

// A lease that ran out, however long ago, says nothing about the target: the
// operation becomes unknown, and from there nothing but proof, its own key or
// a person moves it.
func TestLaw04_LeaseExpiryIsDoubt(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{Demo: demo.Options{Timeout: time.Minute}})
	gate := fakeprovider.NewGate()
	t.Cleanup(gate.Release)
	// The CRM never answers look-ups, and its contract has no keys.
	w.Provider.NextLookup(fakeprovider.Fault{Kind: fakeprovider.ErrorBeforeApplying, Times: -1})
	w.Provider.Next(fakeprovider.Fault{HoldBefore: gate})
	child := w.StartChild(t, apptest.ChildOptions{NoReconciler: true})
	id := start(t, w, child.Replica, apptest.Contact("li@example.test"))
	await(t, "the request at the provider", gate.Reached())
	child.Kill()

	for _, age := range []time.Duration{2 * time.Minute, years} {
		w.Database.Age(t, w.Held(t, id), age)
	}
	w.Start(t, nil)
	apptest.Eventually(t, func() bool { return w.Held(t, id).Resolves > 3 || w.Held(t, id).State == ledger.NeedsReview },
		func() string { return fmt.Sprint(w.Trail(t, id)) })
	for _, event := range w.Trail(t, id) {
		if !slices.Contains([]string{"claim", "doubt", "escalate"}, event) {
			t.Errorf("audit record is %v: %s without any proof", w.Trail(t, id), event)
		}
	}
	if n := writes(w); n != 1 {
		t.Errorf("%d writes, want the one of the dead worker; %s", n, w.Describe())
	}
}

// The same for the store alone: of all its ways, none leads an expired lease
// anywhere but into doubt.
func TestLaw04_StoreExpiresIntoUnknownOnly(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	op := ledgertest.InState(t, store, db.Tenant(t, "acme"), ledger.Running)
	db.Age(t, op, years)
	if due, err := store.DuePending(t.Context(), 10); err != nil || len(due) != 0 {
		t.Errorf("an expired lease is due again: %v, %v", due, err)
	}
	if _, _, _, err := store.Sweep(t.Context(), 10); err != nil {
		t.Error(err)
	}
	expired, _, err := store.ExpireLeases(t.Context(), 10)
	if err != nil || len(expired) != 1 || expired[0].State != ledger.Unknown || !expired[0].InDoubt || expired[0].Effect != ledger.EffectUnknown {
		t.Fatalf("got %+v, %v", expired, err)
	}
	db.Age(t, op, years)
	if got := ledgertest.Get(t, store, op); got.State != ledger.Unknown {
		t.Errorf("the operation is %s", got.State)
	}
	var rows int
	err = db.Owner(t).QueryRow(t.Context(), `SELECT count(*) FROM audit_events WHERE operation_id = @id::uuid AND event = 'doubt'`, pgx.NamedArgs{"id": op.ID}).Scan(&rows)
	if err != nil || rows != 1 {
		t.Errorf("%d doubts on record, %v", rows, err)
	}
}
