package demo_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/fakeprovider"
)

func TestExecuteApplies(t *testing.T) {
	for s, want := range map[sample]string{
		refund:  `{"id":"$","charge_id":"ch_1","amount":1200,"currency":"usd","status":"succeeded"}`,
		invoice: `{"id":"$","to":"dana@example.test","invoice_id":"inv_1","revision":2,"status":"sent"}`,
		contact: `{"id":"$","external_id":"dana@example.test","email":"dana@example.test","name":"Dana Reyes","status":"active"}`,
	} {
		t.Run(s.action, func(t *testing.T) {
			b := start(t, fakeprovider.Options{})
			got := b.execute(s, "op-1")
			b.wantEffects(s, 1)
			want := strings.Replace(want, "$", got.Receipt.Reference, 1)
			if got.Kind != actions.Applied || got.Receipt.Reference == "" || string(got.Receipt.JSON) != want {
				t.Fatalf("got %+v %s\nwant %s", got, got.Receipt.JSON, want)
			}
			effect := b.provider.EffectsFor("op-1")[0]
			if effect.ID != got.Receipt.Reference {
				t.Errorf("the receipt names %s, the effect is %s", got.Receipt.Reference, effect.ID)
			}
			if s == refund && effect.Key != s.call(t, "op-1").ProviderKey {
				t.Errorf("the provider saw the key %q", effect.Key)
			}
			found := b.lookup(s, "op-1", got.Receipt.Reference)
			if found.Kind != actions.Found || !bytes.Equal(found.Receipt.JSON, got.Receipt.JSON) {
				t.Errorf("look-up: %s %s (%s), want the same receipt", found.Kind, found.Receipt.JSON, found.Detail)
			}
		})
	}
}

// Each way that the provider can misbehave, for each action type: what the
// outcome claims must be what the target holds.
func TestExecuteUnderFaults(t *testing.T) {
	tests := []struct {
		fault   fakeprovider.Fault
		kind    actions.Kind
		effects int
	}{
		{fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying}, actions.Ambiguous, 1},
		{fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying, Reset: true}, actions.Ambiguous, 1},
		{fakeprovider.Fault{Kind: fakeprovider.DropBeforeReading}, actions.Ambiguous, 0},
		{fakeprovider.Fault{Kind: fakeprovider.RateLimited, RetryAfter: 2 * time.Minute}, actions.RateLimited, 0},
		{fakeprovider.Fault{Kind: fakeprovider.Reject}, actions.Rejected, 0},
		{fakeprovider.Fault{Kind: fakeprovider.ErrorBeforeApplying}, actions.Ambiguous, 0},
		{fakeprovider.Fault{Kind: fakeprovider.ErrorAfterApplying}, actions.Ambiguous, 1},
		{fakeprovider.Fault{Kind: fakeprovider.ErrorAfterApplying, Status: 503, RetryAfter: time.Second}, actions.Ambiguous, 1},
		{fakeprovider.Fault{Kind: fakeprovider.HTML502}, actions.Ambiguous, 0},
		{fakeprovider.Fault{Kind: fakeprovider.HTML502, Apply: true}, actions.Ambiguous, 1},
		{fakeprovider.Fault{Kind: fakeprovider.Redirect}, actions.Rejected, 0},
		{fakeprovider.Fault{Kind: fakeprovider.Redirect, Status: 302, Apply: true}, actions.Ambiguous, 1},
		{fakeprovider.Fault{Kind: fakeprovider.Redirect, Status: 303, Apply: true}, actions.AppliedNoReceipt, 1},
		{fakeprovider.Fault{Kind: fakeprovider.Accepted202, SettleAfter: time.Minute}, actions.Accepted, 1},
		{fakeprovider.Fault{Kind: fakeprovider.TruncateAnswer}, actions.AppliedNoReceipt, 1},
		{fakeprovider.Fault{Kind: fakeprovider.TruncateAnswerChunked}, actions.AppliedNoReceipt, 1},
		{fakeprovider.Fault{Kind: fakeprovider.TruncateAnswerUntilClose}, actions.AppliedNoReceipt, 1},
		{fakeprovider.Fault{Kind: fakeprovider.MalformedJSON201}, actions.AppliedNoReceipt, 1},
		{fakeprovider.Fault{Kind: fakeprovider.Empty201}, actions.AppliedNoReceipt, 1},
		{fakeprovider.Fault{Kind: fakeprovider.HugeAnswer, Size: 5 << 20}, actions.Applied, 1},
		{fakeprovider.Fault{Kind: fakeprovider.HugeAnswer, Size: 9 << 20}, actions.AppliedNoReceipt, 1},
		{fakeprovider.Fault{Kind: fakeprovider.NULAnswer}, actions.Applied, 1},
		{fakeprovider.Fault{Kind: fakeprovider.LoneSurrogateAnswer}, actions.Applied, 1},
		{fakeprovider.Fault{Kind: fakeprovider.InvalidUTF8Answer}, actions.Applied, 1},
	}
	for _, s := range []sample{refund, invoice, contact} {
		b := start(t, fakeprovider.Options{})
		for _, test := range tests {
			b.provider.Reset()
			b.provider.Next(test.fault)
			got := b.execute(s, "op-1")
			if got.Kind != test.kind {
				t.Errorf("%s, %s %d: %s, want %s (%+v)", s.action, test.fault, test.fault.Status, got.Kind, test.kind, got.Failure)
			}
			b.wantEffects(s, test.effects)
			if test.fault.RetryAfter > 0 && got.Kind == actions.RateLimited && got.RetryAfter != test.fault.RetryAfter {
				t.Errorf("%s: wait %s, want %s", s.action, got.RetryAfter, test.fault.RetryAfter)
			}
			if n := len(b.provider.Requests()); n != 1 {
				t.Errorf("%s, %s: %d requests for one attempt", s.action, test.fault, n)
			}
		}
	}
}

