package declared_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
)

const (
	listOf = `
lookups:
  - name: list
    request: {method: GET, path: /refunds, query: {charge: "${args.charge}", since: "${unix(first_sent)}", page: "${page}"}}
    items: body.data
    match: item.metadata.operation_id == operation.id
    absent: body.error.code == "no_such_charge"
    pending: item.status == "pending"
    failed: item.status == "failed"
    pages: {next: "body.?next", max: 3}
    strength: strong
    every: 30s
    absence: {settle_time: 1m}
`
	byReference = `
lookups:
  - name: by_id
    needs: reference
    request: {method: GET, path: "/refunds/${reference}"}
    item: body
    pending: item.status == "pending"
    failed: item.status == "failed"
    strength: strong
`
	byName = `
lookups:
  - name: by_name
    request: {method: GET, path: "/named/${args.charge}"}
    item: body.?object
    ours: item.metadata.operation_id == operation.id
    absent: status == 404 && body.error.code == "not_found"
    strength: strong
    absence: {settle_time: 1m}
`
	errorsOfAcme = `
errors: {code: body.error.code, message: body.error.message}
outcomes:
  - {if: body.ok == false, is: rejected, because: the manual}
  - {status: [403], code: [slow_down], is: rate_limited, because: the manual, wait: 30s}
`
)

// object is a refund of an operation.
func object(id, operation, status string) string {
	return fmt.Sprintf(`{"id":%q,"amount":5,"status":%q,"metadata":{"operation_id":%q}}`, id, status, operation)
}

func data(objects ...string) string { return `{"data":[` + strings.Join(objects, ",") + `]}` }

func query(t *testing.T, reference string) actions.Query {
	t.Helper()
	sent := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	return actions.Query{Call: call(t, theArgs), ProviderReference: reference, FirstSentAt: sent, LastSentAt: sent.Add(time.Minute)}
}

func lookUp(t *testing.T, a actions.Adapter, q actions.Query) actions.Finding {
	t.Helper()
	looker, ok := a.(actions.Looker)
	if !ok {
		t.Fatal("it does not look up")
	}
	return looker.Lookup(t.Context(), q)
}

