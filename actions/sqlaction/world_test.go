package sqlaction_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/sqlaction"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// A request through a whole Onceward while COMMITs and their answers are lost:
// one row, and every caller gets its receipt.
func TestThroughOncewardWhileAnswersAreLost(t *testing.T) {
	t.Parallel()
	g := newTarget(t)
	gate, through := newGate(t, g.url)
	orders := declared(t, database(t, through, sqlaction.DatabaseOptions{CreateTable: true}), insertOrder, 10*time.Second)
	w := apptest.New(t, apptest.Options{Adapters: []actions.Adapter{orders}})
	r := w.Start(t, nil)
	for i, test := range map[int]struct {
		commits  []passage
		attempts int
	}{
		1: {nil, 1},
		2: {[]passage{swallow}, 1},
		3: {[]passage{drop}, 2},
		4: {[]passage{drop, swallow}, 2},
	} {
		req := &oncewardv1.RequestActionRequest{
			ActionType:    "shop.order.place",
			ArgumentsForm: &oncewardv1.RequestActionRequest_ArgumentsJson{ArgumentsJson: fmt.Sprintf(`{"sku":"lamp %d","qty":2}`, i)},
			Run:           &oncewardv1.RunContext{RunId: fmt.Sprintf("run_%d", i), StepId: "order", Agent: "test"},
			Wait:          durationpb.New(apptest.Patience),
		}
		before := g.count(`SELECT count(*) FROM orders`)
		gate.set(test.commits...)
		id := w.Ask(t, r, req).GetOperation().GetId()
		op := w.WaitFor(t, "acme", id, ledger.Succeeded, ledger.Failed, ledger.NeedsReview)
		if op.State != ledger.Succeeded || op.Attempt != test.attempts {
			t.Errorf("%v: operation is %s after %d attempts, want succeeded after %d; audit %v", test.commits, op.State, op.Attempt, test.attempts, w.Trail(t, id))
		}
		if n := g.count(`SELECT count(*) FROM orders WHERE operation_id = $1`, id); n != 1 {
			t.Errorf("%v: the database holds %d orders of the operation, want 1", test.commits, n)
		}
		g.wantHeld(before + 1)
		again := w.Ask(t, r, proto.CloneOf(req))
		if got, want := again.GetOperation().GetReceipt(), string(op.Receipt); !again.GetReplayed() || got.GetJson() != want {
			t.Errorf("%v: the duplicate got %v, want %s", test.commits, again, want)
		}
	}
}
