package fakeprovider_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/fakeprovider"
)

func TestWritesAnswerAndCount(t *testing.T) {
	tests := []struct {
		name, path, body, prefix, status, natural, resource string
	}{
		{"refund", "/v1/refunds", refund("ch_1", "op1"), "re_", "succeeded", fakeprovider.RefundOf("ch_1"), "refund"},
		{"mail", "/v1/emails", mail("li@example.test", "op1"), "em_", "sent", fakeprovider.MailOf("li@example.test", "inv_1", 2), "email"},
		{"contact", "/v1/contacts", contact("ext1", "op1"), "co_", "active", fakeprovider.ContactOf("ext1"), "contact"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := start(t, fakeprovider.Options{Clock: fakeprovider.NewManualClock(epoch)})
			r := b.post(tt.path, "key1", tt.body)
			b.wantStatus(r, http.StatusCreated)
			o := r.object(t)
			id, _ := o["id"].(string)
			if !strings.HasPrefix(id, tt.prefix) || o["status"] != tt.status {
				t.Errorf("object %v", o)
			}
			if r.header.Get("Content-Type") != "application/json" || r.header.Get("Server") != "onceward-fakeprovider" {
				t.Errorf("headers %v", r.header)
			}
			b.wantEffects(1)
			e := b.p.EffectsFor("op1")[0]
			if e.ID != id || e.Resource != tt.resource || e.NaturalKey != tt.natural || e.Key != "key1" ||
				e.Request != 1 || e.Attempt != 1 || !e.At.Equal(epoch) || string(e.Body) != tt.body {
				t.Errorf("effect %+v", e)
			}
			if len(b.p.EffectsOn(tt.natural)) != 1 || len(b.p.EffectsFor("other")) != 0 {
				t.Errorf("counting by action is wrong: %+v", e)
			}
			byID := b.get(tt.path + "/" + id)
			b.wantStatus(byID, http.StatusOK)
			if string(byID.body) != string(r.body) {
				t.Errorf("read by id gives %s, the write gave %s", byID.body, r.body)
			}
			if n := b.found(tt.path + "?operation_id=op1"); n != 1 {
				t.Errorf("search finds %d", n)
			}
			b.wantStatus(b.get(tt.path+"/"+tt.prefix+"none"), http.StatusNotFound)
		})
	}
}

func TestInvalidWritesHaveNoEffect(t *testing.T) {
	tests := []struct {
		name, path, body string
		status           int
		code             string
	}{
		{"no charge", "/v1/refunds", `{"amount":1,"currency":"usd"}`, 400, "invalid_charge_id"},
		{"amount zero", "/v1/refunds", `{"charge_id":"ch_1","amount":0,"currency":"usd"}`, 400, "invalid_amount"},
		{"amount negative", "/v1/refunds", `{"charge_id":"ch_1","amount":-5,"currency":"usd"}`, 400, "invalid_amount"},
		{"amount fraction", "/v1/refunds", `{"charge_id":"ch_1","amount":1.5,"currency":"usd"}`, 400, "malformed_body"},
		{"no currency", "/v1/refunds", `{"charge_id":"ch_1","amount":1}`, 400, "invalid_currency"},
		{"unknown charge", "/v1/refunds", refund("ch_missing_7", "op1"), 422, "charge_not_found"},
		{"no JSON", "/v1/refunds", `amount=1`, 400, "malformed_body"},
		{"two values", "/v1/refunds", refund("ch_1", "a") + refund("ch_1", "b"), 400, "malformed_body"},
		{"too large", "/v1/refunds", `{"reason":"` + strings.Repeat("x", 1<<20) + `"}`, 413, "body_too_large"},
		{"no address", "/v1/emails", mail("li", "op1"), 400, "invalid_to"},
		{"no invoice", "/v1/emails", `{"to":"li@example.test"}`, 400, "invalid_invoice_id"},
		{"negative revision", "/v1/emails", `{"to":"li@example.test","invoice_id":"i","revision":-1}`, 400, "invalid_revision"},
		{"bad domain", "/v1/emails", mail("li@invalid.test", "op1"), 422, "recipient_rejected"},
		{"no external id", "/v1/contacts", `{"email":"a@example.test"}`, 400, "invalid_external_id"},
		{"no email", "/v1/contacts", `{"external_id":"x"}`, 400, "invalid_email"},
		{"no endpoint", "/v1/nothing", `{}`, 404, "unknown_endpoint"},
	}
	b := start(t, fakeprovider.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := b.post(tt.path, "", tt.body)
			b.wantStatus(r, tt.status)
			if code := r.code(t); code != tt.code {
				t.Errorf("code %q, want %q", code, tt.code)
			}
			b.wantEffects(0)
		})
	}
}

