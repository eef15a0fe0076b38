package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/httpaction"
)

// points is the adapter of loyalty.points.grant. The provider executes one
// idempotency key once within two days, and finds grants by our operation id.
// It is safe for concurrent use.
type points struct {
	base       string
	sender     *httpaction.Sender
	classifier *httpaction.Classifier
}

// The abilities that points has. A missing method would not fail otherwise: an
// adapter without Lookup is a legal one, whose doubt goes to a person.
var (
	_ actions.Adapter  = (*points)(nil)
	_ actions.Renderer = (*points)(nil)
	_ actions.Looker   = (*points)(nil)
)

type options struct {
	BaseURL string // without a path: "https://loyalty.example.com"
	// Token returns the provider's bearer token. It is asked at each attempt.
	Token func() (string, error)
	// PrivateNetworks may be dialled although they are not public; for tests.
	PrivateNetworks []netip.Prefix
}

func newPoints(o options) (*points, error) {
	base := strings.TrimRight(o.BaseURL, "/")
	sender, err := httpaction.NewSender(httpaction.Options{
		Origins:         []string{base},
		PrivateNetworks: o.PrivateNetworks,
		Timeout:         timeout,
		Credential: func(context.Context, httpaction.Request) (http.Header, error) {
			token, err := o.Token()
			if err != nil {
				return nil, err
			}
			return http.Header{"Authorization": {"Bearer " + token}}, nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("loyalty.points.grant: %w", err)
	}
	classifier, err := httpaction.NewClassifier(httpaction.Rules{
		Receipt: httpaction.JSONReceipt("id", receiptFields()...),
		Error:   httpaction.JSONError("error.code", "error.message"),
		Overrides: []httpaction.Rule{
			{Statuses: []int{409}, Codes: []string{"key_in_use"}, Kind: actions.InProgress},
			{Statuses: []int{409}, Codes: []string{"key_reused"}, Kind: actions.KeyMismatch},
			{
				Statuses: []int{503}, Codes: []string{"maintenance"}, Kind: actions.NotApplied,
				Because: "the provider's manual: in maintenance nothing is accepted",
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("loyalty.points.grant: %w", err)
	}
	return &points{base: base, sender: sender, classifier: classifier}, nil
}

const timeout = 20 * time.Second

// receiptFields are what callers get to see of a grant.
func receiptFields() []string { return []string{"id", "member_id", "points", "balance"} }

const schema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "required": ["member_id", "order_id", "order_total", "points"],
  "properties": {
    "member_id": {"type": "string", "pattern": "^mb_[a-z0-9]{1,40}$", "description": "Member who gets the points."},
    "order_id": {"type": "string", "pattern": "^or_[a-z0-9]{1,40}$", "description": "Order that they are for; one grant for each."},
    "order_total": {"type": "integer", "minimum": 1, "description": "What the order cost, in minor units (cents)."},
    "points": {"type": "integer", "minimum": 1, "description": "At most one for each whole unit of the total."},
    "note": {"type": "string", "maxLength": 500, "description": "Why; it does not identify the grant."}
  }
}`

type arguments struct {
	MemberID   string `json:"member_id"`
	OrderID    string `json:"order_id"`
	OrderTotal int64  `json:"order_total"`
	Points     int64  `json:"points"`
	Note       string `json:"note,omitempty"`
}

// Spec describes the action type. It returns the same value every time.
func (*points) Spec() actions.Spec {
	return actions.Spec{
		Type:        "loyalty.points.grant",
		Version:     "1",
		Description: "Grant loyalty points for an order.",
		Owner:       "loyalty",
		Risk:        actions.RiskMedium,
		Schema:      json.RawMessage(schema),
		// Whoever asks, in whatever run: an order is rewarded once.
		Key: []actions.KeyPart{
			{Name: "tenant", From: "tenant"},
			{Name: "order", From: "arguments.order_id"},
		},
		AdvisoryArgs: []string{"note"},
		Contract: actions.Contract{
			Provider: "loyalty",
			Version:  "1",
			// Two days, less an hour for clocks that disagree.
			Keys:   actions.KeyRules{Honoured: true, MaxLength: 64, Window: 48 * time.Hour, Margin: time.Hour},
			Lookup: actions.LookupRules{Authoritative: true, SettleTime: time.Minute, NegativeReads: 3},
		},
		Timeout: timeout,
	}
}

// Validate checks what a schema cannot say.
func (*points) Validate(args actions.Arguments) error {
	var a arguments
	if err := args.Decode(&a); err != nil {
		return err
	}
	if a.Points > a.OrderTotal/100 {
		return &actions.ArgumentsError{Violations: []actions.Violation{{
			Field: "points", Reason: actions.ReasonRange, Message: "must be at most one for each whole unit of order_total",
		}}}
	}
	return nil
}

// Render returns the bytes that Execute sends, for the ledger to freeze.
func (p *points) Render(call actions.Call) ([]byte, error) {
	r, err := p.request(call)
	if err != nil {
		return nil, err
	}
	return r.Bytes()
}

// Execute makes one attempt.
func (p *points) Execute(ctx context.Context, call actions.Call) actions.Outcome {
	r, err := p.request(call)
	if err != nil {
		return p.classifier.Classify(httpaction.NotRendered(err))
	}
	return p.classifier.Classify(p.sender.Send(ctx, r))
}

// request renders a call: the same call, the same bytes.
func (p *points) request(call actions.Call) (httpaction.Request, error) {
	var a arguments
	if err := call.Arguments.Decode(&a); err != nil {
		return httpaction.Request{}, err
	}
	body, err := json.Marshal(struct {
		MemberID    string `json:"member_id"`
		OrderID     string `json:"order_id"`
		Points      int64  `json:"points"`
		Note        string `json:"note,omitempty"`
		OperationID string `json:"operation_id"` // how Lookup finds it again
	}{a.MemberID, a.OrderID, a.Points, a.Note, call.OperationID})
	if err != nil {
		return httpaction.Request{}, err
	}
	return httpaction.Request{
		Method: http.MethodPost,
		URL:    p.base + "/v1/grants",
		Header: http.Header{
			"Content-Type":    {"application/json"},
			"Idempotency-Key": {call.ProviderKey},
		},
		Body: body,
	}, nil
}

// Lookup asks for the grants of an operation. Whatever is not a complete answer
// of the provider about exactly this operation is inconclusive.
func (p *points) Lookup(ctx context.Context, query actions.Query) actions.Finding {
	x := p.sender.Read(ctx, httpaction.Request{
		Method: http.MethodGet,
		URL:    p.base + "/v1/grants?operation_id=" + url.QueryEscape(query.OperationID),
	})
	inconclusive := actions.Finding{Detail: x.Evidence}
	if x.Status != http.StatusOK || !httpaction.JSONOrigin(x) {
		return inconclusive
	}
	var page struct {
		OperationID string            `json:"operation_id"`
		Grants      []json.RawMessage `json:"grants"`
	}
	if json.Unmarshal(x.Body, &page) != nil || page.OperationID != query.OperationID || page.Grants == nil {
		return inconclusive
	}
	var receipts []actions.Receipt
	for _, grant := range page.Grants {
		receipt, err := httpaction.ReceiptOf(grant, "id", receiptFields()...)
		if err != nil {
			return actions.Finding{Detail: "a grant without its fields: " + err.Error()}
		}
		receipts = append(receipts, receipt)
	}
	switch len(receipts) {
	case 0:
		return actions.Finding{Kind: actions.Absent, Detail: "no grant has this operation id"}
	case 1:
		return actions.Finding{Kind: actions.Found, Receipt: receipts[0]}
	}
	several := actions.Finding{Kind: actions.Several}
	for _, receipt := range receipts {
		several.References = append(several.References, receipt.Reference)
	}
	return several
}
