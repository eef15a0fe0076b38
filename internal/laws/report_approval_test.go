package laws

import (
	"context"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

func approve() *oncewardv1.ResolveReviewRequest {
	return &oncewardv1.ResolveReviewRequest{Decision: &oncewardv1.ResolveReviewRequest_Approve{Approve: &oncewardv1.Approve{}}}
}

func reject() *oncewardv1.ResolveReviewRequest {
	return &oncewardv1.ResolveReviewRequest{Decision: &oncewardv1.ResolveReviewRequest_Reject{Reject: &oncewardv1.Reject{}}}
}

func tryResolve(t testing.TB, r *apptest.Replica, credential, review string, decision *oncewardv1.ResolveReviewRequest) (*oncewardv1.Operation, error) {
	t.Helper()
	decision.ReviewId = review
	resp, err := r.Reviews.ResolveReview(apptest.As(t.Context(), credential), decision)
	return resp.GetOperation(), err
}

func resolve(t testing.TB, w *apptest.World, r *apptest.Replica, credential, review string, decision *oncewardv1.ResolveReviewRequest) *oncewardv1.Operation {
	t.Helper()
	op, err := tryResolve(t, r, credential, review, decision)
	if err != nil {
		t.Fatalf("deciding: %v; %s", err, w.Describe())
	}
	return op
}

// An approval pauses a run, and the agent replays its step again and again,
// before and after the yes: one effect, and answers that say what is known.
func TestReport11_ReplaysAroundAnApproval(t *testing.T) {
	t.Parallel()
	gated := newStub("test.gated", applied).approved()
	gated.spec.AdvisoryArgs = []string{"note"}
	w := apptest.New(t, apptest.Options{Adapters: []actions.Adapter{gated}})
	r := w.Start(t, nil)
	step := func(note string) *oncewardv1.RequestActionRequest {
		req := stubRequest("test.gated", "")
		req.Run = &oncewardv1.RunContext{RunId: "run_1", StepId: "step_n"}
		return with(req, `{"amount":5,"note":"`+note+`"}`)
	}
	first := w.AskIn(t, r, step("as asked"), needsReview)
	for _, note := range []string{"regenerated", "said otherwise", "again", "and again"} {
		again := w.AskIn(t, r, step(note), needsReview)
		if again.GetOperation().GetId() != first.GetOperation().GetId() || again.GetNextStep().GetKind() != askHuman || again.GetReplayed() {
			t.Errorf("replay while waiting: %v", again)
		}
	}
	if n := gated.calls.Load(); n != 0 {
		t.Fatalf("%d calls before anybody said yes", n)
	}
	resolve(t, w, r, w.Reviewer, first.GetOperation().GetReview().GetId(), approve())
	for range 5 {
		done := w.AskIn(t, r, step("after the yes"), succeeded)
		if done.GetOperation().GetId() != first.GetOperation().GetId() {
			t.Errorf("replay after the yes: %v", done)
		}
	}
	if n := gated.calls.Load(); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

// A yes is for one operation, and not for the next one like it. Who asked
// cannot give it; saying it twice is harmless; who decides otherwise afterwards
// is told who was first.
func TestReport57_OneYesOneOperation(t *testing.T) {
	t.Parallel()
	gated := newStub("test.gated", applied).approved()
	w := apptest.New(t, apptest.Options{Adapters: []actions.Adapter{gated}})
	r := w.Start(t, nil)
	other := w.Key(t, "acme", "otto", "reviewer")
	both := w.Key(t, "acme", "planner", "reviewer") // the requester's own actor
	one := w.AskIn(t, r, stubRequest("test.gated", "one"), needsReview).GetOperation()
	two := w.AskIn(t, r, stubRequest("test.gated", "two"), needsReview).GetOperation()

	_, err := tryResolve(t, r, both, one.GetReview().GetId(), approve())
	apptest.WantReason(t, err, codes.PermissionDenied, "REQUESTER_CANNOT_REVIEW")
	resolve(t, w, r, w.Reviewer, one.GetReview().GetId(), approve())
	resolve(t, w, r, w.Reviewer, one.GetReview().GetId(), approve())
	w.WaitFor(t, "acme", one.GetId(), ledger.Succeeded)
	_, err = tryResolve(t, r, other, one.GetReview().GetId(), reject())
	st := apptest.WantReason(t, err, codes.FailedPrecondition, "REVIEW_DECIDED")
	wantPlain(t, st.Err())

	three := w.AskIn(t, r, stubRequest("test.gated", "three"), needsReview).GetOperation()
	for _, op := range []*oncewardv1.Operation{two, three} {
		if got := w.Held(t, op.GetId()); got.State != ledger.NeedsReview || got.Attempt != 0 {
			t.Errorf("the yes for another operation moved %s: %s", op.GetId(), got.State)
		}
	}
	if n := gated.calls.Load(); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}

	// Two decide at once and differently: one wins, the other is told.
	var errs [2]error
	together(2, func(i int) {
		decision := approve()
		if i == 1 {
			decision = reject()
		}
		_, errs[i] = tryResolve(t, r, []string{w.Reviewer, other}[i], two.GetReview().GetId(), decision)
	})
	loser := 0
	if errs[0] == nil {
		loser = 1
	}
	if errs[1-loser] != nil {
		t.Fatalf("nobody decided: %v", errs)
	}
	apptest.WantReason(t, errs[loser], codes.FailedPrecondition, "REVIEW_DECIDED")
	want := []ledger.State{ledger.Failed, ledger.Succeeded}[loser]
	w.WaitFor(t, "acme", two.GetId(), want)
}

// outvoted is a ledger in which somebody else decides right after a yes was
// counted, before it moves the operation.
type outvoted struct {
	app.Ledger
	decide func()
}

func (l *outvoted) AddApproval(ctx context.Context, tenant, reviewID string, a ledger.Approval) (ledger.Review, error) {
	review, err := l.Ledger.AddApproval(ctx, tenant, reviewID, a)
	l.decide()
	return review, err
}

// A yes that another decision overtakes between its vote and its move is answered
// as one that comes later is: with who was first, or with what it wanted.
func TestReport57_ADecisionBetweenTheVoteAndTheMove(t *testing.T) {
	t.Parallel()
	gated := newStub("test.gated", applied).approved()
	w := apptest.New(t, apptest.Options{Adapters: []actions.Adapter{gated}})
	quick := w.Start(t, nil)
	book := &outvoted{}
	slow := w.Start(t, func(c *app.Config) {
		c.WrapLedger = func(l app.Ledger) app.Ledger { book.Ledger = l; return book }
	})
	other := w.Key(t, "acme", "otto", "reviewer")
	overtaken := func(key string, by *oncewardv1.ResolveReviewRequest) (*oncewardv1.Operation, error) {
		op := w.AskIn(t, quick, stubRequest("test.gated", key), needsReview).GetOperation()
		book.decide = sync.OnceFunc(func() { resolve(t, w, quick, other, op.GetReview().GetId(), by) })
		_, err := tryResolve(t, slow, w.Reviewer, op.GetReview().GetId(), approve())
		return op, err
	}

	op, err := overtaken("a-no", reject())
	apptest.WantReason(t, err, codes.FailedPrecondition, "REVIEW_DECIDED")
	if got := w.Held(t, op.GetId()); got.State != ledger.Failed || got.Attempt != 0 {
		t.Errorf("rejected, but %s after %d attempts", got.State, got.Attempt)
	}
	if n := gated.calls.Load(); n != 0 {
		t.Errorf("%d calls of what was rejected", n)
	}

	op, err = overtaken("a-yes", approve())
	if err != nil {
		t.Errorf("the second yes: %v", err)
	}
	w.WaitFor(t, "acme", op.GetId(), ledger.Succeeded)
	if n := gated.calls.Load(); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}