// Every answer to one look-up.
//
// PROVIDERS requirements 19, 20, 21, 24
func TestLookup(t *testing.T) {
	t.Parallel()
	ours, other := object("r1", theID, "done"), object("r9", "another", "done")
	type head = http.Header
	p, adapters := says(t, 200, nil, ""), map[string]actions.Adapter{}
	html := head{"Content-Type": {"text/html"}}
	for name, test := range map[string]struct {
		lookups, reference string
		status             int
		header             head
		body               string
		kind               actions.FindingKind
		references         []string // of Several; of Found the receipt's
		after              time.Duration
	}{
		"found":                     {lookups: listOf, body: data(other, ours), kind: actions.Found, references: []string{"r1"}},
		"nothing":                   {lookups: listOf, body: data(other), kind: actions.Absent},
		"an empty list":             {lookups: listOf, body: data(), kind: actions.Absent},
		"several":                   {lookups: listOf, body: data(ours, object("r2", theID, "done")), kind: actions.Several, references: []string{"r1", "r2"}},
		"the same twice":            {lookups: listOf, body: data(ours, ours), kind: actions.Found, references: []string{"r1"}},
		"pending":                   {lookups: listOf, body: data(object("r1", theID, "pending")), kind: actions.Inconclusive, after: 30 * time.Second},
		"ended":                     {lookups: listOf, body: data(object("r1", theID, "failed")), kind: actions.Ended},
		"one ended, one not":        {lookups: listOf, body: data(object("r1", theID, "failed"), object("r2", theID, "done")), kind: actions.Found, references: []string{"r2"}},
		"both ended":                {lookups: listOf, body: data(object("r1", theID, "failed"), object("r2", theID, "failed")), kind: actions.Ended},
		"no status":                 {lookups: listOf, body: data(`{"id":"r1","amount":1,"metadata":{"operation_id":"` + theID + `"}}`), kind: actions.Inconclusive, after: 30 * time.Second},
		"no amount":                 {lookups: listOf, body: data(`{"id":"r1","status":"done","metadata":{"operation_id":"` + theID + `"}}`), kind: actions.Inconclusive},
		"the provider says none":    {lookups: listOf, status: 404, body: `{"error":{"code":"no_such_charge"}}`, kind: actions.Absent},
		"another 404":               {lookups: listOf, status: 404, body: `{"error":{"code":"no_such_path"}}`, kind: actions.Inconclusive},
		"an empty 404":              {lookups: listOf, status: 404, kind: actions.Inconclusive},
		"none, says a proxy":        {lookups: listOf, status: 404, header: html, body: `{"error":{"code":"no_such_charge"}}`, kind: actions.Inconclusive},
		"none, says a 500":          {lookups: listOf, status: 500, body: `{"error":{"code":"no_such_charge"}}`, kind: actions.Inconclusive},
		"none, says a redirect":     {lookups: listOf, status: 302, body: `{"error":{"code":"no_such_charge"}}`, kind: actions.Inconclusive},
		"an error":                  {lookups: listOf, status: 503, body: data(), kind: actions.Inconclusive},
		"an empty list of a proxy":  {lookups: listOf, header: html, body: data(), kind: actions.Inconclusive},
		"a redirect":                {lookups: listOf, status: 302, header: head{"Location": {"/refunds"}}, body: data(), kind: actions.Inconclusive},
		"unauthorised":              {lookups: listOf, status: 401, body: `{}`, kind: actions.Inconclusive},
		"204":                       {lookups: listOf, status: 204, kind: actions.Inconclusive},
		"a part of a list":          {lookups: listOf, status: 206, body: data(), kind: actions.Inconclusive},
		"half a list":               {lookups: listOf, body: `{"data":[`, kind: actions.Inconclusive},
		"no list":                   {lookups: listOf, body: `{"items":[]}`, kind: actions.Inconclusive},
		"an object for a list":      {lookups: listOf, body: `{"data":{}}`, kind: actions.Inconclusive},
		"an error in a 200":         {lookups: listOf, body: `{"ok":false,"data":[]}`, kind: actions.Inconclusive},
		"rate limited":              {lookups: listOf, status: 429, header: head{"Retry-After": {"40"}}, body: `{}`, kind: actions.Inconclusive, after: 40 * time.Second},
		"rate limited with a 403":   {lookups: listOf, status: 403, body: `{"error":{"code":"slow_down"}}`, kind: actions.Inconclusive, after: 30 * time.Second},
		"a page that never ends":    {lookups: listOf, body: `{"data":[],"next":"same"}`, kind: actions.Inconclusive},
		"found, and it goes on":     {lookups: listOf, body: `{"data":[` + ours + `],"next":"same"}`, kind: actions.Inconclusive},
		"by reference":              {lookups: byReference, reference: "r1", body: ours, kind: actions.Found, references: []string{"r1"}},
		"by reference, pending":     {lookups: byReference, reference: "r1", body: object("r1", theID, "pending"), kind: actions.Inconclusive},
		"by reference, ended":       {lookups: byReference, reference: "r1", body: object("r1", theID, "failed"), kind: actions.Ended},
		"by reference, gone":        {lookups: byReference, reference: "r1", status: 404, body: `{"error":{"code":"not_found"}}`, kind: actions.Inconclusive},
		"by reference, another one": {lookups: byReference, reference: "r1", body: object("r2", theID, "done"), kind: actions.Inconclusive},
		"by reference, none":        {lookups: byReference, body: ours, kind: actions.Inconclusive},
		"by name":                   {lookups: byName, body: `{"object":` + ours + `}`, kind: actions.Found, references: []string{"r1"}},
		"by name, somebody else's":  {lookups: byName, body: `{"object":` + other + `}`, kind: actions.Foreign, references: []string{"r9"}},
		"by name, nobody can tell":  {lookups: byName, body: `{"object":{"id":"r9","amount":1}}`, kind: actions.Inconclusive},
		"by name, free":             {lookups: byName, status: 404, body: `{"error":{"code":"not_found"}}`, kind: actions.Absent},
		"by name, free in a 200":    {lookups: byName, body: `{"object":null}`, kind: actions.Absent},
		"by name, left out":         {lookups: byName, body: `{}`, kind: actions.Absent},
		"heuristic":                 {lookups: heuristically(listOf), body: data(ours), kind: actions.Inconclusive},
		"heuristic, several":        {lookups: heuristically(listOf), body: data(ours, object("r2", theID, "done")), kind: actions.Inconclusive},
		"heuristic, ended":          {lookups: heuristically(listOf), body: data(object("r1", theID, "failed")), kind: actions.Inconclusive},
		"heuristic, nothing":        {lookups: heuristically(listOf), body: data(), kind: actions.Inconclusive},
		"no absence":                {lookups: without(listOf, "absence"), body: data(), kind: actions.Inconclusive},
		"several mean nothing":      {lookups: listOf + "    several: inconclusive\n", body: data(ours, object("r2", theID, "done")), kind: actions.Inconclusive},
		"not what was asked for": {lookups: byName + "    match: item.id == \"x\"\n", body: `{"object":` + ours + `}`,
			kind: actions.Inconclusive},
	} {
		t.Run(name, func(t *testing.T) {
			if test.status == 0 {
				test.status = 200
			}
			p.turnTo(test.status, test.header, test.body)
			if adapters[test.lookups] == nil {
				adapters[test.lookups] = build(t, p.URL, providerHead+errorsOfAcme, actionHead+refund+test.lookups)
			}
			f := lookUp(t, adapters[test.lookups], query(t, test.reference))
			references := f.References
			if f.Kind == actions.Found {
				references = []string{f.Receipt.Reference}
				if string(f.Receipt.JSON) != `{"amount":5,"id":"`+f.Receipt.Reference+`"}` {
					t.Errorf("receipt %s", f.Receipt.JSON)
				}
			}
			if f.Kind == actions.Ended {
				references = nil
				if f.Failure.Code == "" || f.Failure.Message == "" || f.Failure.Evidence == "" {
					t.Errorf("%+v", f.Failure)
				}
			}
			if f.Kind != test.kind || !slices.Equal(references, test.references) || f.After != test.after || f.Detail == "" {
				t.Errorf("%+v, want %s %v after %s", f, test.kind, test.references, test.after)
			}
			if len(p.requests()) > 3 {
				t.Errorf("%d requests", len(p.requests()))
			}
			for _, r := range p.requests() {
				if r.method != http.MethodGet {
					t.Errorf("a look-up made a %s", r.method)
				}
			}
		})
	}
}

