package fakeprovider

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// builtin is one of the three resources that the provider plays by itself.
type builtin struct {
	name    string // "refund"
	path    string // "/v1/refunds"
	prefix  string // of ids
	status  string // of a settled object
	filters []string
	read    func(body []byte) (Draft, *Answer)
}

// builtins are the payments, the e-mail and the CRM of [Options].
func builtins(o Options) []Resource {
	refunds := builtin{
		name: "refund", path: "/v1/refunds", prefix: "re_", status: "succeeded",
		filters: []string{"operation_id", "charge_id"}, read: readRefund,
	}.resource()
	refunds.Refuse = refuseRefund
	refunds.Keys = Keys{
		From: headerKey, Ignored: o.IgnoreKeys, Refuse: refuseLongKey, Scope: "refund", Window: o.KeyWindow,
		Compare: func(c *Call) string { return string(c.Body) }, StoreFailures: o.StoreFailures, Latest: true,
		Replayed: http.Header{"Idempotent-Replayed": {"true"}},
	}
	emails := builtin{
		name: "email", path: "/v1/emails", prefix: "em_", status: "sent",
		filters: []string{"operation_id", "to", "invoice_id", "revision"}, read: readEmail,
	}.resource()
	emails.Lookups[1].Lag = o.SearchLag
	contacts := builtin{
		name: "contact", path: "/v1/contacts", prefix: "co_", status: "active",
		filters: []string{"operation_id", "external_id", "email"}, read: readContact,
	}
	crm := contacts.resource()
	crm.Lookups = append(crm.Lookups, Lookup{Path: "/v1/contacts/by-external-id/{id}", Answer: contacts.byExternalID})
	return []Resource{refunds, emails, crm}
}

func (b builtin) resource() Resource {
	return Resource{
		Name: b.name, Path: b.path,
		Read:   func(c *Call) (Draft, *Answer) { return b.read(c.Body) },
		NewID:  func(int) string { return b.prefix + strings.ToLower(rand.Text()[:20]) },
		Answer: b.created,
		Taken: func(_ *Call, existing Object) Answer {
			return failureWith(http.StatusConflict, map[string]any{
				"type": "invalid_request_error", "code": b.name + "_exists", "id": existing.ID,
				"message": "There is such a " + b.name + " already.",
			})
		},
		Lookups: []Lookup{
			{Path: b.path + "/{id}", ByID: true, Answer: b.byID},
			{Path: b.path, Answer: b.list},
		},
	}
}

// created answers with an object: 201, or 202 and pending.
func (b builtin) created(o Object) Answer {
	a := Answer{Status: http.StatusCreated, Body: encode(b.view(o)), Location: b.path + "/" + o.ID}
	if o.Pending {
		a.Status = http.StatusAccepted
	}
	return a
}

// view is what a client sees of an object.
func (b builtin) view(o Object) map[string]any {
	fields := fieldsOf(o)
	v := make(map[string]any, len(fields)+4)
	for name, value := range fields {
		v[name] = value
	}
	v["id"] = o.ID
	v["object"] = b.name
	v["created"] = o.At.Unix()
	v["status"] = b.status
	if o.Pending {
		v["status"] = "pending"
	}
	return v
}

// fieldsOf is what the drafts of the built-in resources hold.
func fieldsOf(o Object) map[string]any {
	fields, _ := o.Draft.Data.(map[string]any)
	return fields
}

func headerKey(c *Call) string { return c.Header.Get("Idempotency-Key") }

func refuseLongKey(key string) *Answer {
	if len(key) <= 255 {
		return nil
	}
	return invalid("idempotency_key", "must not be longer than 255 characters")
}

type metadata map[string]string

// orEmpty makes absent metadata an object in answers.
func (m metadata) orEmpty() metadata {
	if m == nil {
		return metadata{}
	}
	return m
}

