package campaign

import (
	"context"
	"hash/fnv"
	"time"

	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// reviewEvery is how often a reviewer looks at what waits for a person.
const reviewEvery = 300 * time.Millisecond

// review decides what waits for a person in a tenant, until ctx ends: as a careful
// person would, who looks at the target, and not before nothing can be on its way any
// more.
func (w *world) review(ctx context.Context, tenant string) {
	turn := 0
	every(ctx, reviewEvery, func() {
		members := w.serving()
		m := members[turn%len(members)]
		turn++
		calling, cancel := context.WithTimeout(as(ctx, w.keys[tenant].reviewer), callTimeout)
		defer cancel()
		list, err := m.reviews.ListReviews(calling, &oncewardv1.ListReviewsRequest{PageSize: 100})
		if err != nil {
			return // another replica, next time
		}
		for _, item := range list.GetReviews() {
			if req := w.decide(item.GetOperation()); req != nil {
				_, _ = m.reviews.ResolveReview(calling, req) // where it failed the review is still there next time
			}
		}
	})
}

// decide is what a reviewer says of an operation; nil is nothing yet.
func (w *world) decide(op *oncewardv1.Operation) *oncewardv1.ResolveReviewRequest {
	review := op.GetReview()
	req := &oncewardv1.ResolveReviewRequest{ReviewId: review.GetId(), Note: "looked at the target"}
	coin := coinOf(op.GetId())
	if review.GetReason() == oncewardv1.ReviewReason_REVIEW_REASON_APPROVAL_REQUIRED {
		if coin%8 == 0 {
			req.Decision = &oncewardv1.ResolveReviewRequest_Reject{Reject: &oncewardv1.Reject{}}
		} else {
			req.Decision = &oncewardv1.ResolveReviewRequest_Approve{Approve: &oncewardv1.Approve{
				ArgumentsHash: op.GetArgumentsHash(), PolicyVersion: review.GetPolicyVersion(),
			}}
		}
		return req
	}
	if time.Since(review.GetOpenedAt().AsTime()) < careful {
		return nil
	}
	// A note is a row in the ledger's own database, written together with its success: one
	// that waits here (in the stage protect all doubt does) has none.
	effects := w.provider.EffectsFor(op.GetId())
	switch {
	case len(effects) > 0:
		req.Decision = &oncewardv1.ResolveReviewRequest_Confirm{Confirm: &oncewardv1.Confirm{
			ProviderReference: effects[0].ID, ReceiptJson: `{"id":"` + effects[0].ID + `"}`,
		}}
	case coin%2 == 0:
		req.Decision = &oncewardv1.ResolveReviewRequest_NotApplied{NotApplied: &oncewardv1.NotApplied{Then: oncewardv1.NotAppliedThen_NOT_APPLIED_THEN_RETRY}}
	default:
		req.Decision = &oncewardv1.ResolveReviewRequest_NotApplied{NotApplied: &oncewardv1.NotApplied{Then: oncewardv1.NotAppliedThen_NOT_APPLIED_THEN_CLOSE}}
	}
	return req
}

// coinOf is a number that belongs to an operation.
func coinOf(id string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // never fails
	return h.Sum32()
}

// every does something again and again, with pauses, until ctx ends.
func every(ctx context.Context, pause time.Duration, do func()) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}
