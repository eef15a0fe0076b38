package laws

import (
	"context"
	"testing"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// A request that would no longer be the one that was sent is not sent again,
// until a person has established that nothing was applied: then it starts anew
// under another provider key.
func TestReleaseAfterTheAdapterChanged(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	var keys []string
	first := newStub("test.changing", func(_ context.Context, call actions.Call) actions.Outcome {
		keys = append(keys, call.ProviderKey)
		return actions.Outcome{}
	})
	w.Adapters = []actions.Adapter{first}
	before := w.Start(t, nil)
	op := w.AskIn(t, before, stubRequest("test.changing", "key"), needsReview).GetOperation()
	before.Stop()

	second := newStub("test.changing", func(ctx context.Context, call actions.Call) actions.Outcome {
		keys = append(keys, call.ProviderKey)
		return applied(ctx, call)
	})
	second.spec.Version = "2"
	w.Adapters = []actions.Adapter{second}
	after := w.Start(t, nil)
	retry := &oncewardv1.ResolveReviewRequest{
		ReviewId: op.GetReview().GetId(), Note: "the provider has nothing",
		Decision: &oncewardv1.ResolveReviewRequest_NotApplied{NotApplied: &oncewardv1.NotApplied{Then: oncewardv1.NotAppliedThen_NOT_APPLIED_THEN_RETRY}},
	}
	if _, err := after.Reviews.ResolveReview(apptest.As(t.Context(), w.Reviewer), retry); err != nil {
		t.Fatal(err)
	}
	got := w.WaitFor(t, "acme", op.GetId(), ledger.Succeeded, ledger.NeedsReview)
	if got.State != ledger.Succeeded || got.Epoch != 1 || got.Attempt != 2 {
		t.Fatalf("operation is %s, epoch %d, after %d attempts: %v", got.State, got.Epoch, got.Attempt, w.Trail(t, op.GetId()))
	}
	after.Stop()
	if len(keys) != 2 || keys[0] == keys[1] {
		t.Errorf("provider keys %v, want two different ones", keys)
	}
}