// heuristically makes a look-up one that proves nothing.
func heuristically(lookups string) string {
	return strings.Replace(without(lookups, "absence"), "strength: strong", "strength: heuristic", 1)
}

// without takes the line of a field away.
func without(lookups, field string) string {
	lines := slices.DeleteFunc(strings.Split(lookups, "\n"), func(line string) bool {
		return strings.HasPrefix(strings.TrimSpace(line), field+":")
	})
	return strings.Join(lines, "\n")
}

// A list is read to its end, whatever names the next page.
//
// PROVIDERS requirement 19
func TestLookupPages(t *testing.T) {
	t.Parallel()
	ours := object("r1", theID, "done")
	pages := []string{data(object("a", "x", "done")), data(object("b", "y", "done")), data(ours)}
	for name, test := range map[string]struct {
		next   string
		answer func(w http.ResponseWriter, r *http.Request, n int)
		want   []string
	}{
		"cursor": {
			next: `body.?cursor`,
			answer: func(w http.ResponseWriter, _ *http.Request, n int) {
				cursor := []string{`"c 1"`, `17`, `null`}[n]
				write(w, 200, nil, strings.TrimSuffix(pages[n], "}")+`,"cursor":`+cursor+`}`)
			},
			want: []string{"/refunds?charge=ch_1&since=1795953600", "/refunds?charge=ch_1&page=c%201&since=1795953600", "/refunds?charge=ch_1&page=17&since=1795953600"},
		},
		"number": {
			next: `'body.data[0].id == "r1" ? optional.none() : optional.of(page.orValue(1) + 1)'`,
			answer: func(w http.ResponseWriter, _ *http.Request, n int) {
				write(w, 200, nil, pages[n])
			},
			want: []string{"/refunds?charge=ch_1&since=1795953600", "/refunds?charge=ch_1&page=2&since=1795953600", "/refunds?charge=ch_1&page=3&since=1795953600"},
		},
		"link": {
			next: "link",
			answer: func(w http.ResponseWriter, r *http.Request, n int) {
				header := http.Header{"Link": {`<http://` + r.Host + `/x>; rel="prev"`, fmt.Sprintf(`</refunds?p=%d,1>; title="a, b"; rel="last next"`, n+2)}}
				if n == 2 {
					header = http.Header{"Link": {`</refunds>; rel=first`}}
				}
				write(w, 200, header, pages[n])
			},
			want: []string{"/refunds?charge=ch_1&since=1795953600", "/refunds?p=2,1", "/refunds?p=3,1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := serve(t, test.answer)
			lookups := strings.Replace(listOf, `pages: {next: "body.?next", max: 3}`, "pages: {next: "+test.next+"}", 1)
			f := lookUp(t, build(t, p.URL, providerHead, actionHead+refund+lookups), query(t, ""))
			var got []string
			for _, r := range p.requests() {
				got = append(got, r.target)
			}
			if f.Kind != actions.Found || f.Receipt.Reference != "r1" || !slices.Equal(got, test.want) {
				t.Errorf("%+v, asked %q, want %q", f, got, test.want)
			}
		})
	}
}

