package simulator_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/simulator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)

// load reads a folder of testdata: a provider and its action types, by type.
func load(t *testing.T, name string) (*definition.Provider, []*definition.Action) {
	t.Helper()
	set, err := definition.Load("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	acts := slices.SortedFunc(maps.Values(set.Actions), func(a, b *definition.Action) int { return cmp.Compare(a.Type, b.Type) })
	return set.Providers[name], acts
}

// bench is a simulated provider on a port.
type bench struct {
	t     *testing.T
	p     *fakeprovider.Provider
	s     *fakeprovider.Server
	clock *fakeprovider.ManualClock
	auth  func(*http.Request)
}

func start(t *testing.T, p *definition.Provider, acts []*definition.Action, o simulator.Options) *bench {
	t.Helper()
	b := &bench{t: t, clock: fakeprovider.NewManualClock(epoch), auth: func(*http.Request) {}}
	o.Clock = b.clock
	var err error
	if b.p, err = simulator.New(p, acts, o); err != nil {
		t.Fatal(err)
	}
	if b.s, err = fakeprovider.Start(b.p, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.s.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// pay is the contract with everything, changed as a test wants it.
func pay(t *testing.T, change func(*definition.Provider, map[string]*definition.Action)) *bench {
	t.Helper()
	p, acts := load(t, "pay")
	if change != nil {
		byType := map[string]*definition.Action{}
		for _, a := range acts {
			byType[a.Type] = a
		}
		change(p, byType)
	}
	b := start(t, p, acts, simulator.Options{})
	b.auth = bearer("PAY_TOKEN")
	return b
}

func bearer(env string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+simulator.Secret(definition.Secret{Env: env}))
	}
}

type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

// says is the status and the body.
func (r reply) says() string {
	if r.err != nil {
		return "no answer"
	}
	return fmt.Sprintf("%d %s", r.status, r.body)
}

func (b *bench) send(method, target, contentType, body string, headers ...string) reply {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.s.URL()+target, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	b.auth(req)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: string(read), err: err}
}

const (
	form    = "application/x-www-form-urlencoded"
	asJSON  = "application/json"
	refunds = "/base/v1/accounts/acct_1/refunds"
)

func refundForm(payment string) string {
	return "amount=4900&metadata%5Boperation_id%5D=op_" + payment + "&payment=" + payment
}

func (b *bench) refund(key, payment string) reply {
	b.t.Helper()
	return b.send(http.MethodPost, refunds, form, refundForm(payment), "Idempotency-Key", key)
}

func (b *bench) want(r reply, says string) {
	b.t.Helper()
	if got := r.says(); got != says {
		b.t.Errorf("got  %s (%v)\nwant %s", got, r.err, says)
	}
}

func (b *bench) wantStatus(r reply, status int) {
	b.t.Helper()
	if r.err != nil || r.status != status {
		b.t.Errorf("want %d, got %s (%v)", status, r.says(), r.err)
	}
}

func (b *bench) wantEffects(n int) {
	b.t.Helper()
	if got := b.p.Effects(); len(got) != n {
		b.t.Errorf("%d effects, want %d: %+v", len(got), n, got)
	}
}

// data is the list that a look-up found.
func (b *bench) data(r reply) []any {
	b.t.Helper()
	var body struct {
		Data []any `json:"data"`
	}
	if err := json.Unmarshal([]byte(r.body), &body); err != nil || r.status != http.StatusOK {
		b.t.Errorf("no list: %s (%v)", r.says(), err)
	}
	return body.Data
}

const refunded = `200 {"amount":4900,"currency":"usd","id":"re_1","metadata":{"operation_id":"op_pi_1"},"payment":"pi_1","status":"succeeded"}`

func TestWriteIsAnsweredAsTheContractSays(t *testing.T) {
	b := pay(t, nil)
	r := b.refund("k1", "pi_1")
	b.want(r, refunded)
	if got := r.header.Get("Idempotency-Honoured"); got != "k1" {
		t.Errorf("honoured %q", got)
	}
	b.wantEffects(1)
	e := b.p.EffectsFor("op_pi_1")
	if len(e) != 1 || e[0].Resource != "pay.refund.create" || e[0].ID != "re_1" || e[0].Key != "k1" || e[0].NaturalKey != "pay.refund.create:op_pi_1" {
		t.Errorf("effects %+v", e)
	}
	// With and without the path of the base URL.
	b.wantStatus(b.send(http.MethodPost, "/v1/accounts/acct_1/refunds", form, refundForm("pi_2"), "Idempotency-Key", "k2"), 200)
	b.wantStatus(b.send(http.MethodPost, "/v1/accounts/acct_2/refunds", form, refundForm("pi_3"), "Idempotency-Key", "k3"), 404)
	b.wantEffects(2)
}

