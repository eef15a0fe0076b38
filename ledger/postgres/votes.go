package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/onceward/onceward/ledger"
)

// The statements of approvals by several. Each is used by one method.
var (
	//go:embed sql/lock_review.sql
	lockReviewSQL string
	//go:embed sql/add_approval.sql
	addApprovalSQL string
	//go:embed sql/count_approvals.sql
	countApprovalsSQL string
	//go:embed sql/rebind_operation.sql
	rebindOperationSQL string
	//go:embed sql/rebind_review.sql
	rebindReviewSQL string
	//go:embed sql/drop_approvals.sql
	dropApprovalsSQL string
	//go:embed sql/approved_reviews.sql
	approvedReviewsSQL string
)

// approvalRest is how long a review with enough approvals is left to whoever gave
// the last one.
const approvalRest = 5 * time.Second

// AddApproval adds a reviewer's yes to an open approval review, and returns the
// review with all of them. It moves nothing: the caller does, when there are as
// many as are required. Who may approve is not decided here.
//
// ledger.ErrAlreadyVoted, with the review: the same reviewer did so before, and
// nothing was changed. ledger.ErrFenced: it is decided, lapsed, no approval, or
// another policy version asks than the one that was seen. ledger.ErrNotFound:
// there is no such review. The time of the approval is the
// database's.
func (s *Store) AddApproval(ctx context.Context, tenant, reviewID string, a ledger.Approval) (ledger.Review, error) {
	var review ledger.Review
	voted := false
	args := pgx.NamedArgs{"tenant": tenant, "id": uuidOf(reviewID), "approver": ledger.StorableText(a.By), "note": ledger.StorableText(a.Note), "policy_version": a.PolicyVersion}
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var open bool
		err := tx.QueryRow(ctx, lockReviewSQL, args).Scan(&open)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return ledger.ErrNotFound
		case err != nil:
			return err
		case !open:
			return ledger.ErrFenced
		}
		tag, err := tx.Exec(ctx, addApprovalSQL, args)
		if err != nil {
			return err
		}
		voted = tag.RowsAffected() == 0
		if _, err := tx.Exec(ctx, countApprovalsSQL, args); err != nil {
			return err
		}
		review, _, err = readReview(ctx, tx, args)
		return err
	})
	if err != nil {
		return ledger.Review{}, unavailable(err)
	}
	if voted {
		return review, ledger.ErrAlreadyVoted
	}
	return review, nil
}

// Rebind binds an open approval review to another policy version, which may want
// another number of approvals, and drops those it has. The audit record says so
// with detail, which reviewers are told from then on. A review that is bound so already keeps them.
//
// ledger.ErrFenced: it is decided, or no approval. ledger.ErrNotFound: there is no
// such review.
func (s *Store) Rebind(ctx context.Context, tenant, reviewID, policyVersion string, required int, detail string) (ledger.Review, error) {
	if required < 1 {
		return ledger.Review{}, fmt.Errorf("ledger: a review wants at least one approval, not %d", required)
	}
	var review ledger.Review
	args := pgx.NamedArgs{
		"tenant": tenant, "id": uuidOf(reviewID), "policy_version": ledger.StorableText(policyVersion), "required": required,
		"detail": ledger.StorableText(detail),
	}
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		// The operation first, as every decision does.
		tag, err := tx.Exec(ctx, rebindOperationSQL, args)
		if err != nil {
			return err
		}
		if tag.RowsAffected() > 0 {
			// In this order: an approval that comes at this moment is dropped, too.
			for _, statement := range []string{rebindReviewSQL, dropApprovalsSQL} {
				if _, err := tx.Exec(ctx, statement, args); err != nil {
					return err
				}
			}
		}
		if review, _, err = readReview(ctx, tx, args); err != nil {
			return err
		}
		if !review.Open() || review.PolicyVersion != policyVersion || review.RequiredApprovals != required {
			return ledger.ErrFenced
		}
		return nil
	})
	if err != nil {
		return ledger.Review{}, unavailable(err)
	}
	return review, nil
}

// ApprovedReviews returns operations, as Get does, whose open review has had
// enough approvals for some seconds, at most limit: whoever gave the last one did
// not get to move them.
func (s *Store) ApprovedReviews(ctx context.Context, limit int) ([]ledger.Operation, error) {
	rows, err := s.pool.Query(ctx, approvedReviewsSQL, pgx.NamedArgs{"limit": limit, "rest_us": micros(approvalRest)})
	if err != nil {
		return nil, unavailable(err)
	}
	type named struct {
		Tenant string
		ID     pgtype.UUID
	}
	due, err := pgx.CollectRows(rows, pgx.RowToStructByPos[named])
	if err != nil {
		return nil, unavailable(err)
	}
	var ops []ledger.Operation
	for _, d := range due {
		op, err := s.Get(ctx, d.Tenant, d.ID.String())
		switch {
		case errors.Is(err, ledger.ErrNotFound):
			continue // decided, ended and swept meanwhile
		case err != nil:
			return nil, err
		}
		if op.Review.Open() {
			ops = append(ops, op)
		}
	}
	return ops, nil
}

// requiredApprovals is how many reviewers must say yes: one at least.
func requiredApprovals(r ledger.ReviewOpening) int32 { return int32(max(r.RequiredApprovals, 1)) }