func readRefund(body []byte) (Draft, *Answer) {
	var in struct {
		ChargeID string   `json:"charge_id"`
		Amount   int64    `json:"amount"`
		Currency string   `json:"currency"`
		Reason   string   `json:"reason"`
		Metadata metadata `json:"metadata"`
	}
	bad := decode(body, &in)
	d := Draft{OperationID: in.Metadata["operation_id"], Data: map[string]any{
		"charge_id": in.ChargeID, "amount": in.Amount, "currency": in.Currency,
		"reason": in.Reason, "metadata": in.Metadata.orEmpty(),
	}}
	if in.ChargeID != "" {
		d.NaturalKey = RefundOf(in.ChargeID)
	}
	switch {
	case bad != nil:
	case in.ChargeID == "":
		bad = invalid("charge_id", "is required")
	case in.Amount <= 0:
		bad = invalid("amount", "must be a positive number of minor units")
	case len(in.Currency) != 3:
		bad = invalid("currency", "must be a code of three letters")
	}
	return d, bad
}

func refuseRefund(_ *Call, d Draft) *Answer {
	id := fmt.Sprint(fieldsOf(Object{Draft: d})["charge_id"])
	if !strings.HasPrefix(id, "ch_missing") {
		return nil
	}
	a := failure(http.StatusUnprocessableEntity, "invalid_request_error", "charge_not_found", "No such charge: "+id+".")
	return &a
}

func readEmail(body []byte) (Draft, *Answer) {
	var in struct {
		To        string   `json:"to"`
		Template  string   `json:"template"`
		InvoiceID string   `json:"invoice_id"`
		Revision  int      `json:"revision"`
		Metadata  metadata `json:"metadata"`
	}
	bad := decode(body, &in)
	d := Draft{OperationID: in.Metadata["operation_id"], Data: map[string]any{
		"to": in.To, "template": in.Template, "invoice_id": in.InvoiceID,
		"revision": in.Revision, "metadata": in.Metadata.orEmpty(),
	}}
	if in.To != "" {
		d.NaturalKey = MailOf(in.To, in.InvoiceID, in.Revision)
	}
	_, domain, isAddress := strings.Cut(in.To, "@")
	switch {
	case bad != nil:
	case !isAddress:
		bad = invalid("to", "must be an address")
	case in.InvoiceID == "":
		bad = invalid("invoice_id", "is required")
	case in.Revision < 0:
		bad = invalid("revision", "must not be negative")
	case strings.EqualFold(domain, "invalid.test"):
		a := failure(http.StatusUnprocessableEntity, "invalid_request_error", "recipient_rejected", "The recipient's domain takes no mail.")
		bad = &a
	}
	return d, bad
}

func readContact(body []byte) (Draft, *Answer) {
	var in struct {
		ExternalID string   `json:"external_id"`
		Email      string   `json:"email"`
		Name       string   `json:"name"`
		Metadata   metadata `json:"metadata"`
	}
	bad := decode(body, &in)
	d := Draft{OperationID: in.Metadata["operation_id"], Unique: in.ExternalID, Data: map[string]any{
		"external_id": in.ExternalID, "email": in.Email, "name": in.Name, "metadata": in.Metadata.orEmpty(),
	}}
	if in.ExternalID != "" {
		d.NaturalKey = ContactOf(in.ExternalID)
	}
	switch {
	case bad != nil:
	case in.ExternalID == "":
		bad = invalid("external_id", "is required")
	case !strings.Contains(in.Email, "@"):
		bad = invalid("email", "must be an address")
	}
	return d, bad
}

// decode reads one JSON value. Unknown members are ignored, as most providers do.
func decode(body []byte, into any) *Answer {
	dec := json.NewDecoder(bytes.NewReader(body))
	err := dec.Decode(into)
	if err == nil {
		if _, end := dec.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("more than one JSON value")
		}
	}
	if err == nil {
		return nil
	}
	a := failure(http.StatusBadRequest, "invalid_request_error", "malformed_body", "The body cannot be read: "+err.Error()+".")
	return &a
}

func invalid(field, problem string) *Answer {
	a := failure(http.StatusBadRequest, "invalid_request_error", "invalid_"+field, field+" "+problem+".")
	return &a
}
