package demo

import (
	"context"
	"encoding/json"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/httpaction"
)

// Invoices is the adapter of email.invoice.send. The provider knows no
// idempotency keys; what was sent is found by our operation id, in a search that
// lags behind. It is safe for concurrent use.
type Invoices struct {
	service    *service
	classifier *httpaction.Classifier
	spec       actions.Spec
}

var (
	_ actions.Adapter  = (*Invoices)(nil)
	_ actions.Renderer = (*Invoices)(nil)
	_ actions.Looker   = (*Invoices)(nil)
)

const invoiceSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "required": ["to", "invoice_id", "revision"],
  "properties": {
    "to": {"type": "string", "minLength": 3, "maxLength": 254, "description": "E-mail address of the recipient, without a name."},
    "invoice_id": {"type": "string", "minLength": 1, "maxLength": 100, "pattern": "^[A-Za-z0-9_-]+$", "description": "Invoice to send, such as inv_501."},
    "revision": {"type": "integer", "minimum": 1, "maximum": 1000000, "description": "Revision of the invoice; a new revision is a new e-mail."}
  }
}`

type invoiceArguments struct {
	To        string `json:"to"`
	InvoiceID string `json:"invoice_id"`
	Revision  int    `json:"revision"`
}

func invoiceFields() []string { return []string{"id", "to", "invoice_id", "revision", "status"} }

func newInvoices(s *service, o Options) (*Invoices, error) {
	classifier, err := httpaction.NewClassifier(httpaction.Rules{
		Receipt: httpaction.JSONReceipt("id", invoiceFields()...),
		Error:   errorOf,
	})
	if err != nil {
		return nil, err
	}
	return &Invoices{service: s, classifier: classifier, spec: actions.Spec{
		Type:        "email.invoice.send",
		Version:     "1",
		Description: "Send one revision of an invoice to one recipient.",
		Owner:       "billing",
		Risk:        actions.RiskMedium,
		Schema:      json.RawMessage(invoiceSchema),
		Key: []actions.KeyPart{
			{Name: "tenant", From: "tenant"},
			{Name: "invoice", From: "arguments.invoice_id"},
			{Name: "revision", From: "arguments.revision"},
			{Name: "to", From: "arguments.to"},
		},
		Contract: actions.Contract{
			Provider:    "fakemail",
			Version:     "1",
			LateLanding: o.LateLanding,
			Protection:  o.Protection,
			Lookup: actions.LookupRules{
				Authoritative: true, SettleTime: o.MailSettleTime, NegativeReads: 2, ReadGap: o.ReadGap,
			},
		},
		Timeout: o.Timeout,
	}}, nil
}

// Spec describes the action type.
func (a *Invoices) Spec() actions.Spec { return a.spec }

// Validate checks that the recipient is one bare address.
func (a *Invoices) Validate(args actions.Arguments) error { return checkAddress(args, "to") }

// Render returns the request that Execute sends.
func (a *Invoices) Render(call actions.Call) ([]byte, error) {
	r, err := a.request(call)
	if err != nil {
		return nil, err
	}
	return r.Bytes()
}

// Execute makes one attempt.
func (a *Invoices) Execute(ctx context.Context, call actions.Call) actions.Outcome {
	r, err := a.request(call)
	if err != nil {
		return a.classifier.Classify(httpaction.NotRendered(err))
	}
	return a.classifier.Classify(a.service.sender.Send(ctx, r))
}

func (a *Invoices) request(call actions.Call) (httpaction.Request, error) {
	var args invoiceArguments
	if err := call.Arguments.Decode(&args); err != nil {
		return httpaction.Request{}, err
	}
	return a.service.post("/v1/emails", struct {
		invoiceArguments
		Template string   `json:"template"`
		Metadata metadata `json:"metadata"`
	}{args, "invoice", metadata{call.OperationID}})
}

// Lookup searches by operation id.
func (a *Invoices) Lookup(ctx context.Context, query actions.Query) actions.Finding {
	return a.service.search(ctx, "/v1/emails", query, invoiceFields())
}