// A page that leads away, or a second one that fails, leaves the whole in doubt.
func TestLookupPagesFail(t *testing.T) {
	t.Parallel()
	p := says(t, 200, nil, "")
	a := build(t, p.URL, providerHead, actionHead+refund+listOf)
	for name, second := range map[string]func(w http.ResponseWriter){
		"an error":         func(w http.ResponseWriter) { write(w, 500, nil, `{}`) },
		"not the provider": func(w http.ResponseWriter) { write(w, 200, http.Header{"Content-Type": {"text/html"}}, data()) },
		"no list":          func(w http.ResponseWriter) { write(w, 200, nil, `{}`) },
	} {
		p.turn(func(w http.ResponseWriter, _ *http.Request, n int) {
			if n == 0 {
				write(w, 200, nil, `{"data":[],"next":"2"}`)
				return
			}
			second(w)
		})
		if f := lookUp(t, a, query(t, "")); f.Kind != actions.Inconclusive || len(p.requests()) != 2 {
			t.Errorf("%s: %+v", name, f)
		}
	}
	p = says(t, 200, http.Header{"Link": {`<https://evil.test/refunds>; rel="next"`}}, data())
	lookups := strings.Replace(listOf, `"body.?next"`, "link", 1)
	if f := lookUp(t, build(t, p.URL, providerHead, actionHead+refund+lookups), query(t, "")); f.Kind != actions.Inconclusive || !strings.Contains(f.Detail, "origin") {
		t.Errorf("a link to another origin: %+v", f)
	}
}

// A search by POST is sent once, whatever happens, and errors of GraphQL prove
// nothing.
func TestLookupByPost(t *testing.T) {
	t.Parallel()
	const search = `
lookups:
  - name: search
    request:
      method: POST
      path: /graphql
      graphql: {query: "query($op: ID!) { refunds(op: $op) { id } }", variables: {op: "${operation.id}"}}
    items: body.data.refunds
    match: item.op == operation.id
    strength: strong
    absence: {settle_time: 1m}
`
	ours := `{"id":"r1","amount":5,"op":"` + theID + `"}`
	p := says(t, 200, nil, "")
	a := build(t, p.URL, providerHead, actionHead+refund+search)
	for body, want := range map[string]actions.FindingKind{
		`{"data":{"refunds":[` + ours + `]}}`:                              actions.Found,
		`{"data":{"refunds":[]}}`:                                          actions.Absent,
		`{"data":{"refunds":[]},"errors":[{"message":"half of it"}]}`:      actions.Inconclusive,
		`{"data":null,"errors":[{"message":"no"}]}`:                        actions.Inconclusive,
		`{"data":{"refunds":[` + ours + `]},"errors":[{"message":"odd"}]}`: actions.Inconclusive,
	} {
		p.turnTo(200, nil, body)
		f := lookUp(t, a, query(t, ""))
		if sent := p.one(t); f.Kind != want || sent.body != `{"query":"query($op: ID!) { refunds(op: $op) { id } }","variables":{"op":"`+theID+`"}}` {
			t.Errorf("%s: %+v, asked %s", body, f, sent.body)
		}
	}
}

