package declared_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/declared"
)

// Every kind of body, byte for byte, with every place of the key.
//
// PROVIDERS requirements 2, 3, 6, 7
func TestRender(t *testing.T) {
	t.Parallel()
	const receipt = "\nreceipt: {reference: body.id}\n"
	for name, test := range map[string]struct{ provider, action, args, want string }{
		"json, key in a header": {
			provider: "keys: {place: header, name: Idempotency-Key, window: 24h}",
			action: `
request:
  method: POST
  path: /charges/${args.charge}/refunds
  headers: {X-Note: "${args.?note}", X-Tenant: "${tenant}"}
  json: {b: "${args.amount}", a: ["${args.charge}", "<&>", 1, null, true], gone: "${args.?note}", in: {op: "op ${operation.id}"}}`,
			want: `POST /charges/ch%2F1/refunds HTTP/1.1
Content-Type: application/json
Idempotency-Key: ` + theKey + `
X-Tenant: acme

{"a":["ch/1","<&>",1,null,true],"b":1200,"in":{"op":"op ` + theID + `"}}`,
			args: `{"charge":"ch/1","amount":1200}`,
		},
		// PROVIDERS requirement 4
		"numbers keep their digits": {
			action: `
request: {method: POST, path: /r, json: {n: "${args.amount}", p: "${args.price}", t: "${args.price} for ${args.amount}"}}`,
			args: `{"charge":"c","amount":90071992547409931234,"price":12.5}`,
			want: "POST /r HTTP/1.1\nContent-Type: application/json\n\n" +
				`{"n":90071992547409931234,"p":12.5,"t":"12.5 for 90071992547409931234"}`,
		},
		"form, key in a field": {
			provider: "keys: {place: field, name: extra.key, window: 24h, form: hex, prefix: ow-}",
			action: `
request:
  method: POST
  path: /r
  form: {z: "${args.amount}", note: "${args.note}", a: {b: {c: "x y"}}, tags: "${args.tags}"}`,
			args: `{"charge":"c","amount":1,"note":"ü & +","tags":["t2","t1"]}`,
			want: "POST /r HTTP/1.1\nContent-Type: application/x-www-form-urlencoded\n\n" +
				"a%5Bb%5D%5Bc%5D=x+y&extra%5Bkey%5D=ow-870b28c958b668f3b60e2a0203073419&note=%C3%BC+%26+%2B&tags%5B%5D=t2&tags%5B%5D=t1&z=1",
		},
		"form with indices": {
			action: `
request: {method: POST, path: /r, lists: indices, form: {lines: "${args.lines}"}}`,
			args: `{"charge":"c","amount":1,"lines":[{"sku":"a","n":1},{"sku":"b"}]}`,
			want: "POST /r HTTP/1.1\nContent-Type: application/x-www-form-urlencoded\n\n" +
				"lines%5B0%5D%5Bn%5D=1&lines%5B0%5D%5Bsku%5D=a&lines%5B1%5D%5Bsku%5D=b",
		},
		"query with repeated names and the key": {
			provider: "keys: {place: query, name: request_id, window: 24h, form: uuid}",
			action: `
request: {method: DELETE, path: /r, lists: repeat, query: {tag: "${args.tags}", b: "x y", note: "${args.?note}"}}`,
			args: `{"charge":"c","amount":1,"tags":["2","1"]}`,
			want: "DELETE /r?b=x%20y&request_id=870b28c9-58b6-48f3-b60e-2a0203073419&tag=2&tag=1 HTTP/1.1\n\n",
		},
		"graphql, key in the query's text": {
			provider: "keys: {place: template, window: 24h}",
			action: `
request:
  method: POST
  path: /graphql
  graphql: {query: 'mutation($i: I!) { refund(i: $i) @idempotent(key: "${key}") { id } }', variables: {i: {amount: "${args.amount}"}}}`,
			args: theArgs,
			want: "POST /graphql HTTP/1.1\nContent-Type: application/json\n\n" +
				`{"query":"mutation($i: I!) { refund(i: $i) @idempotent(key: \"` + theKey + `\") { id } }","variables":{"i":{"amount":1200}}}`,
		},
		"raw": {
			action: `
request:
  method: PUT
  path: /r
  content_type: application/xml
  raw: <r><c>${xml(args.charge)}</c></r>`,
			args: `{"charge":"<&>","amount":1}`,
			want: "PUT /r HTTP/1.1\nContent-Type: application/xml\n\n<r><c>&lt;&amp;&gt;</c></r>",
		},
		"multipart": {
			action: `
request:
  method: POST
  path: /r
  multipart: {to: "${args.tags}", subject: "${args.charge}", file: {filename: 'a"b.txt', content_type: text/plain, content: "${args.note}"}}`,
			args: `{"charge":"hi","amount":1,"tags":["a","b"],"note":"text"}`,
			want: strings.ReplaceAll(`POST /r HTTP/1.1
Content-Type: multipart/form-data; boundary=BOUNDARY

--BOUNDARY
Content-Disposition: form-data; name="file"; filename="a%22b.txt"
Content-Type: text/plain

text
--BOUNDARY
Content-Disposition: form-data; name="subject"

hi
--BOUNDARY
Content-Disposition: form-data; name="to"

a
--BOUNDARY
Content-Disposition: form-data; name="to"

b
--BOUNDARY--
`, "BOUNDARY", "onceward-b97e75ab2c5d8c975a84d4ef22a8bf69"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := says(t, 200, nil, `{"id":"r1"}`)
			a := build(t, p.URL, providerHead+test.provider, actionHead+test.action+receipt)
			c := call(t, test.args)
			got := strings.Replace(render(t, a, c), p.URL, "", 1)
			if got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
			if again := strings.Replace(render(t, a, c), p.URL, "", 1); again != got {
				t.Errorf("another time it is\n%s", again)
			}
			// What is rendered is what is sent.
			if o := a.Execute(t.Context(), c); o.Kind != actions.Applied {
				t.Fatalf("%+v", o)
			}
			sent := p.one(t)
			head, body, _ := strings.Cut(got, "\n\n")
			if !strings.HasPrefix(head, sent.method+" "+sent.target+" ") || strings.ReplaceAll(sent.body, "\r\n", "\n") != body {
				t.Errorf("sent %s %s\n%s", sent.method, sent.target, sent.body)
			}
		})
	}
}

