package demo

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/httpaction"
)

// Refunds is the adapter of payments.refund.create. The provider executes one
// idempotency key once within a day, so that the same key may be sent again
// while that lasts. It is safe for concurrent use.
type Refunds struct {
	service    *service
	classifier *httpaction.Classifier
	spec       actions.Spec
}

var (
	_ actions.Adapter  = (*Refunds)(nil)
	_ actions.Renderer = (*Refunds)(nil)
	_ actions.Looker   = (*Refunds)(nil)
)

const refundSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "required": ["charge_id", "amount", "currency"],
  "properties": {
    "charge_id": {"type": "string", "minLength": 1, "maxLength": 100, "pattern": "^[A-Za-z0-9_-]+$", "description": "Charge to refund, such as ch_1010."},
    "amount": {"type": "integer", "minimum": 1, "maximum": 999999999999, "description": "Amount in minor units (cents)."},
    "currency": {"type": "string", "pattern": "^[a-z]{3}$", "description": "ISO 4217 code in lower case, such as usd."},
    "reason": {"type": "string", "maxLength": 500, "description": "Why; a note that does not identify the refund."}
  }
}`

// refundArguments are the arguments as the schema lets them through.
type refundArguments struct {
	ChargeID string `json:"charge_id"`
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	Reason   string `json:"reason,omitempty"`
}

// refundFields are what callers get to see of a refund.
func refundFields() []string { return []string{"id", "charge_id", "amount", "currency", "status"} }

func newRefunds(s *service, o Options) (*Refunds, error) {
	classifier, err := httpaction.NewClassifier(httpaction.Rules{
		Receipt: httpaction.JSONReceipt("id", refundFields()...),
		Error:   errorOf,
		Overrides: []httpaction.Rule{
			{Statuses: []int{409}, Codes: []string{"idempotency_key_in_use"}, Kind: actions.InProgress},
			{Statuses: []int{400}, Codes: []string{"idempotency_key_reused"}, Kind: actions.KeyMismatch},
		},
	})
	if err != nil {
		return nil, err
	}
	return &Refunds{service: s, classifier: classifier, spec: actions.Spec{
		Type:         "payments.refund.create",
		Version:      "1",
		Description:  "Refund a charge, in whole or in part.",
		Owner:        "payments",
		Risk:         actions.RiskHigh,
		Schema:       json.RawMessage(refundSchema),
		AdvisoryArgs: []string{"reason"},
		Spending: actions.Spending{
			Amount: "minor_to_decimal(args.amount, 2)", Currency: "args.currency.upperAscii()", Counterparty: "args.charge_id",
		},
		// No key recipe: two refunds of one amount on one charge can both be
		// meant, so that only run and step tell them apart.
		Contract: actions.Contract{
			Provider: "fakepay",
			Version:  "1",
			Keys: actions.KeyRules{
				Honoured: true, MaxLength: 255, Window: 24 * time.Hour, Margin: time.Hour, StoresFailures: o.StoresFailures,
			},
			// Refunds are listed as soon as they exist. The key is tried first;
			// the list decides where the key says nothing, as when a refusal
			// came before the provider looked at it.
			Lookup:      actions.LookupRules{Authoritative: true, SettleTime: o.ArrivalTime, ReadGap: o.ReadGap},
			LateLanding: o.LateLanding,
			Protection:  o.Protection,
		},
		Timeout: o.Timeout,
	}}, nil
}

// Spec describes the action type.
func (a *Refunds) Spec() actions.Spec { return a.spec }

// Validate has nothing to add to the schema.
func (a *Refunds) Validate(actions.Arguments) error { return nil }

// Render returns the request that Execute sends.
func (a *Refunds) Render(call actions.Call) ([]byte, error) {
	r, err := a.request(call)
	if err != nil {
		return nil, err
	}
	return r.Bytes()
}

// Execute makes one attempt.
func (a *Refunds) Execute(ctx context.Context, call actions.Call) actions.Outcome {
	r, err := a.request(call)
	if err != nil {
		return a.classifier.Classify(httpaction.NotRendered(err))
	}
	return a.classifier.Classify(a.service.sender.Send(ctx, r))
}

func (a *Refunds) request(call actions.Call) (httpaction.Request, error) {
	if call.ProviderKey == "" { // the provider would take it for a request without a key
		return httpaction.Request{}, errors.New("the call has no provider key")
	}
	var args refundArguments
	if err := call.Arguments.Decode(&args); err != nil {
		return httpaction.Request{}, err
	}
	r, err := a.service.post("/v1/refunds", struct {
		refundArguments
		Metadata metadata `json:"metadata"`
	}{args, metadata{call.OperationID}})
	if err != nil {
		return httpaction.Request{}, err
	}
	r.Header.Set("Idempotency-Key", call.ProviderKey)
	return r, nil
}

// Lookup searches by operation id.
func (a *Refunds) Lookup(ctx context.Context, query actions.Query) actions.Finding {
	return a.service.search(ctx, "/v1/refunds", query, refundFields())
}
