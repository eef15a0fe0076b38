package simulator_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/simulator"
)

func TestLookupByReference(t *testing.T) {
	b := pay(t, nil)
	b.p.Next(fakeprovider.Fault{LookupLag: time.Hour, DuplicateLookup: true}) // is about the other look-ups
	b.refund("k1", "pi_1")
	b.want(b.send(http.MethodGet, "/base/v1/refunds/re_1", "", ""), refunded)
	b.want(b.send(http.MethodGet, "/v1/refunds/re_2", "", ""), `404 {"error":{"code":"not_found","message":"There is no such object.","type":"invalid_request_error"}}`)
}

// What is said about an object does not change with the time.
func TestLookupShowsTheTimeOfTheWrite(t *testing.T) {
	b := pay(t, func(_ *definition.Provider, acts map[string]*definition.Action) {
		acts["pay.refund.create"].Simulate.Object = map[string]any{"at": "${rfc3339(now)}", "n": "${n}"}
	})
	b.refund("k1", "pi_1")
	b.clock.Advance(time.Hour)
	b.want(b.send(http.MethodGet, "/v1/refunds/re_1", "", ""), `200 {"at":"2026-11-02T09:00:00Z","n":1}`)
}

// A provider that says nothing about pending objects shows them when they are done.
func TestPendingObjectThatTheContractDoesNotKnow(t *testing.T) {
	b := pay(t, func(_ *definition.Provider, acts map[string]*definition.Action) {
		acts["pay.refund.create"].Simulate.Pending = nil
	})
	b.p.Next(fakeprovider.Fault{Kind: fakeprovider.Accepted202, SettleAfter: time.Minute})
	b.want(b.refund("k1", "pi_1"), "202 {}")
	b.wantStatus(b.send(http.MethodGet, "/v1/refunds/re_1", "", ""), 404)
	b.clock.Advance(time.Minute)
	b.want(b.send(http.MethodGet, "/v1/refunds/re_1", "", ""), refunded)
}

func TestLookupThatLags(t *testing.T) {
	b := pay(t, nil)
	b.refund("k1", "pi_1")
	find := func() int { return len(b.data(b.send(http.MethodGet, "/v1/refunds?payment=pi_1", "", ""))) }
	if n := find(); n != 0 {
		t.Errorf("found %d at once", n)
	}
	b.clock.Advance(time.Minute - 1) // half of the settle time
	if n := find(); n != 0 {
		t.Errorf("found %d before the lag is over", n)
	}
	b.clock.Advance(1)
	if n := find(); n != 1 {
		t.Errorf("found %d after the lag", n)
	}
	if n := len(b.data(b.send(http.MethodGet, "/v1/refunds?payment=pi_2", "", ""))); n != 0 {
		t.Errorf("found %d of another payment", n)
	}

	p, acts := load(t, "pay")
	short := start(t, p, acts, simulator.Options{LookupLag: time.Second})
	short.auth = bearer("PAY_TOKEN")
	short.refund("k1", "pi_1")
	short.clock.Advance(time.Second)
	if n := len(short.data(short.send(http.MethodGet, "/v1/refunds?payment=pi_1", "", ""))); n != 1 {
		t.Errorf("found %d after the lag of the options", n)
	}
}

func TestLookupThatFindsTwo(t *testing.T) {
	b := pay(t, nil)
	b.p.Next(fakeprovider.Fault{DuplicateLookup: true})
	b.refund("k1", "pi_1")
	b.clock.Advance(time.Minute)
	data := b.data(b.send(http.MethodGet, "/v1/refunds?payment=pi_1", "", ""))
	if len(data) != 2 {
		t.Fatalf("found %v", data)
	}
	first, _ := data[0].(map[string]any)
	second, _ := data[1].(map[string]any)
	if first["id"] != "re_1" || second["id"] != "re_1_again" {
		t.Errorf("found %v", data)
	}
	b.wantEffects(1)
}

func TestLookupSaysWhyItFindsNothing(t *testing.T) {
	b := pay(t, nil)
	b.refund("k1", "pi_1")
	b.clock.Advance(time.Minute)
	r := b.send(http.MethodGet, "/v1/refunds?charge=x", "", "")
	if n := len(b.data(r)); n != 0 {
		t.Errorf("found %d", n)
	}
	if note := r.header.Get("Simulator-Note"); !strings.Contains(note, "no such key: payment") {
		t.Errorf("note %q", note)
	}
}

func TestLookupFaults(t *testing.T) {
	b := pay(t, nil)
	b.refund("k1", "pi_1")
	b.p.NextLookup(fakeprovider.Fault{Kind: fakeprovider.RateLimited}, fakeprovider.Fault{Kind: fakeprovider.ErrorBeforeApplying, Status: 502})
	b.wantStatus(b.send(http.MethodGet, "/v1/refunds/re_1", "", ""), 429)
	b.wantStatus(b.send(http.MethodGet, "/v1/refunds/re_1", "", ""), 502)
	b.wantStatus(b.send(http.MethodGet, "/v1/refunds/re_1", "", ""), 200)
}

// Two action types whose look-ups have one path: each finds its own.
func TestLookupsShareAPath(t *testing.T) {
	p, acts := load(t, "pay")
	var twin definition.Action
	for _, a := range acts {
		if a.Type == "pay.refund.create" {
			twin = *a
		}
	}
	request, simulated := *twin.Request, *twin.Simulate
	twin.Type, request.Path, simulated.ID = "pay.charge.create", "https://api.pay.example/base/v1/charges", "ch_${n}"
	twin.Request, twin.Simulate = &request, &simulated
	b := start(t, p, append(acts, &twin), simulator.Options{})
	b.auth = bearer("PAY_TOKEN")
	b.wantStatus(b.send(http.MethodPost, "/v1/charges", form, refundForm("pi_1")), 200)
	b.wantStatus(b.send(http.MethodGet, "/v1/refunds/ch_1", "", ""), 200)
	b.clock.Advance(time.Minute)
	if n := len(b.data(b.send(http.MethodGet, "/v1/refunds?payment=pi_1", "", ""))); n != 1 {
		t.Errorf("found %d", n)
	}
}