func TestCredentialsAreNeeded(t *testing.T) {
	b := pay(t, nil)
	b.auth = func(*http.Request) {}
	const refused = `401 {"error":{"code":"unauthorized","message":"The credentials are missing or wrong.","type":"invalid_request_error"}}`
	b.want(b.refund("k1", "pi_1"), refused)
	b.auth = bearer("OTHER")
	b.want(b.refund("k1", "pi_1"), refused)
	b.want(b.send(http.MethodGet, "/v1/refunds?payment=pi_1", "", ""), refused)
	b.wantEffects(0)
}

func TestWriteThatCannotBeReadHasNoEffect(t *testing.T) {
	b := pay(t, nil)
	for name, tt := range map[string]struct{ contentType, body string }{
		"a member is missing":    {form, "metadata%5Boperation_id%5D=op&payment=pi_1"},
		"JSON in place of form":  {asJSON, `{"amount":4900`},
		"no content type":        {"", refundForm("pi_1")},
		"text that is no number": {form, strings.Replace(refundForm("pi_1"), "4900", "lots", 1)},
		"broken percent escape":  {form, "amount=%zz"},
		"no body":                {form, ""},
		"broken multipart":       {"multipart/form-data; boundary=x", "--x\r\nnonsense"},
	} {
		if r := b.send(http.MethodPost, refunds, tt.contentType, tt.body, "Idempotency-Key", "k1"); r.status != 400 || !strings.Contains(r.body, "The simulator cannot read the request: ") {
			t.Errorf("%s: %s", name, r.says())
		}
	}
	b.wantEffects(0)
}

func TestIDThatTheWriteLacks(t *testing.T) {
	b := pay(t, func(_ *definition.Provider, acts map[string]*definition.Action) {
		acts["pay.refund.create"].Simulate.ID = "${request.body.note}_${n}"
	})
	if r := b.refund("k1", "pi_1"); r.status != 400 || !strings.Contains(r.body, "simulate.id: request.body.note") {
		t.Errorf("got %s", r.says())
	}
	b.wantEffects(0)
	b.wantStatus(b.send(http.MethodPost, refunds, form, refundForm("pi_1")+"&note=hello"), 200)
	if e := b.p.Effects(); len(e) != 1 || e[0].ID != "hello_1" {
		t.Errorf("effects %+v", e)
	}
}

func TestUniqueValue(t *testing.T) {
	b := pay(t, nil)
	put := func(name, by string) reply {
		return b.send(http.MethodPut, "/v1/payees/"+name+".json", asJSON, fmt.Sprintf(`{"name":%q,"rate":3,"by":%q}`, name, by))
	}
	first := put("dana", "op1")
	id := strings.TrimSuffix(strings.TrimPrefix(first.body, `{"id":"`), `"}`)
	if first.status != 201 || len(id) != len("pe_")+36 || first.header.Get("Location") != "/v1/payees/"+id {
		t.Errorf("got %s, %v", first.says(), first.header)
	}
	b.want(put("dana", "op2"), `409 {"error":{"code":"exists","message":"taken by `+id+`"}}`)
	b.wantEffects(1)
	// The object is what simulate.object says, and not the answer.
	b.want(b.send(http.MethodGet, "/v1/payees/dana.json", "", ""), `200 {"payee":{"by":"op1","id":"`+id+`","made":"`+id+`","name":"dana"}}`)
	b.want(b.send(http.MethodGet, "/v1/payees/li.json", "", ""), `404 {"error":{"code":"not_found","message":"There is no such object.","type":"invalid_request_error"}}`)
	if e := b.p.Effects()[0]; e.NaturalKey != "pay.payee.create:dana" || e.OperationID != "" {
		t.Errorf("effect %+v", e)
	}
}

