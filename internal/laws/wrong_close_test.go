package laws

import (
	"testing"

	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// A reviewer who closes what the target does hold is contradicted by the next
// look, and asked again.
func TestCloseThatIsWrongIsContradicted(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	fault, err := fakeprovider.ParseFault("drop_answer_after_applying_and_duplicate_look_up")
	if err != nil {
		t.Fatal(err)
	}
	w.Provider.Next(fault)
	op := w.AskIn(t, r, apptest.Invoice("inv_1"), needsReview).GetOperation()
	_, err = r.Reviews.ResolveReview(apptest.As(t.Context(), w.Reviewer), &oncewardv1.ResolveReviewRequest{
		ReviewId: op.GetReview().GetId(), Note: "nothing is there",
		Decision: &oncewardv1.ResolveReviewRequest_NotApplied{NotApplied: &oncewardv1.NotApplied{Then: oncewardv1.NotAppliedThen_NOT_APPLIED_THEN_CLOSE}},
	})
	if err != nil {
		t.Fatal(err)
	}
	again := w.WaitFor(t, "acme", op.GetId(), ledger.NeedsReview)
	if again.Review.ID == op.GetReview().GetId() || again.Review.Reason != ledger.Contradicted || again.LastEvent != ledger.Contradict {
		t.Errorf("operation came to review by %s with %+v", again.LastEvent, again.Review)
	}
	w.WantEffects(t, 1)
}