const graphQL = "/graphql"

func shop(t *testing.T) *bench {
	t.Helper()
	p, acts := load(t, "shop")
	b := start(t, p, acts, simulator.Options{})
	b.auth = func(r *http.Request) {
		r.Header.Set("X-Shop-Token", "T "+simulator.Secret(definition.Secret{File: "/run/secrets/shop"}))
	}
	return b
}

func TestGraphQLSharesOnePath(t *testing.T) {
	b := shop(t)
	refund := func(key, tag string) string {
		return `{"query":"mutation refund($input: RefundInput!) {\n refund(input: $input) @idempotent(key: \"` + key + `\") { id }\n}\n","variables":{"input":{"order":"o_1","tag":"` + tag + `"}}}`
	}
	note := func(key string) string {
		return `{"query":"mutation note($text: String!) { note(text: $text, key: \"n-` + key + `\") { id } }","variables":{"text":"hello"}}`
	}
	send := func(body string) reply { return b.send(http.MethodPost, graphQL, asJSON, body) }
	b.want(send(refund("k1", "op1")), `200 {"data":{"refund":{"id":"obj_1"}}}`)
	b.want(send(refund("k1", "op1")), `200 {"data":{"refund":{"id":"obj_1"}}}`)
	b.want(send(note("k1")), `200 {"data":{"note":{"id":"note_2"}}}`)
	b.want(send(note("k1")), `200 {"data":{"note":{"id":"note_2"}}}`)
	b.want(send(note("k2")), `200 {"data":{"note":{"id":"note_3"}}}`)
	b.wantEffects(3)
	const find = `{"query":"query find($tag: String!) { refunds(tag: $tag) { id tag } }","variables":{"tag":"op1"}}`
	b.want(send(find), `200 {"data":{"refunds":[{"id":"obj_1","tag":"op1"}]}}`)
	b.want(send(strings.Replace(find, `"op1"`, `"op2"`, 1)), `200 {"data":{"refunds":[]}}`)
	b.want(send(`{"query":"mutation other { x }"}`), `404 {"errors":[{"code":"unknown_endpoint","message":"There is nothing at this method and path."}]}`)

	// A look-up that is a POST takes no fault of a write, and the other way round.
	b.p.Next(fakeprovider.Fault{Kind: fakeprovider.RateLimited})
	b.p.NextLookup(fakeprovider.Fault{Kind: fakeprovider.ErrorBeforeApplying})
	b.wantStatus(send(find), 500)
	b.want(send(note("k9")), `200 {"errors":[{"code":"THROTTLED","message":"slow"}]}`)
	b.p.Next(fakeprovider.Fault{Kind: fakeprovider.ErrorAfterApplying})
	b.wantStatus(send(note("k10")), 500)
	b.wantEffects(4)
	kinds := map[fakeprovider.RequestKind]int{}
	for _, r := range b.p.Requests() {
		kinds[r.Kind]++
	}
	if kinds[fakeprovider.KindLookup] != 3 || kinds[fakeprovider.KindWrite] != 7 || kinds[fakeprovider.KindOther] != 1 {
		t.Errorf("kinds %v", kinds)
	}
}

// Two action types that write to one path are told apart by what is fixed in
// their bodies.
func TestWritesShareAPath(t *testing.T) {
	p, acts := load(t, "pay")
	var refund *definition.Action
	for _, a := range acts {
		if a.Type == "pay.refund.create" {
			refund = a
		}
	}
	action := func(name string, body map[string]any) *definition.Action {
		return &definition.Action{
			Type: name, Provider: "pay", Request: &definition.Request{Method: "POST", Path: refund.Request.Path, JSON: body},
			Simulate: &definition.Simulate{Success: definition.Answer{Status: 200, JSON: map[string]any{"is": name}}},
		}
	}
	b := start(t, p, []*definition.Action{
		refund,
		action("pay.bug", map[string]any{"kind": "bug", "n": uint64(1), "text": "${args.text}", "note": "${args.?note}"}),
		action("pay.task", map[string]any{"kind": "task", "n": uint64(1), "text": "by ${args.text}", "list": []any{}}),
	}, simulator.Options{})
	b.auth = bearer("PAY_TOKEN")
	for body, want := range map[string]string{
		`{"kind":"bug","n":1,"text":"x"}`:              `200 {"is":"pay.bug"}`,
		`{"kind":"task","n":1,"text":"by x"}`:          `200 {"is":"pay.task"}`,
		`{"kind":"task","n":1,"text":"x"}`:             `404`,
		`{"kind":"bug","n":2,"text":"x"}`:              `404`,
		`{"kind":"bug","n":1,"text":"x","colour":"x"}`: `404`,
		`{"kind":"bug","text":"x"}`:                    `404`,
		`[]`:                                           `404`,
	} {
		if r := b.send(http.MethodPost, "/v1/accounts/acct_1/refunds", asJSON, body); !strings.HasPrefix(r.says(), want) {
			t.Errorf("%s: %s, want %s", body, r.says(), want)
		}
	}
	b.wantStatus(b.refund("k1", "pi_1"), 200)
	b.wantEffects(3)
}
