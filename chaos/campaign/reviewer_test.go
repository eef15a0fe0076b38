package campaign

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/onceward/onceward/fakeprovider"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// What nobody decides stays open, and the campaign says that it is stuck.
func TestDecide(t *testing.T) {
	t.Parallel()
	w := &world{provider: fakeprovider.New(fakeprovider.Options{})}
	for _, action := range []string{refunds, invoices, contacts, notes} {
		op := &oncewardv1.Operation{Id: "op", ActionType: action, Review: &oncewardv1.Review{
			Reason: oncewardv1.ReviewReason_REVIEW_REASON_INCONCLUSIVE, OpenedAt: timestamppb.Now(),
		}}
		if w.decide(op) != nil {
			t.Errorf("%s is decided while something may be on its way", action)
		}
		op.Review.OpenedAt = timestamppb.New(time.Now().Add(-careful))
		if w.decide(op).GetNotApplied() == nil {
			t.Errorf("%s, of which there is no effect, is never decided", action)
		}
	}
}
