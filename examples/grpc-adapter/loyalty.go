package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/httpaction"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// loyalty is the provider. It executes one idempotency key once within two days,
// and finds grants by our operation id.
type loyalty struct {
	base       string
	sender     *httpaction.Sender
	classifier *httpaction.Classifier
}

type providerOptions struct {
	BaseURL string // without a path
	// Token returns the provider's bearer token. It is asked at each request.
	Token func() (string, error)
	// PrivateNetworks may be dialled although they are not public.
	PrivateNetworks []netip.Prefix
}

func newLoyalty(o providerOptions) (*loyalty, error) {
	base := strings.TrimRight(o.BaseURL, "/")
	sender, err := httpaction.NewSender(httpaction.Options{
		Origins: []string{base}, PrivateNetworks: o.PrivateNetworks, Timeout: attemptTimeout,
		Credential: func(ctx context.Context, _ httpaction.Request) (http.Header, error) {
			token, err := o.Token()
			if err != nil {
				return nil, err
			}
			header := http.Header{"Authorization": {"Bearer " + token}}
			if operation, ok := ctx.Value(operationTokenKey{}).(string); ok {
				header.Set(httpaction.TokenHeader, operation)
			}
			return header, nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("-provider-url: %w", err)
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
		return nil, err
	}
	return &loyalty{base: base, sender: sender, classifier: classifier}, nil
}

type operationTokenKey struct{}

// withOperationToken has the provider's client send an operation token with the
// write. It is a credential: no part of the request that is the same for every
// attempt.
func withOperationToken(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return context.WithValue(ctx, operationTokenKey{}, token)
}

// receiptFields are what callers get to see of a grant.
func receiptFields() []string { return []string{"id", "member_id", "points"} }

// grant sends one request. Nothing in it depends on the time or on chance: every
// attempt of an operation is the same, or the provider would refuse our key.
func (l *loyalty) grant(ctx context.Context, g grant, operationID, key string) actions.Outcome {
	body, err := json.Marshal(struct {
		MemberID    string `json:"member_id"`
		OrderID     string `json:"order_id"`
		Points      int64  `json:"points"`
		Note        string `json:"note,omitempty"`
		OperationID string `json:"operation_id"` // how find finds it again
	}{g.MemberID, g.OrderID, g.Points, g.Note, operationID})
	if err != nil {
		return l.classifier.Classify(httpaction.NotRendered(err))
	}
	return l.classifier.Classify(l.sender.Send(ctx, httpaction.Request{
		Method: http.MethodPost, URL: l.base + "/v1/grants",
		Header: http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {key}},
		Body:   body,
	}))
}

// find asks for the grants of an operation. Whatever is not the provider's
// complete answer about exactly this operation is inconclusive.
func (l *loyalty) find(ctx context.Context, operationID string) *oncewardv1.Finding {
	x := l.sender.Read(ctx, httpaction.Request{
		Method: http.MethodGet, URL: l.base + "/v1/grants?operation_id=" + url.QueryEscape(operationID),
	})
	inconclusive := func(why string) *oncewardv1.Finding {
		return &oncewardv1.Finding{Kind: oncewardv1.FindingKind_FINDING_KIND_INCONCLUSIVE, Detail: why}
	}
	if x.Status != http.StatusOK || !httpaction.JSONOrigin(x) {
		return inconclusive(x.Evidence)
	}
	var page struct {
		OperationID string            `json:"operation_id"`
		Grants      []json.RawMessage `json:"grants"`
	}
	if json.Unmarshal(x.Body, &page) != nil || page.OperationID != operationID || page.Grants == nil {
		return inconclusive("the answer is not a list of this operation's grants")
	}
	var references []string
	var receipt actions.Receipt
	for _, object := range page.Grants {
		var state struct {
			Status string `json:"status"`
		}
		if json.Unmarshal(object, &state) != nil || state.Status != "granted" {
			return inconclusive("a grant that is not finished")
		}
		var err error
		if receipt, err = httpaction.ReceiptOf(object, "id", receiptFields()...); err != nil {
			return inconclusive("a grant without its fields: " + err.Error())
		}
		references = append(references, receipt.Reference)
	}
	switch len(references) {
	case 0:
		return &oncewardv1.Finding{Kind: oncewardv1.FindingKind_FINDING_KIND_ABSENT, Detail: "no grant has this operation id"}
	case 1:
		return &oncewardv1.Finding{
			Kind:    oncewardv1.FindingKind_FINDING_KIND_FOUND,
			Receipt: &oncewardv1.Receipt{ProviderReference: receipt.Reference, Json: string(receipt.JSON)},
		}
	}
	return &oncewardv1.Finding{Kind: oncewardv1.FindingKind_FINDING_KIND_SEVERAL, References: references}
}