func TestExecuteNotSent(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	if err := b.server.Pause(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []sample{refund, invoice, contact} {
		if got := b.execute(s, "op-1"); got.Kind != actions.NotApplied || !strings.Contains(got.Failure.Evidence, "0 bytes offered") {
			t.Errorf("%s: %+v", s.action, got)
		}
	}
	if n := len(b.provider.Requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestRefundKey(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	b.provider.Next(fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying})
	if got := b.execute(refund, "op-1"); got.Kind != actions.Ambiguous {
		t.Fatalf("got %+v", got)
	}
	again := b.execute(refund, "op-1")
	if again.Kind != actions.Applied {
		t.Errorf("the same key again: %+v", again)
	}
	b.wantEffects(refund, 1)

	other := refund
	other.arguments = strings.Replace(refund.arguments, "1200", "1300", 1)
	if got := b.execute(other, "op-1"); got.Kind != actions.KeyMismatch {
		t.Errorf("the same key with another amount: %+v", got)
	}

	gate := fakeprovider.NewGate()
	b.provider.Next(fakeprovider.Fault{HoldBefore: gate})
	held := make(chan actions.Outcome, 1)
	go func() { held <- b.execute(refund, "op-2") }()
	<-gate.Reached()
	if got := b.execute(refund, "op-2"); got.Kind != actions.InProgress {
		t.Errorf("the same key at the same time: %+v", got)
	}
	gate.Release()
	if got := <-held; got.Kind != actions.Applied {
		t.Errorf("the held request: %+v", got)
	}
	b.wantEffects(refund, 2) // op-1 and op-2
}

func TestRefundRefused(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	missing := refund
	missing.arguments = `{"charge_id":"ch_missing","amount":500,"currency":"usd"}`
	got := b.execute(missing, "op-1")
	if got.Kind != actions.Rejected || got.Failure.Code != "charge_not_found" || !got.Failure.Correctable || got.Failure.Message != "No such charge: ch_missing." {
		t.Errorf("got %+v", got)
	}
	call := refund.call(t, "op-1")
	call.ProviderKey = ""
	if got := b.action(refund.action).Adapter.Execute(t.Context(), call); got.Kind != actions.Rejected || len(b.provider.Requests()) != 1 {
		t.Errorf("a refund without a key was sent: %+v", got)
	}
}

func TestRefundLookup(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	b.provider.Next(fakeprovider.Fault{Kind: fakeprovider.Accepted202, SettleAfter: time.Minute})
	accepted := b.execute(refund, "op-1")
	reference := accepted.Receipt.Reference
	if reference == "" {
		t.Fatalf("no reference: %+v", accepted)
	}
	if got := b.lookup(refund, "op-1", reference); got.Kind != actions.Inconclusive {
		t.Errorf("while pending: %+v", got)
	}
	b.clock.Advance(2 * time.Minute)
	if got := b.lookup(refund, "op-1", reference); got.Kind != actions.Found || got.Receipt.Reference != reference {
		t.Errorf("when settled: %+v", got)
	}
	if got := b.lookup(refund, "op-1", ""); got.Kind != actions.Found || got.Receipt.Reference != reference {
		t.Errorf("by operation id: %+v", got)
	}
	for name, got := range map[string]actions.Finding{
		"other operation":   b.lookup(refund, "op-2", reference),
		"unknown reference": b.lookup(refund, "op-3", "re_none"),
		"path as reference": b.lookup(refund, "op-3", "../emails"),
	} {
		if got.Kind != actions.Inconclusive {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestInvoiceLookup(t *testing.T) {
	b := start(t, fakeprovider.Options{SearchLag: 30 * time.Second})
	if got := b.lookup(invoice, "op-1", ""); got.Kind != actions.Absent {
		t.Errorf("before anything: %+v", got)
	}
	reference := b.execute(invoice, "op-1").Receipt.Reference
	if got := b.lookup(invoice, "op-1", ""); got.Kind != actions.Absent { // why a settle time is needed
		t.Errorf("inside the lag: %+v", got)
	}
	if got := b.lookup(invoice, "op-1", reference); got.Kind != actions.Found {
		t.Errorf("inside the lag, by reference: %+v", got)
	}
	if got := b.lookup(invoice, "op-1", "em_none"); got.Kind != actions.Inconclusive {
		t.Errorf("inside the lag, by a wrong reference: %+v", got)
	}
	b.clock.Advance(time.Minute)
	if got := b.lookup(invoice, "op-1", ""); got.Kind != actions.Found || got.Receipt.Reference != reference {
		t.Errorf("after the lag: %+v", got)
	}
	b.execute(invoice, "op-1")
	b.clock.Advance(time.Minute)
	if got := b.lookup(invoice, "op-1", reference); got.Kind != actions.Several || len(got.References) != 2 {
		t.Errorf("two mails: %+v", got)
	}
}

func TestContactLookup(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	if got := b.lookup(contact, "op-1", ""); got.Kind != actions.Absent {
		t.Errorf("before anything: %+v", got)
	}
	b.provider.Next(fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying})
	b.execute(contact, "op-1")
	if got := b.execute(contact, "op-1"); got.Kind != actions.MaybeOurs {
		t.Errorf("the second attempt: %+v", got)
	}
	if got := b.lookup(contact, "op-1", ""); got.Kind != actions.Found || got.Receipt.Reference != b.provider.Effects()[0].ID {
		t.Errorf("our own: %+v", got)
	}
	if got := b.lookup(contact, "op-2", ""); got.Kind != actions.Foreign || len(got.References) != 1 {
		t.Errorf("another operation's: %+v", got)
	}
	b.wantEffects(contact, 1)

	b.provider.Reset()
	b.provider.Next(fakeprovider.Fault{DuplicateLookup: true})
	b.execute(contact, "op-1")
	if got := b.lookup(contact, "op-1", ""); got.Kind != actions.Several || len(got.References) != 2 {
		t.Errorf("two contacts: %+v", got)
	}
}

// Trouble with a look-up is never absence.
func TestLookupUnderFaults(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	for _, kind := range []fakeprovider.Kind{
		fakeprovider.DropBeforeReading, fakeprovider.RateLimited, fakeprovider.Reject, fakeprovider.ErrorBeforeApplying, fakeprovider.HTML502,
		fakeprovider.Redirect, fakeprovider.TruncateAnswer, fakeprovider.TruncateAnswerChunked, fakeprovider.TruncateAnswerUntilClose,
		fakeprovider.MalformedJSON201, fakeprovider.Empty201,
	} {
		for _, s := range []sample{refund, invoice, contact} {
			b.provider.NextLookup(fakeprovider.Fault{Kind: kind, Times: -1})
			if got := b.lookup(s, "op-1", "x_1"); got.Kind != actions.Inconclusive {
				t.Errorf("%s, %s: %+v", s.action, kind, got)
			}
			b.provider.ClearFaults()
		}
	}
}

func TestValidate(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	for _, test := range []struct {
		action, arguments, field string // no field: valid
	}{
		{action: refund.action, arguments: refund.arguments},
		{action: refund.action, arguments: `{"charge_id":"ch_1","amount":1,"currency":"eur"}`},
		{refund.action, `{"charge_id":"ch_1","amount":0,"currency":"usd"}`, "amount"},
		{refund.action, `{"charge_id":"ch_1","amount":12.5,"currency":"usd"}`, "amount"},
		{refund.action, `{"charge_id":"ch_1","amount":1e30,"currency":"usd"}`, "amount"},
		{refund.action, `{"charge_id":"ch_1","amount":1,"currency":"USD"}`, "currency"},
		{refund.action, `{"charge_id":"ch_1/../x","amount":1,"currency":"usd"}`, "charge_id"},
		{refund.action, `{"charge_id":"ch_1","amount":1,"currency":"usd","key":"x"}`, "key"},
		{action: invoice.action, arguments: invoice.arguments},
		{invoice.action, `{"to":"Dana <dana@example.test>","invoice_id":"inv_1","revision":1}`, "to"},
		{invoice.action, `{"to":"dana@example.test","invoice_id":"inv_1","revision":0}`, "revision"},
		{invoice.action, `{"to":"dana@example.test","invoice_id":"inv_1"}`, "revision"},
		{action: contact.action, arguments: contact.arguments},
		{contact.action, `{"email":"dana","name":"Dana"}`, "email"},
		{contact.action, `{"email":"dana@example.test\r\nBcc: x@example.test","name":"Dana"}`, "email"},
		{contact.action, `{"email":"dana@example.test"}`, "name"},
	} {
		args, err := actions.ParseArguments([]byte(test.arguments))
		if err != nil {
			t.Fatal(err)
		}
		err = b.action(test.action).Validate(args)
		if test.field == "" {
			if err != nil {
				t.Errorf("%s: %v", test.arguments, err)
			}
			continue
		}
		var refused *actions.ArgumentsError
		if !errors.As(err, &refused) || refused.Violations[0].Field != test.field {
			t.Errorf("%s: %v, want a violation of %s", test.arguments, err, test.field)
		}
	}
}

// What is rendered depends on the call alone and holds no credential.
func TestRender(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	for _, s := range []sample{refund, invoice, contact} {
		renderer, ok := b.action(s.action).Adapter.(actions.Renderer)
		if !ok {
			t.Fatalf("%s cannot be frozen", s.action)
		}
		one, err := renderer.Render(s.call(t, "op-1"))
		if err != nil {
			t.Fatal(err)
		}
		two, _ := renderer.Render(s.call(t, "op-1"))
		other, _ := renderer.Render(s.call(t, "op-2"))
		if !bytes.Equal(one, two) || bytes.Equal(one, other) {
			t.Errorf("%s renders\n%s\n%s\n%s", s.action, one, two, other)
		}
		if bytes.Contains(one, []byte(fakeprovider.DefaultToken)) {
			t.Errorf("%s: the token is in %s", s.action, one)
		}
		_, body, _ := bytes.Cut(one, []byte("\r\n\r\n"))
		if !json.Valid(body) {
			t.Errorf("%s: body %s", s.action, body)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, o := range map[string]demo.Options{
		"nothing":  {},
		"no token": {ProviderURL: "http://127.0.0.1:1"},
		"no host":  {ProviderURL: "provider", Token: "t"},
		"scheme":   {ProviderURL: "ftp://provider", Token: "t"},
	} {
		if _, err := demo.New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
