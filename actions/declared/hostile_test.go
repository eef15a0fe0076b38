package declared_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/declared"
	"github.com/onceward/onceward/actions/definition"
)

// A receipt that is made of the call would be there whatever the answer was: a
// network's gateway that says 200 must not make one.
func TestReceiptOfTheCall(t *testing.T) {
	t.Parallel()
	request := strings.NewReplacer("reference: body.id", "reference: args.charge + \"/done\"", "{id: body.id, amount: body.amount}", "{charge: args.charge}").Replace(refund)
	for name, test := range map[string]struct {
		provider string
		status   int
		header   http.Header
		body     string
		kind     actions.Kind
	}{
		"no content":               {status: 204, kind: actions.Applied},
		"the provider's object":    {status: 200, body: `{}`, kind: actions.Applied},
		"a page":                   {status: 200, header: http.Header{"Content-Type": {"text/html"}}, body: "<html>", kind: actions.AppliedNoReceipt},
		"nothing":                  {status: 200, kind: actions.AppliedNoReceipt},
		"a proof of its own":       {provider: "origin: {if: 'header[?\"x-id\"].hasValue()'}\n", status: 200, header: http.Header{"X-Id": {"1"}}, body: "ok", kind: actions.Applied},
		"without the proof of own": {provider: "origin: {if: 'header[?\"x-id\"].hasValue()'}\n", status: 200, body: `{}`, kind: actions.AppliedNoReceipt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := says(t, test.status, test.header, test.body)
			o := build(t, p.URL, providerHead+test.provider, actionHead+request).Execute(t.Context(), call(t, theArgs))
			if o.Kind != test.kind || (o.Receipt.Reference != "") != (test.kind == actions.Applied) {
				t.Errorf("%+v, want %s", o, test.kind)
			}
		})
	}
}

// Two parameters of one name would leave it to the provider which of them it
// takes: an argument could put another operation id, amount or key beside ours.
func TestParametersThatPassForOthers(t *testing.T) {
	t.Parallel()
	const head = `
arguments:
  type: object
  properties: {extra: {type: object}, tags: {type: array}}
examples: [{arguments: {}}]
`
	before, _, _ := strings.Cut(actionHead, "arguments:")
	action := before + head
	for name, test := range map[string]struct {
		keys, request, args string
		sent                string // "" is: nothing
	}{
		"a form":  {request: `form: {"metadata[operation_id]": "${operation.id}", metadata: "${args.extra}"}`, args: `{"extra":{"operation_id":"x"}}`},
		"a query": {request: `query: {"a[b]": 1, a: "${args.extra}"}`, args: `{"extra":{"b":2}}`},
		"a key":   {keys: "keys: {place: query, name: 'a[key]'}\n", request: `query: {a: "${args.extra}"}`, args: `{"extra":{"key":"x"}}`},
		"a key of a form": {keys: "keys: {place: field, name: 'a.key'}\n", request: `form: {a: {b: 1}, "a[key]": "${args.extra.key}"}`,
			args: `{"extra":{"key":"x"}}`},
		"a key that is there":         {keys: "keys: {place: query, name: k}\n", request: `query: {k: "${args.extra.key}"}`, args: `{"extra":{"key":"x"}}`},
		"a member with brackets":      {request: `form: {a: "${args.extra}"}`, args: `{"extra":{"b][c":1}}`},
		"a list and a member":         {request: `form: {"a[]": 1, a: "${args.tags}"}`, args: `{"tags":["x"]}`},
		"other members":               {request: `form: {"a[b]": 1, a: "${args.extra}"}`, args: `{"extra":{"c":2}}`, sent: "a%5Bb%5D=1&a%5Bc%5D=2"},
		"what the items of lists are": {request: `form: {a: "${args.tags}"}`, args: `{"tags":["x","x"]}`, sent: "a%5B%5D=x&a%5B%5D=x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := says(t, 200, nil, `{"id":"r1"}`)
			a := build(t, p.URL, providerHead, action+test.keys+"request: {method: POST, path: /r, "+test.request+"}\nreceipt: {reference: body.id}\n")
			o := a.Execute(t.Context(), call(t, test.args))
			if test.sent == "" {
				if o.Failure.Code != "not_sendable" || len(p.requests()) != 0 {
					t.Errorf("%+v", o)
				}
				return
			}
			if got := p.one(t).body; got != test.sent {
				t.Errorf("sent %s, want %s", got, test.sent)
			}
		})
	}
}

// What cannot be compared is no find, and proves no absence: it may be the effect.
func TestLookupThatCannotCompare(t *testing.T) {
	t.Parallel()
	ours, odd := object("r1", theID, "done"), `{"id":"r8","amount":5,"status":"done"}`
	noEnd := strings.Replace(without(listOf, "pending"), `item.status == "failed"`, `item.ended.why == "failed"`, 1)
	for name, test := range map[string]struct {
		lookups, body string
		kind          actions.FindingKind
	}{
		"one that cannot":              {listOf, data(odd), actions.Inconclusive},
		"one that cannot, and ours":    {listOf, data(odd, ours), actions.Found},
		"one that cannot, and another": {listOf, data(object("r2", "x", "done"), odd), actions.Inconclusive},
		"whether it ended":             {without(noEnd, "every"), data(ours), actions.Inconclusive},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := says(t, 200, nil, test.body)
			if f := lookUp(t, build(t, p.URL, providerHead, actionHead+refund+test.lookups), query(t, "")); f.Kind != test.kind {
				t.Errorf("%+v, want %s", f, test.kind)
			}
		})
	}
}

