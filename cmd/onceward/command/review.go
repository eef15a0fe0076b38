package command

import (
	"context"
	"fmt"
	"io"
	"strings"

	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

type reviewsCmd struct {
	client
	Limit     int32  `default:"50" help:"At most this many, 1 to 200."`
	PageToken string `help:"Of a page before, as its last line shows."`
}

func (*reviewsCmd) Help() string {
	return "Example:\n  onceward reviews\n\nIt wants a key with the role reviewer, auditor or admin."
}

// Run lists the open reviews.
func (c *reviewsCmd) Run(ctx context.Context, s streams) error {
	ctx, conn, err := c.dial(ctx, asReviewer)
	if err != nil {
		return err
	}
	defer conn.Close()
	resp, err := oncewardv1.NewReviewServiceClient(conn).ListReviews(ctx, &oncewardv1.ListReviewsRequest{PageSize: c.Limit, PageToken: c.PageToken})
	if err != nil {
		return err
	}
	return c.print(s, resp, func(w io.Writer) {
		if len(resp.GetReviews()) == 0 {
			fmt.Fprintln(w, "Nothing waits for a person.")
			return
		}
		for i, item := range resp.GetReviews() {
			if i > 0 {
				fmt.Fprintln(w)
			}
			printOperation(w, item.GetOperation())
			if args := item.GetArgumentsJson(); args != "" {
				fmt.Fprintf(w, "arguments  %s\n", args)
			}
			if marked := item.GetSensitiveArguments(); len(marked) > 0 {
				fmt.Fprintf(w, "sensitive  %s\n", strings.Join(marked, ", "))
			}
			fmt.Fprintf(w, "decide     %s\n", howToDecide(item.GetOperation().GetReview()))
		}
		if token := resp.GetNextPageToken(); token != "" {
			fmt.Fprintf(w, "More: --page-token=%s\n", token)
		}
	})
}

// howToDecide says which commands answer a review.
func howToDecide(r *oncewardv1.Review) string {
	resolve := "onceward resolve " + r.GetId()
	if r.GetReason() == oncewardv1.ReviewReason_REVIEW_REASON_APPROVAL_REQUIRED {
		return resolve + " approve|reject"
	}
	return resolve + " confirm|retry|close --note=... (confirm also wants --reference)"
}

type resolveCmd struct {
	client
	Review    string `arg:"" help:"Id of the review (not of the operation)."`
	Decision  string `arg:"" enum:"approve,reject,confirm,retry,close" help:"approve or reject what waits for approval; confirm an effect that exists; retry or close what was not applied."`
	Note      string `help:"Why, and how it was established; wanted for confirm, retry and close."`
	Reference string `help:"The provider's id of the effect; wanted for confirm."`
	Receipt   string `help:"Receipt fields as a JSON object, for confirm."`
	Arguments string `name:"arguments-hash" help:"Approve only if the operation has these arguments (its arguments_hash)."`
	Policy    string `name:"policy-version" help:"Approve only if this version of the policy asks."`
}

func (*resolveCmd) Help() string {
	return `Examples:
  onceward resolve REVIEW approve
  onceward resolve REVIEW confirm --reference=re_123 --note='seen in the provider dashboard'
  onceward resolve REVIEW retry --note='support says the request never arrived'

It wants a key with the role reviewer, of another actor than the requester.`
}

// Run sends the decision.
func (c *resolveCmd) Run(ctx context.Context, s streams) error {
	ctx, conn, err := c.dial(ctx, asReviewer)
	if err != nil {
		return err
	}
	defer conn.Close()
	resp, err := oncewardv1.NewReviewServiceClient(conn).ResolveReview(ctx, c.request())
	if err != nil {
		return err
	}
	return c.print(s, resp, func(w io.Writer) { printOperation(w, resp.GetOperation()) })
}

func (c *resolveCmd) request() *oncewardv1.ResolveReviewRequest {
	req := &oncewardv1.ResolveReviewRequest{ReviewId: c.Review, Note: c.Note}
	notApplied := func(then oncewardv1.NotAppliedThen) *oncewardv1.ResolveReviewRequest_NotApplied {
		return &oncewardv1.ResolveReviewRequest_NotApplied{NotApplied: &oncewardv1.NotApplied{Then: then}}
	}
	switch c.Decision {
	case "approve":
		req.Decision = &oncewardv1.ResolveReviewRequest_Approve{Approve: &oncewardv1.Approve{ArgumentsHash: c.Arguments, PolicyVersion: c.Policy}}
	case "reject":
		req.Decision = &oncewardv1.ResolveReviewRequest_Reject{Reject: &oncewardv1.Reject{}}
	case "confirm":
		req.Decision = &oncewardv1.ResolveReviewRequest_Confirm{Confirm: &oncewardv1.Confirm{ProviderReference: c.Reference, ReceiptJson: c.Receipt}}
	case "retry":
		req.Decision = notApplied(oncewardv1.NotAppliedThen_NOT_APPLIED_THEN_RETRY)
	case "close":
		req.Decision = notApplied(oncewardv1.NotAppliedThen_NOT_APPLIED_THEN_CLOSE)
	}
	return req
}
