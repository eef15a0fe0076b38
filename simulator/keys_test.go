package simulator_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/fakeprovider"
)

func TestKeyIsReplayedByteForByte(t *testing.T) {
	b := pay(t, nil)
	first := b.refund("k1", "pi_1")
	second := b.refund("k1", "pi_1")
	b.want(second, first.says())
	if first.header.Get("Idempotent-Replayed") != "" || second.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("marks %v, %v", first.header, second.header)
	}
	b.wantEffects(1)
	b.wantStatus(b.refund("k2", "pi_1"), 200)
	b.wantStatus(b.send(http.MethodPost, refunds, form, refundForm("pi_1")), 200) // no key
	b.wantEffects(3)
}

func TestKeyWithAnotherRequest(t *testing.T) {
	b := pay(t, nil)
	b.refund("k1", "pi_1")
	b.want(b.refund("k1", "pi_2"), `400 {"error":{"message":"another request","type":"idempotency_error"}}`)
	b.wantEffects(1)

	b = pay(t, func(p *definition.Provider, _ map[string]*definition.Action) { p.Keys.Compares = "nothing" })
	b.refund("k1", "pi_1")
	b.want(b.refund("k1", "pi_2"), refunded)
	b.wantEffects(1)
}

// A provider's keys are for all of its endpoints.
func TestKeyOfAnotherEndpoint(t *testing.T) {
	b := pay(t, func(_ *definition.Provider, acts map[string]*definition.Action) { acts["pay.payee.create"].Keys = nil })
	b.refund("k1", "pi_1")
	const payee = `{"name":"dana","rate":3,"by":"op1"}`
	b.wantStatus(b.send(http.MethodPut, "/v1/payees/dana.json", asJSON, payee, "Idempotency-Key", "k1"), 400)
	b.wantStatus(b.send(http.MethodPut, "/v1/payees/dana.json", asJSON, payee, "Idempotency-Key", "k2"), 201)
	b.wantEffects(2)
}

// Without an answer of the contract's, a duplicate gets one that proves nothing.
func TestKeyAnswersThatTheContractDoesNotSay(t *testing.T) {
	b := pay(t, func(p *definition.Provider, _ map[string]*definition.Action) { p.Outcomes = nil })
	b.refund("k1", "pi_1")
	b.wantStatus(b.refund("k1", "pi_2"), 409)
	gate := fakeprovider.NewGate()
	b.p.Next(fakeprovider.Fault{HoldBefore: gate})
	first := make(chan reply, 1)
	go func() { first <- b.refund("k2", "pi_1") }()
	<-gate.Reached()
	b.wantStatus(b.refund("k2", "pi_1"), 409)
	gate.Release()
	b.wantStatus(<-first, 200)
	b.wantEffects(2)
}

func TestKeyIsCheckedAgainstItsRules(t *testing.T) {
	b := pay(t, nil)
	for _, key := range []string{strings.Repeat("k", 41), "K1", "k-1"} {
		if r := b.refund(key, "pi_1"); r.status != 400 || !strings.Contains(r.body, "invalid_idempotency_key") {
			t.Errorf("%s: %s", key, r.says())
		}
	}
	b.wantStatus(b.refund(strings.Repeat("k", 40), "pi_1"), 200)
	b.wantEffects(1)
}