// Faults that only a hostile eye sees in a file.
func TestCheckHostile(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ provider, action, want string }{
		"an object that is always ours": {action: refund + without(byName, "ours"), want: "lookups[0]: wants a match, ours, or needs: reference"},
		"a rule whose answer a gateway could give": {
			provider: "outcomes:\n  - {status: [503], is: not_applied, because: x, simulate: {status: 503, text: busy}}\n", action: refund,
			want: "outcomes[0].simulate: this answer fits, and does not prove that the provider gave it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectFaults(t, test.provider, actionHead+test.action, test.want)
		})
	}
}

// What a token endpoint says may be what we sent.
func TestTokenErrorTellsNothing(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	b.answer = func(w http.ResponseWriter, n int) bool {
		write(w, 400, nil, `{"error":"`+[]string{"invalid_grant", "PW-of-acme"}[n-1]+`"}`)
		return true
	}
	a := build(t, b.URL, withAuth(oauth), actionHead+refund, func(o *declared.Options) { o.Secret = secretsByName })
	if o := a.Execute(t.Context(), call(t, theArgs)); o.Kind != actions.NotApplied || !strings.Contains(o.Failure.Evidence, "400 (invalid_grant)") {
		t.Errorf("%+v", o)
	}
	if o := a.Execute(t.Context(), call(t, theArgs)); o.Kind != actions.NotApplied || strings.Contains(o.Failure.Evidence, "PW-of") {
		t.Errorf("%+v", o)
	}
}

// Writes, look-ups and token calls are traced, each once.
func TestTracer(t *testing.T) {
	t.Parallel()
	b, recorder := newBank(t), tracetest.NewSpanRecorder()
	tracer := trace.NewTracerProvider(trace.WithSpanProcessor(recorder)).Tracer("test")
	a := build(t, b.URL, withAuth(oauth), actionHead+refund+listOf, func(o *declared.Options) { o.Secret, o.Tracer = secretsByName, tracer })
	a.Execute(t.Context(), call(t, theArgs))
	lookUp(t, a, query(t, ""))
	var names []string
	for _, span := range recorder.Ended() {
		names = append(names, span.Name())
	}
	if want := []string{http.MethodPost, http.MethodPost, http.MethodGet}; !slices.Equal(names, want) {
		t.Fatalf("spans: %v, want %v", names, want)
	}
	if ended := recorder.Ended(); ended[0].Parent().SpanID() != ended[1].SpanContext().SpanID() {
		t.Error("the token call is not a part of the write's span")
	}
}

// A list without end is no list that was read.
func TestLookupOfTooMany(t *testing.T) {
	t.Parallel()
	other := object("", "x", "done")
	p := says(t, 200, nil, data(strings.Repeat(other+",", 10_000)+other))
	a := build(t, p.URL, providerHead+"  max_response: 4MiB\n", actionHead+refund+listOf)
	if f := lookUp(t, a, query(t, "")); f.Kind != actions.Inconclusive || !strings.Contains(f.Detail, "longer than 10000") {
		t.Errorf("%+v", f)
	}
}

// The token of one tenant is never used for another, where each has its own.
//
// PROVIDERS requirement 1
func TestOAuth2TokensOfTenants(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	own := strings.NewReplacer("{env: ID}", `{file: "/run/${tenant}/id"}`).Replace(oauth)
	a := build(t, b.URL, withAuth(own), actionHead+refund, func(o *declared.Options) { o.Secret = secretsByName })
	for _, tenant := range []string{"acme", "globex", "acme"} {
		c := call(t, theArgs)
		c.Tenant = tenant
		if o := a.Execute(t.Context(), c); o.Kind != actions.Applied {
			t.Errorf("%s: %+v", tenant, o)
		}
	}
	if used := strings.Join(b.used(t), " "); used != "tok1 tok2 tok1" {
		t.Errorf("used %s", used)
	}
}

// All tenants share the connections that speak no HTTP.
func TestCheckSharedSecrets(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ provider, want string }{
		"sql":       {"adapter: sql\nsql: {url: {file: '/run/${tenant}'}}", "sql.url: cannot be the tenant's own"},
		"smtp":      {"adapter: smtp\nsmtp: {host: mail.test, user: {env: U}, password: {env: 'P_${TENANT}'}}", "smtp.password: cannot be the tenant's own"},
		"of no one": {"adapter: smtp\nsmtp: {host: mail.test, user: {env: U}, password: {env: P}}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, err := definition.LoadFS(fstest.MapFS{"p.yaml": {Data: []byte("kind: provider\nname: acme\nversion: \"1\"\n" + test.provider)}}, "p.yaml")
			if err != nil {
				t.Fatal(err)
			}
			faults, err := declared.Check(set)
			if err != nil {
				t.Fatal(err)
			}
			if len(faults) > 1 || (len(faults) == 1) != (test.want != "") || len(faults) == 1 && !strings.Contains(faults[0].String(), test.want) {
				t.Errorf("%v, want %q", faults, test.want)
			}
		})
	}
}