// The path of the base URL comes before that of the request, and headers of the
// provider are on every request. Where it goes is a part of what is frozen, so
// that another region or account is not sent to later.
//
// PROVIDERS requirements 5, 10
func TestRenderWhereTheProviderIs(t *testing.T) {
	t.Parallel()
	provider := strings.Replace(providerHead, "https://api.acme.test/v2", "https://${config.sub}.acme.test/v2/", 1) + `
  headers: {Acme-Version: "2026-01-01", X-Note: from the provider}
config: {sub: {description: Subdomain., value: eu}}
`
	a := build(t, "", provider, actionHead+strings.Replace(refund, "path: /refunds", "path: /refunds\n  headers: {x-note: own}", 1))
	got := render(t, a, call(t, theArgs))
	if !strings.HasPrefix(got, "POST https://eu.acme.test/v2/refunds HTTP/1.1\nAcme-Version: 2026-01-01\nContent-Type: application/json\nX-Note: own\n\n{") {
		t.Error(got)
	}
}

// What cannot be rendered is not sent, and is refused for good.
//
// PROVIDERS requirement 4
func TestNotSendable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ request, args string }{
		"missing argument":            {`{method: POST, path: /r, json: {n: "${args.note}"}}`, theArgs},
		"missing in the path":         {`{method: POST, path: "/r/${args.note}"}`, theArgs},
		"empty in the path":           {`{method: POST, path: "/r/${args.charge}"}`, `{"charge":"","amount":1}`},
		"path traversal":              {`{method: POST, path: "/r/${args.charge}"}`, `{"charge":"..","amount":1}`},
		"path traversal in two parts": {`{method: POST, path: "/r/${args.charge}${args.charge}"}`, `{"charge":".","amount":1}`},
		"line break in a header":      {`{method: POST, path: /r, headers: {X: "${args.charge}"}}`, `{"charge":"a\r\nX-Evil: 1","amount":1}`},
		"nothing in the middle":       {`{method: POST, path: /r, json: {n: "a ${args.?note}"}}`, theArgs},
		"computed double":             {`{method: POST, path: /r, json: {n: "${double(args.price) * 1.1}"}}`, `{"charge":"c","amount":1,"price":2.5}`},
		"null in a form":              {`{method: POST, path: /r, form: {n: null}}`, theArgs},
		"objects in a bracket list":   {`{method: POST, path: /r, form: {n: "${args.lines}"}}`, `{"charge":"c","amount":1,"lines":[{"a":1}]}`},
		"boundary in a value": {`{method: POST, path: /r, multipart: {n: "${args.charge}"}}`,
			`{"charge":"x\r\n--onceward-b97e75ab2c5d8c975a84d4ef22a8bf69\r\n","amount":1}`},
		"line break in a file's type": {`{method: POST, path: /r, multipart: {n: {content: x, content_type: "${args.charge}"}}}`, `{"charge":"a\nb","amount":1}`},
		"another origin":              {`{method: POST, path: "https://evil.test/r"}`, theArgs},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := says(t, 200, nil, `{"id":"r1"}`)
			a := build(t, p.URL, providerHead, actionHead+"\nrequest: "+test.request+"\nreceipt: {reference: body.id}\n")
			o := a.Execute(t.Context(), call(t, test.args))
			if o.Kind != actions.Rejected || o.Failure.Code != "not_sendable" || len(p.requests()) != 0 {
				t.Errorf("%+v after %d requests", o, len(p.requests()))
			}
		})
	}
}