func TestFaultsAreAnsweredAsTheContractSays(t *testing.T) {
	tests := []struct {
		fault   fakeprovider.Fault
		effects int
		says    string
	}{
		{fakeprovider.Fault{Kind: fakeprovider.RateLimited}, 0, `429 {"error":{"code":"rate_limit","message":"slow down","type":"invalid_request_error"}}`},
		{fakeprovider.Fault{Kind: fakeprovider.RateLimited, Status: 403}, 0, `403 {"error":{"code":"rate_limited","message":"Too many requests.","type":"invalid_request_error"}}`},
		{fakeprovider.Fault{Kind: fakeprovider.Reject}, 0, `402 {"error":{"code":"declined","message":"not pi_1","type":"card_error"}}`},
		{fakeprovider.Fault{Kind: fakeprovider.Reject, Status: 422}, 0, `422 {"error":{"code":"rejected","message":"The request was refused.","type":"invalid_request_error"}}`},
		{fakeprovider.Fault{Kind: fakeprovider.ErrorBeforeApplying, Status: 500}, 0, `500 {"error":{"code":"internal_error","message":"Something went wrong on our side.","type":"invalid_request_error"}}`},
		{fakeprovider.Fault{Kind: fakeprovider.ErrorAfterApplying, Status: 502}, 1, `502 {"error":{"code":"internal_error","message":"Something went wrong on our side.","type":"invalid_request_error"}}`},
		// The contract promises that a 503 is without effect.
		{fakeprovider.Fault{Kind: fakeprovider.ErrorAfterApplying, Status: 503}, 1, `500 {"error":{"code":"internal_error","message":"Something went wrong on our side.","type":"invalid_request_error"}}`},
		{fakeprovider.Fault{Kind: fakeprovider.ErrorAfterApplying, Status: 501}, 1, `500 {"error":{"code":"internal_error","message":"Something went wrong on our side.","type":"invalid_request_error"}}`},
		{fakeprovider.Fault{Kind: fakeprovider.OwnAnswer, Answer: "provider.outcomes[4]"}, 0, `503 {"error":{"code":"not_applied","message":"Simulated: not_applied.","type":"invalid_request_error"}}`},
		{fakeprovider.Fault{Kind: fakeprovider.OwnAnswer, Answer: "maybe_ours", Apply: true}, 1, `409 {"error":{"code":"ledger_locked","message":"Simulated: maybe_ours.","type":"invalid_request_error"}}`},
		{fakeprovider.Fault{Kind: fakeprovider.OwnAnswer, Answer: "nonsense"}, 0, `500 {"error":{"code":"no_such_answer","message":"The script names an answer that is not known.","type":"invalid_request_error"}}`},
		{fakeprovider.Fault{Kind: fakeprovider.Accepted202}, 1, `202 {"id":"re_1","metadata":{"operation_id":"op_pi_1"},"payment":"pi_1","status":"pending"}`},
		{fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying}, 1, `no answer`},
		{fakeprovider.Fault{Kind: fakeprovider.DropBeforeReading}, 0, `no answer`},
		{fakeprovider.Fault{Kind: fakeprovider.NULAnswer}, 1, `200 {"amount":"4900\u0000","currency":"usd","id":"re_1","metadata":{"operation_id":"op_pi_1"},"payment":"pi_1","status":"succeeded"}`},
		{fakeprovider.Fault{Kind: fakeprovider.Empty201}, 1, `200 `},
	}
	for _, tt := range tests {
		b := pay(t, nil)
		b.p.Next(tt.fault)
		r := b.refund("k1", "pi_1")
		b.want(r, tt.says)
		b.wantEffects(tt.effects)
		if tt.fault.Kind == fakeprovider.RateLimited && tt.fault.Status == 0 && r.header.Get("Retry-After") != "2" {
			t.Errorf("Retry-After %q", r.header.Get("Retry-After"))
		}
		if t.Failed() {
			t.Fatalf("with %+v", tt.fault)
		}
	}
}

func TestSecretsStandWhereSecretsDo(t *testing.T) {
	a, b := simulator.Secret(definition.Secret{Env: "STRIPE_API_KEY"}), simulator.Secret(definition.Secret{File: "/run/secrets/key_${tenant}"})
	if a == b || len(a) != 64 || len(b) != 64 || !strings.HasPrefix(a, "simulatedSTRIPEAPIKEY") || strings.ContainsAny(b, "/_${}") {
		t.Errorf("%s, %s", a, b)
	}
	if long := simulator.Secret(definition.Secret{File: strings.Repeat("x", 100)}); len(long) != 64 {
		t.Error(long)
	}
}
