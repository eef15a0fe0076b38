package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/httpaction"
)

// Contacts is the adapter of crm.contact.create. The CRM holds one contact for
// an external id, here the e-mail address, and reads by it are never stale. A
// conflict says that there is one, not whose it is. It is safe for concurrent
// use.
type Contacts struct {
	service    *service
	classifier *httpaction.Classifier
	spec       actions.Spec
}

var (
	_ actions.Adapter  = (*Contacts)(nil)
	_ actions.Renderer = (*Contacts)(nil)
	_ actions.Looker   = (*Contacts)(nil)
)

const contactSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "required": ["email", "name"],
  "properties": {
    "email": {"type": "string", "minLength": 3, "maxLength": 254, "description": "E-mail address; it identifies the contact."},
    "name": {"type": "string", "minLength": 1, "maxLength": 200, "description": "Full name."}
  }
}`

type contactArguments struct {
	Email string `json:"email"`
	Name  string `json:"name"`
}

func contactFields() []string { return []string{"id", "external_id", "email", "name", "status"} }

func newContacts(s *service, o Options) (*Contacts, error) {
	classifier, err := httpaction.NewClassifier(httpaction.Rules{
		Receipt: httpaction.JSONReceipt("id", contactFields()...),
		Error:   errorOf,
		Overrides: []httpaction.Rule{
			{Statuses: []int{409}, Codes: []string{"contact_exists"}, Kind: actions.MaybeOurs},
		},
	})
	if err != nil {
		return nil, err
	}
	return &Contacts{service: s, classifier: classifier, spec: actions.Spec{
		Type:        "crm.contact.create",
		Version:     "1",
		Description: "Create a contact for an e-mail address that has none.",
		Owner:       "sales",
		Risk:        actions.RiskLow,
		Schema:      json.RawMessage(contactSchema),
		Key: []actions.KeyPart{
			{Name: "tenant", From: "tenant"},
			{Name: "email", From: "arguments.email"},
		},
		Contract: actions.Contract{
			Provider:    "fakecrm",
			Version:     "1",
			LateLanding: o.LateLanding,
			Protection:  o.Protection,
			Lookup: actions.LookupRules{
				Authoritative: true, SettleTime: o.ArrivalTime, NegativeReads: 2, ReadGap: o.ReadGap,
			},
		},
		Timeout: o.Timeout,
	}}, nil
}

// Spec describes the action type.
func (a *Contacts) Spec() actions.Spec { return a.spec }

// Validate checks that the e-mail address is one bare address.
func (a *Contacts) Validate(args actions.Arguments) error { return checkAddress(args, "email") }

// Render returns the request that Execute sends.
func (a *Contacts) Render(call actions.Call) ([]byte, error) {
	r, err := a.request(call)
	if err != nil {
		return nil, err
	}
	return r.Bytes()
}

// Execute makes one attempt.
func (a *Contacts) Execute(ctx context.Context, call actions.Call) actions.Outcome {
	r, err := a.request(call)
	if err != nil {
		return a.classifier.Classify(httpaction.NotRendered(err))
	}
	return a.classifier.Classify(a.service.sender.Send(ctx, r))
}

func (a *Contacts) request(call actions.Call) (httpaction.Request, error) {
	var args contactArguments
	if err := call.Arguments.Decode(&args); err != nil {
		return httpaction.Request{}, err
	}
	return a.service.post("/v1/contacts", struct {
		ExternalID string `json:"external_id"`
		contactArguments
		Metadata metadata `json:"metadata"`
	}{args.Email, args, metadata{call.OperationID}})
}

// Lookup reads the contact by its external id and compares the operation id
// that it carries with ours.
func (a *Contacts) Lookup(ctx context.Context, query actions.Query) actions.Finding {
	var args contactArguments
	if err := query.Arguments.Decode(&args); err != nil {
		return inconclusive("the arguments cannot be read")
	}
	x, ok := a.service.get(ctx, "/v1/contacts/by-external-id/"+url.PathEscape(args.Email))
	if !ok {
		return inconclusive(x.Evidence)
	}
	switch x.Status {
	case http.StatusOK:
		return ownContact(x.Body, query.OperationID)
	case http.StatusMultipleChoices:
		return severalContacts(x)
	case http.StatusNotFound:
		if code, _ := errorOf(x.Body); code == "contact_not_found" {
			return actions.Finding{Kind: actions.Absent, Detail: "no contact has this external id"}
		}
	}
	return inconclusive(x.Evidence)
}

func ownContact(body []byte, operationID string) actions.Finding {
	if id := operationOf(body); id != "" && id == operationID {
		return found(body, contactFields())
	}
	// Also a contact that carries no operation: somebody typed it in.
	receipt, err := httpaction.ReceiptOf(body, "id")
	if err != nil {
		return inconclusive("the CRM's answer is no contact")
	}
	return actions.Finding{
		Kind: actions.Foreign, References: []string{receipt.Reference}, Detail: "the contact is not of this operation",
	}
}

// severalContacts reports a broken promise of the CRM: one id, many contacts.
func severalContacts(x httpaction.Exchange) actions.Finding {
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if json.Unmarshal(x.Body, &list) != nil || len(list.Data) < 2 {
		return inconclusive(x.Evidence)
	}
	finding := actions.Finding{Kind: actions.Several}
	for _, contact := range list.Data {
		finding.References = append(finding.References, contact.ID)
	}
	return finding
}