// Several look-ups: the first that knows decides, and absence needs all of them
// to be sure.
//
// PROVIDERS requirement 19
func TestLookupsTogether(t *testing.T) {
	t.Parallel()
	ours, none, broken := `{"data":[`+object("r1", theID, "done")+`]}`, data(), ""
	two := `
lookups:
  - {name: one, request: {method: GET, path: /one}, items: body.data, match: item.metadata.operation_id == operation.id, strength: strong, absence: {settle_time: 1m}}
  - {name: two, request: {method: GET, path: /two}, items: body.data, match: item.metadata.operation_id == operation.id, strength: indexed}
`
	p := says(t, 200, nil, "")
	a := build(t, p.URL, providerHead, actionHead+refund+two)
	for _, test := range []struct {
		one, two string
		kind     actions.FindingKind
		requests int
	}{
		{ours, ours, actions.Found, 1},
		{none, ours, actions.Found, 2},
		{broken, ours, actions.Found, 2},
		{none, none, actions.Absent, 2},
		{none, broken, actions.Inconclusive, 2},
		{broken, none, actions.Inconclusive, 2},
	} {
		p.turn(func(w http.ResponseWriter, r *http.Request, _ int) {
			if r.URL.Path == "/one" {
				write(w, 200, nil, test.one)
				return
			}
			write(w, 200, nil, test.two)
		})
		f := lookUp(t, a, query(t, ""))
		if f.Kind != test.kind || len(p.requests()) != test.requests {
			t.Errorf("%q, %q: %+v after %d requests", test.one, test.two, f, len(p.requests()))
		}
	}
}

// A look-up that has no time left, or no provider, is inconclusive; credentials
// are on it as on a write.
func TestLookupTransport(t *testing.T) {
	t.Parallel()
	p := repeats(t, 500)
	a := build(t, p.URL, withAuth("query: {name: api_key, secret: {env: A}}")+echoing, actionHead+refund+listOf)
	f := lookUp(t, a, query(t, ""))
	if f.Kind != actions.Inconclusive || !strings.Contains(p.one(t).target, theSecret) {
		t.Errorf("%+v", f)
	}
	wantNoSecret(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if f := a.(actions.Looker).Lookup(ctx, query(t, "")); f.Kind != actions.Inconclusive {
		t.Errorf("%+v", f)
	}
	p.Close()
	if f := lookUp(t, a, query(t, "")); f.Kind != actions.Inconclusive {
		t.Errorf("%+v", f)
	}
}

// A cut answer proves no absence, however the provider proves its origin.
func TestLookupCut(t *testing.T) {
	t.Parallel()
	p := serve(t, cutAfter("HTTP/1.1 404 No\r\nX-Request-Id: 1\r\nContent-Length: 100\r\n\r\nnothing"))
	lookups := strings.Replace(listOf, `body.error.code == "no_such_charge"`, `text.startsWith("nothing")`, 1)
	a := build(t, p.URL, providerHead+"origin: {if: 'header[?\"x-request-id\"].hasValue()'}\n", actionHead+refund+lookups)
	if f := lookUp(t, a, query(t, "")); f.Kind != actions.Inconclusive {
		t.Errorf("%+v", f)
	}
	p.turn(cutAfter("HTTP/1.1 404 No\r\nX-Request-Id: 1\r\nContent-Length: 7\r\n\r\nnothing"))
	if f := lookUp(t, a, query(t, "")); f.Kind != actions.Absent {
		t.Errorf("a whole one: %+v", f)
	}
}