func TestKeyInFlight(t *testing.T) {
	for _, tt := range []struct {
		inFlight string
		second   string
		effects  int
	}{
		{"conflict", `409 {"error":{"code":"idempotency_key_in_use","message":"in use","type":"idempotency_error"}}`, 1},
		{"unknown", `409 {"error":{"code":"idempotency_key_in_use","message":"in use","type":"idempotency_error"}}`, 1},
		{"waits", refunded, 1},
		{"executes", refunded, 2},
	} {
		b := pay(t, func(p *definition.Provider, _ map[string]*definition.Action) { p.Keys.InFlight = tt.inFlight })
		gate := fakeprovider.NewGate()
		b.p.Next(fakeprovider.Fault{HoldBefore: gate})
		first, second := make(chan reply, 1), make(chan reply, 1)
		go func() { first <- b.refund("k1", "pi_1") }()
		<-gate.Reached()
		go func() { second <- b.refund("k1", "pi_1") }()
		if tt.inFlight == "waits" {
			if err := b.p.WaitRequests(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
			gate.Release()
		}
		b.want(<-second, tt.second)
		gate.Release()
		b.wantStatus(<-first, 200)
		b.wantEffects(tt.effects)
		if t.Failed() {
			t.Fatalf("in flight: %s", tt.inFlight)
		}
	}
}

func TestKeyIsForgottenAfterItsWindow(t *testing.T) {
	b := pay(t, nil)
	b.refund("k1", "pi_1")
	b.clock.Advance(24*time.Hour - 1)
	b.refund("k1", "pi_1")
	b.wantEffects(1)
	b.clock.Advance(1)
	b.refund("k1", "pi_1")
	b.wantEffects(2)
}

// What the contract does not say protects nobody.
func TestKeyWithoutAWindowProtectsNothing(t *testing.T) {
	b := pay(t, func(p *definition.Provider, _ map[string]*definition.Action) { p.Keys.Window = 0 })
	b.refund("k1", "pi_1")
	b.refund("k1", "pi_1")
	b.wantEffects(2)
	b = pay(t, func(p *definition.Provider, _ map[string]*definition.Action) { p.Keys = nil })
	b.refund("k1", "pi_1")
	b.refund("k1", "pi_1")
	b.wantEffects(2)
}

func TestWhatAKeyStores(t *testing.T) {
	const failed = `500 {"error":{"code":"internal_error","message":"Something went wrong on our side.","type":"invalid_request_error"}}`
	for _, tt := range []struct {
		stores, second string
		before         bool // the failure comes before the effect
		effects        int
	}{
		{stores: "everything", second: failed, effects: 1},
		{stores: "everything", second: failed, before: true},
		{stores: "unknown", second: failed, before: true},
		{stores: "", second: failed, before: true},
		{stores: "successes", second: refunded, effects: 1},
		{stores: "successes", second: refunded, before: true, effects: 1},
		{stores: "latest", second: refunded, effects: 1},
	} {
		b := pay(t, func(p *definition.Provider, _ map[string]*definition.Action) { p.Keys.Stores = tt.stores })
		kind := fakeprovider.ErrorAfterApplying
		if tt.before {
			kind = fakeprovider.ErrorBeforeApplying
		}
		b.p.Next(fakeprovider.Fault{Kind: kind})
		b.want(b.refund("k1", "pi_1"), failed)
		b.want(b.refund("k1", "pi_1"), tt.second)
		b.wantEffects(tt.effects)
		if t.Failed() {
			t.Fatalf("with %+v", tt)
		}
	}
}

func TestReplayOfAnAcceptedWrite(t *testing.T) {
	const pending = `202 {"id":"re_1","metadata":{"operation_id":"op_pi_1"},"payment":"pi_1","status":"pending"}`
	for stores, want := range map[string]string{"everything": pending, "successes": pending, "latest": refunded} {
		b := pay(t, func(p *definition.Provider, _ map[string]*definition.Action) { p.Keys.Stores = stores })
		b.p.Next(fakeprovider.Fault{Kind: fakeprovider.Accepted202, SettleAfter: time.Minute})
		b.want(b.refund("k1", "pi_1"), pending)
		b.want(b.refund("k1", "pi_1"), pending)
		b.want(b.send(http.MethodGet, "/v1/refunds/re_1", "", ""), strings.Replace(pending, "202", "200", 1))
		b.clock.Advance(time.Minute)
		b.want(b.refund("k1", "pi_1"), want)
		b.want(b.send(http.MethodGet, "/v1/refunds/re_1", "", ""), refunded)
		b.wantEffects(1)
	}
}

func TestKeyInAFieldAndInTheQuery(t *testing.T) {
	for _, place := range []string{"field", "query"} {
		b := pay(t, func(p *definition.Provider, _ map[string]*definition.Action) {
			p.Keys.Place, p.Keys.Name = place, map[string]string{"field": "metadata.key", "query": "key"}[place]
		})
		target, body := refunds, refundForm("pi_1")
		if place == "field" {
			body += "&metadata%5Bkey%5D=k1"
		} else {
			target += "?key=k1"
		}
		b.wantStatus(b.send(http.MethodPost, target, form, body), 200)
		b.wantStatus(b.send(http.MethodPost, target, form, body), 200)
		b.wantEffects(1)
		if e := b.p.Effects(); len(e) > 0 && e[0].Key != "k1" {
			t.Errorf("%s: key %q", place, e[0].Key)
		}
	}
}
