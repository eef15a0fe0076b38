package laws

import (
	"context"
	"testing"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/internal/app"
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

// Where the version that an operation began with is still known, a release sends
// what was sent before under the same provider key, which guards against a late
// landing: that there is a newer version changes nothing about it.
func TestReleaseGoesOnWithItsVersion(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	var keys, versions []string
	made := func(version string) stub {
		s := newStub("test.changing", func(ctx context.Context, call actions.Call) actions.Outcome {
			keys, versions = append(keys, call.ProviderKey), append(versions, version)
			if len(keys) == 1 {
				return actions.Outcome{}
			}
			return applied(ctx, call)
		})
		s.spec.Version = version
		return s
	}
	w.Adapters = []actions.Adapter{made("1")}
	var registry *actions.Registry
	r := w.Start(t, func(c *app.Config) { registry = c.Registry })
	op := w.AskIn(t, r, stubRequest("test.changing", "key"), needsReview).GetOperation()
	if err := registry.Replace(made("2")); err != nil {
		t.Fatal(err)
	}
	retry := &oncewardv1.ResolveReviewRequest{
		ReviewId: op.GetReview().GetId(), Note: "the provider has nothing",
		Decision: &oncewardv1.ResolveReviewRequest_NotApplied{NotApplied: &oncewardv1.NotApplied{Then: oncewardv1.NotAppliedThen_NOT_APPLIED_THEN_RETRY}},
	}
	if _, err := r.Reviews.ResolveReview(apptest.As(t.Context(), w.Reviewer), retry); err != nil {
		t.Fatal(err)
	}
	got := w.WaitFor(t, "acme", op.GetId(), ledger.Succeeded, ledger.NeedsReview)
	r.Stop()
	if got.State != ledger.Succeeded || got.Epoch != 0 || len(keys) != 2 || keys[0] != keys[1] || versions[1] != "1" {
		t.Errorf("operation is %s, epoch %d, keys %v, versions %v", got.State, got.Epoch, keys, versions)
	}
}