// A call without a key is not sent where the provider wants one.
func TestNoKey(t *testing.T) {
	t.Parallel()
	p := says(t, 200, nil, `{"id":"r1"}`)
	a := build(t, p.URL, providerHead+"keys: {place: header, name: Idempotency-Key, window: 24h}", actionHead+refund)
	c := call(t, theArgs)
	c.ProviderKey = ""
	if o := a.Execute(t.Context(), c); o.Kind != actions.Rejected || len(p.requests()) != 0 {
		t.Errorf("%+v", o)
	}
}

// An action on a second host of the provider goes there, and to the player of the
// provider where there is one.
func TestSecondHost(t *testing.T) {
	t.Parallel()
	p := says(t, 200, nil, `{"id":"r1","amount":1}`)
	provider := providerHead + "  hosts: [https://files.acme.test]\n"
	action := actionHead + strings.Replace(refund, "path: /refunds", "path: https://files.acme.test/up/${args.charge}", 1)
	if got := render(t, build(t, "", provider, action), call(t, theArgs)); !strings.HasPrefix(got, "POST https://files.acme.test/up/ch_1 ") {
		t.Error(got)
	}
	if o := build(t, p.URL, provider, action).Execute(t.Context(), call(t, theArgs)); o.Kind != actions.Applied || p.one(t).target != "/up/ch_1" {
		t.Errorf("%+v", o)
	}
}

// Requests go to the provider's origins and to public addresses alone, also after
// names were resolved.
//
// PROVIDERS requirement 28
func TestEgress(t *testing.T) {
	t.Parallel()
	p := says(t, 307, http.Header{"Location": {"http://127.0.0.1:1/"}}, `{}`)
	port := p.URL[strings.LastIndex(p.URL, ":"):]
	const private = "  private_networks: [127.0.0.0/8, \"::1/128\"]\n"
	for name, test := range map[string]struct {
		more, base string
		kind       actions.Kind
		requests   int
	}{
		"private address":               {"", "https://127.0.0.1" + port, actions.Rejected, 0},
		"name with a private address":   {"", "https://localhost" + port, actions.Rejected, 0},
		"named, and a redirect at once": {private, p.URL, actions.Rejected, 1},
	} {
		provider, action := load(t, providerHead+test.more, actionHead+refund)
		provider.HTTP.BaseURL = test.base // files that say so are not loaded
		o := options("")
		o.PrivateNetworks = nil
		conn, err := declared.NewConnection(provider, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		a, err := declared.HTTP(conn, action)
		if err != nil {
			t.Fatal(err)
		}
		before := len(p.requests())
		got := a.Execute(t.Context(), call(t, theArgs))
		if n := len(p.requests()) - before; got.Kind != test.kind || n != test.requests {
			t.Errorf("%s: %+v after %d requests", name, got, n)
		}
	}
}
