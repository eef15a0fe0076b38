package fakeprovider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// resource is one kind of thing that the provider keeps.
type resource struct {
	name    string // "refund"
	path    string // "/v1/refunds"
	prefix  string // of ids
	status  string // of a settled object
	keyed   bool   // honours Idempotency-Key
	lags    bool   // search is subject to Options.SearchLag
	filters []string

	// read decodes and validates a body. With a failure it returns as much
	// of the draft as could be read.
	read func(body []byte) (draft, *answer)
	// refuse is a refusal that needs the provider's data, so that it is made
	// in execution. Nil if the resource has none.
	refuse func(draft) *answer
}

// draft is a write that has not been applied.
type draft struct {
	naturalKey  string
	operationID string
	unique      string // value that only one object may hold; empty: none
	fields      map[string]any
}

func resources() []resource {
	return []resource{
		{
			name: "refund", path: "/v1/refunds", prefix: "re_", status: "succeeded", keyed: true,
			filters: []string{"operation_id", "charge_id"}, read: readRefund, refuse: refuseRefund,
		},
		{
			name: "email", path: "/v1/emails", prefix: "em_", status: "sent", lags: true,
			filters: []string{"operation_id", "to", "invoice_id", "revision"}, read: readEmail,
		},
		{
			name: "contact", path: "/v1/contacts", prefix: "co_", status: "active",
			filters: []string{"operation_id", "external_id", "email"}, read: readContact,
		},
	}
}

type metadata map[string]string

// orEmpty makes absent metadata an object in answers.
func (m metadata) orEmpty() metadata {
	if m == nil {
		return metadata{}
	}
	return m
}

func readRefund(body []byte) (draft, *answer) {
	var in struct {
		ChargeID string   `json:"charge_id"`
		Amount   int64    `json:"amount"`
		Currency string   `json:"currency"`
		Reason   string   `json:"reason"`
		Metadata metadata `json:"metadata"`
	}
	bad := decode(body, &in)
	d := draft{operationID: in.Metadata["operation_id"], fields: map[string]any{
		"charge_id": in.ChargeID, "amount": in.Amount, "currency": in.Currency,
		"reason": in.Reason, "metadata": in.Metadata.orEmpty(),
	}}
	if in.ChargeID != "" {
		d.naturalKey = RefundOf(in.ChargeID)
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

func refuseRefund(d draft) *answer {
	id := fmt.Sprint(d.fields["charge_id"])
	if !strings.HasPrefix(id, "ch_missing") {
		return nil
	}
	a := failure(http.StatusUnprocessableEntity, "invalid_request_error", "charge_not_found", "No such charge: "+id+".")
	return &a
}

func readEmail(body []byte) (draft, *answer) {
	var in struct {
		To        string   `json:"to"`
		Template  string   `json:"template"`
		InvoiceID string   `json:"invoice_id"`
		Revision  int      `json:"revision"`
		Metadata  metadata `json:"metadata"`
	}
	bad := decode(body, &in)
	d := draft{operationID: in.Metadata["operation_id"], fields: map[string]any{
		"to": in.To, "template": in.Template, "invoice_id": in.InvoiceID,
		"revision": in.Revision, "metadata": in.Metadata.orEmpty(),
	}}
	if in.To != "" {
		d.naturalKey = MailOf(in.To, in.InvoiceID, in.Revision)
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

func readContact(body []byte) (draft, *answer) {
	var in struct {
		ExternalID string   `json:"external_id"`
		Email      string   `json:"email"`
		Name       string   `json:"name"`
		Metadata   metadata `json:"metadata"`
	}
	bad := decode(body, &in)
	d := draft{operationID: in.Metadata["operation_id"], unique: in.ExternalID, fields: map[string]any{
		"external_id": in.ExternalID, "email": in.Email, "name": in.Name, "metadata": in.Metadata.orEmpty(),
	}}
	if in.ExternalID != "" {
		d.naturalKey = ContactOf(in.ExternalID)
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
func decode(body []byte, into any) *answer {
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

func invalid(field, problem string) *answer {
	a := failure(http.StatusBadRequest, "invalid_request_error", "invalid_"+field, field+" "+problem+".")
	return &a
}
