package demo

import (
	"github.com/go-json-experiment/json"

	"github.com/onceward/onceward/fakeprovider"
)

// The action types of which the demo can count effects.
const (
	refundCreate  = "payments.refund.create"
	invoiceSend   = "email.invoice.send"
	contactCreate = "crm.contact.create"
	noteInsert    = "notes.insert"
)

// Paths of the fake provider.
const (
	refundPath  = "/v1/refunds"
	invoicePath = "/v1/emails"
	contactPath = "/v1/contacts"
)

// target is what an action is about: the thing of which the world should hold
// so many effects. One of natural and note is set.
type target struct {
	natural string // the provider's name for it (fakeprovider.Effect.NaturalKey)
	note    note   // a row of notes.insert
	tenant  string // of a note
}

type note struct{ subject, body string }

// local reports whether the effect is a row beside the ledger, not a
// provider's.
func (t target) local() bool { return t.natural == "" }

// fields are all that identify a target, of all action types.
type fields struct {
	ChargeID  string `json:"charge_id"`
	To        string `json:"to"`
	InvoiceID string `json:"invoice_id"`
	Revision  int    `json:"revision"`
	Email     string `json:"email"`
	Subject   string `json:"subject"`
	Body      string `json:"body"`
}

// targetOf says what the arguments of an action are about. What else is wrong
// with them is for Onceward and the provider to say.
func targetOf(actionType string, arguments []byte) (target, error) {
	if len(arguments) == 0 {
		return target{}, wrong("request.arguments", "is required")
	}
	var f fields
	if err := json.Unmarshal(arguments, &f); err != nil {
		return target{}, wrong("request.arguments", "%v", syntaxError(err))
	}
	var t target
	var missing string
	switch actionType {
	case refundCreate:
		t, missing = target{natural: fakeprovider.RefundOf(f.ChargeID)}, missingOf(field{"charge_id", f.ChargeID})
	case invoiceSend:
		t, missing = target{natural: fakeprovider.MailOf(f.To, f.InvoiceID, f.Revision)}, missingOf(field{"to", f.To}, field{"invoice_id", f.InvoiceID})
	case contactCreate:
		t, missing = target{natural: fakeprovider.ContactOf(f.Email)}, missingOf(field{"email", f.Email})
	case noteInsert:
		t, missing = target{note: note{f.Subject, f.Body}}, missingOf(field{"subject", f.Subject}, field{"body", f.Body})
	default:
		return t, wrong("request.action_type", "%q: the demo counts the effects of %s, %s, %s and %s only",
			actionType, refundCreate, invoiceSend, contactCreate, noteInsert)
	}
	if missing != "" {
		return t, wrong("request.arguments."+missing, "is required")
	}
	return t, nil
}

type field struct{ name, value string }

// missingOf returns the name of the first field that is empty, or "".
func missingOf(fields ...field) string {
	for _, f := range fields {
		if f.value == "" {
			return f.name
		}
	}
	return ""
}

// writtenTo returns the target of a write that the provider received.
func writtenTo(path string, body []byte) (target, bool) {
	actionType, ok := map[string]string{
		refundPath: refundCreate, invoicePath: invoiceSend, contactPath: contactCreate,
	}[path]
	if !ok {
		return target{}, false
	}
	t, err := targetOf(actionType, body)
	return t, err == nil
}