func TestTokenIsNeeded(t *testing.T) {
	b := start(t, fakeprovider.Options{Token: "other"})
	b.p.Next(fakeprovider.Fault{Kind: fakeprovider.RateLimited})
	r := b.post("/v1/refunds", "", refund("ch_1", "op1"))
	b.wantStatus(r, http.StatusUnauthorized)
	b.wantStatus(b.get("/v1/refunds"), http.StatusUnauthorized)
	b.wantEffects(0)
	if n := b.p.PendingFaults(); n != 1 {
		t.Errorf("an unauthorised write took a fault: %d left", n)
	}
}

func TestMailHasNoKeys(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	for range 3 {
		b.wantStatus(b.post("/v1/emails", "same", mail("li@example.test", "op1")), http.StatusCreated)
	}
	b.wantEffects(3)
	if last := b.p.Effects()[2]; last.Attempt != 3 {
		t.Errorf("attempt %d, want 3", last.Attempt)
	}
}

func TestMailSearchLags(t *testing.T) {
	clock := fakeprovider.NewManualClock(epoch)
	b := start(t, fakeprovider.Options{Clock: clock, SearchLag: time.Minute})
	id := b.post("/v1/emails", "", mail("li@example.test", "op1")).object(t)["id"].(string)
	b.wantStatus(b.get("/v1/emails/"+id), http.StatusOK)
	clock.Advance(59 * time.Second)
	if n := b.found("/v1/emails?operation_id=op1"); n != 0 {
		t.Errorf("found %d before the lag is over", n)
	}
	clock.Advance(time.Second)
	if n := b.found("/v1/emails?operation_id=op1"); n != 1 {
		t.Errorf("found %d after the lag", n)
	}
	b.post("/v1/refunds", "", refund("ch_1", "op1"))
	if n := b.found("/v1/refunds?operation_id=op1"); n != 1 {
		t.Errorf("the list of refunds lags: found %d", n)
	}
}

func TestContactIsUnique(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	b.wantStatus(b.get("/v1/contacts/by-external-id/ext1"), http.StatusNotFound)
	first := b.post("/v1/contacts", "", contact("ext1", "op1")).object(t)
	second := b.post("/v1/contacts", "", contact("ext1", "op2"))
	b.wantStatus(second, http.StatusConflict)
	fields := second.object(t)["error"].(map[string]any)
	if fields["code"] != "contact_exists" || fields["id"] != first["id"] {
		t.Errorf("conflict says %v, the first contact is %v", fields, first["id"])
	}
	found := b.get("/v1/contacts/by-external-id/ext1")
	b.wantStatus(found, http.StatusOK)
	if found.object(t)["id"] != first["id"] {
		t.Errorf("found %s", found.body)
	}
	b.wantEffects(1)
}

func TestListPagesAndFilters(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	for range 3 {
		b.post("/v1/refunds", "", refund("ch_1", "op1"))
	}
	b.post("/v1/refunds", "", refund("ch_2", "op2"))
	first := b.get("/v1/refunds?charge_id=ch_1&limit=2").object(t)
	data := first["data"].([]any)
	if len(data) != 2 || first["has_more"] != true {
		t.Fatalf("first page %v", first)
	}
	effects := b.p.EffectsOn(fakeprovider.RefundOf("ch_1"))
	last := data[1].(map[string]any)["id"].(string)
	if data[0].(map[string]any)["id"] != effects[2].ID || last != effects[1].ID {
		t.Errorf("not newest first: %v", data)
	}
	second := b.get("/v1/refunds?charge_id=ch_1&limit=2&starting_after=" + last).object(t)
	if len(second["data"].([]any)) != 1 || second["has_more"] != false {
		t.Errorf("second page %v", second)
	}
	for _, query := range []string{"limit=0", "limit=101", "limit=x", "starting_after=re_none", "operation=op1"} {
		b.wantStatus(b.get("/v1/refunds?"+query), http.StatusBadRequest)
	}
}
