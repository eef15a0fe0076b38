package declared_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
)

const rulesOfAcme = `  auth: {bearer: {file: "/run/secrets/${tenant}"}}
keys: {place: header, name: Idempotency-Key, window: 24h, honoured_by: Idempotency-Key, replayed_by: 'header[?"replayed"].orValue("") == "true"'}
errors: {code: body.error.code, message: body.error.message}
outcomes:
  - {status: [409], code: [in_use], is: in_progress, wait: 3s}
  - {status: [409], code: [exists], is: maybe_ours}
  - {status: [400, 422], code: [key_reused], is: key_mismatch}
  - {status: [403], header: {X-Remaining: "^0$"}, is: rate_limited, because: the manual, wait: 1m}
  - {status: [500-599], code: [maintenance], is: not_applied, because: the manual, wait: 7s}
  - {status: [200], if: body.ok == false, is: rejected, because: the manual, correctable: true}
  - {status: [200], if: body.queued, is: accepted}
  - {status: [299], is: ambiguous}
  - {status: [303], is: applied}
  - {if: 'text.contains("no effect")', is: rejected, because: the manual}
rate_limit:
  signals:
    - {header: Retry-After}
    - {header: X-Reset, as: epoch_seconds}
    - {value: body.retry_ms, as: milliseconds}
  default: 9s
  max: 1h
`

// Every predicate of a rule, and everything that a provider can say.
//
// PROVIDERS requirements 11, 12, 13, 14, 16, 17
func TestClassify(t *testing.T) {
	t.Parallel()
	type head = http.Header
	p := says(t, 200, nil, "")
	a := build(t, p.URL, providerHead+rulesOfAcme, actionHead+refund)
	for name, test := range map[string]struct {
		status    int
		header    head
		body      string
		kind      actions.Kind
		code      string
		reference string
		after     time.Duration
	}{
		"success":                        {status: 201, body: `{"id":"r1","amount":1}`, kind: actions.Applied, reference: "r1"},
		"status and code":                {status: 409, body: `{"error":{"code":"in_use"}}`, kind: actions.InProgress, after: 3 * time.Second},
		"the answer's own wait":          {status: 409, header: head{"Retry-After": {"20"}}, body: `{"error":{"code":"in_use"}}`, kind: actions.InProgress, after: 20 * time.Second},
		"another code":                   {status: 409, body: `{"error":{"code":"odd"}}`, kind: actions.Ambiguous},
		"a code that is no member":       {status: 409, body: `[]`, kind: actions.Ambiguous},
		"maybe ours":                     {status: 409, body: `{"error":{"code":"exists"}}`, kind: actions.MaybeOurs},
		"key mismatch":                   {status: 422, body: `{"error":{"code":"key_reused"}}`, kind: actions.KeyMismatch},
		"header":                         {status: 403, header: head{"X-Remaining": {"0"}}, body: `{}`, kind: actions.RateLimited, after: time.Minute},
		"header does not match":          {status: 403, header: head{"X-Remaining": {"10"}}, body: `{}`, kind: actions.Rejected, code: "http_403"},
		"range":                          {status: 507, body: `{"error":{"code":"maintenance"}}`, kind: actions.NotApplied, after: 7 * time.Second},
		"500 proves nothing":             {status: 500, body: `{"error":{"code":"oops"}}`, kind: actions.Ambiguous},
		"503 proves nothing":             {status: 503, header: head{"Retry-After": {"1"}}, body: `{}`, kind: actions.Ambiguous},
		"402 proves nothing":             {status: 402, body: `{"error":{"code":"declined"}}`, kind: actions.Ambiguous},
		"error in a 200":                 {status: 200, body: `{"ok":false,"error":{"code":"no_charge","message":"No."}}`, kind: actions.Rejected, code: "no_charge"},
		"if fails":                       {status: 200, body: `{"id":"r1","amount":1}`, kind: actions.Applied, reference: "r1"},
		"accepted, in a 200":             {status: 200, body: `{"queued":true,"id":"job1"}`, kind: actions.Accepted, reference: "job1"},
		"202":                            {status: 202, header: head{"X-Reset": {"784111787"}, "Date": {"Sun, 06 Nov 1994 08:49:37 GMT"}}, body: `{"id":"job1"}`, kind: actions.Accepted, reference: "job1", after: 10 * time.Second},
		"takes back the table":           {status: 299, body: `{"id":"r1","amount":1}`, kind: actions.Ambiguous},
		"more than the table":            {status: 303, body: `{"id":"r1","amount":1}`, kind: actions.Applied, reference: "r1"},
		"by the text":                    {status: 418, body: `{"m":"there was no effect"}`, kind: actions.Rejected, code: "http_418"},
		"by the text of anybody":         {status: 418, body: `there was no effect`, kind: actions.Ambiguous},
		"maintenance of a gateway":       {status: 503, header: head{"Content-Type": {"text/html"}}, body: `{"error":{"code":"maintenance"}}`, kind: actions.Ambiguous},
		"a gateway's limit":              {status: 403, header: head{"X-Remaining": {"0"}, "Content-Type": {"text/html"}}, body: `<html>`, kind: actions.Ambiguous},
		"429 of a gateway":               {status: 429, header: head{"Content-Type": {"text/html"}}, body: `<html>`, kind: actions.RateLimited, after: 9 * time.Second},
		"429":                            {status: 429, body: `{}`, kind: actions.RateLimited, after: 9 * time.Second},
		"429 with a signal in the body":  {status: 429, body: `{"retry_ms":1500}`, kind: actions.RateLimited, after: 1500 * time.Millisecond},
		"429 with garbage":               {status: 429, header: head{"Retry-After": {"-5"}, "X-Reset": {"soon"}}, body: `{"retry_ms":"x"}`, kind: actions.RateLimited, after: 9 * time.Second},
		"429 for ever":                   {status: 429, header: head{"Retry-After": {"999999"}}, body: `{}`, kind: actions.RateLimited, after: time.Hour},
		"a proxy's refusal":              {status: 404, header: head{"Content-Type": {"text/html"}}, body: `<html>`, kind: actions.Ambiguous},
		"a refusal":                      {status: 404, body: `{"error":{"code":"no_charge"}}`, kind: actions.Rejected, code: "no_charge"},
		"a success that cannot be read":  {status: 200, header: head{"Content-Type": {"text/html"}}, body: `<html>`, kind: actions.AppliedNoReceipt},
		"a success of another kind":      {status: 200, body: `"r1"`, kind: actions.AppliedNoReceipt},
		"a success without a body":       {status: 204, kind: actions.AppliedNoReceipt},
		"a success that is half a one":   {status: 200, body: `{"id":"r1","amou`, kind: actions.AppliedNoReceipt, reference: "r1"},
		"a success without a field":      {status: 200, body: `{"id":"r1"}`, kind: actions.AppliedNoReceipt, reference: "r1"},
		"a success with two references":  {status: 200, body: `{"id":"r1","id":"r2","amount":1}`, kind: actions.AppliedNoReceipt, reference: "r1"},
		"a redirect":                     {status: 302, header: head{"Location": {"/x"}}, kind: actions.Ambiguous},
		"a redirect that was not obeyed": {status: 307, header: head{"Location": {"/x"}}, kind: actions.Rejected, code: "http_307"},
	} {
		t.Run(name, func(t *testing.T) {
			// The answers before this one teach nobody to stay away.
			c := call(t, theArgs)
			c.Tenant = name
			p.turnTo(test.status, test.header, test.body)
			o := a.Execute(t.Context(), c)
			if o.Kind != test.kind || o.Receipt.Reference != test.reference || test.code != "" && o.Failure.Code != test.code {
				t.Errorf("%s %q %q, want %s %q %q", o.Kind, o.Failure.Code, o.Receipt.Reference, test.kind, test.code, test.reference)
			}
			if o.RetryAfter != test.after && (test.after != 0 || o.Kind != actions.Ambiguous) {
				t.Errorf("after %s, want %s", o.RetryAfter, test.after)
			}
			p.one(t)
		})
	}
}

// Answers that are cut, huge or late prove nothing, or at most that it was
// applied.
//
// PROVIDERS requirements 16, 27, 28
func TestClassifyBrokenAnswers(t *testing.T) {
	t.Parallel()
	p := says(t, 200, nil, "")
	provider := providerHead + "  max_response: 4KiB\n" + exists
	a := build(t, p.URL, provider, actionHead+refund)
	const conflict = "HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\n"
	const ok = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n"
	for name, test := range map[string]struct {
		answer    func(http.ResponseWriter, *http.Request, int)
		kind      actions.Kind
		reference string
	}{
		"nothing":         {cutAfter(""), actions.Ambiguous, ""},
		"half a head":     {cutAfter("HTTP/1.1 201 Cre"), actions.Ambiguous, ""},
		"cut":             {cutAfter(ok + "Content-Length: 100\r\n\r\n{\"id\":\"r1\",\"amount\":1"), actions.AppliedNoReceipt, "r1"},
		"cut in the id":   {cutAfter(ok + "Content-Length: 100\r\n\r\n{\"id\":\"r"), actions.AppliedNoReceipt, ""},
		"cut, and parses": {cutAfter(ok + "Content-Length: 100\r\n\r\n{\"id\":\"r1\",\"amount\":1}"), actions.AppliedNoReceipt, "r1"},
		"cut by closing":  {cutAfter(ok + "Connection: close\r\n\r\n{\"id\":\"r1\",\"amount\""), actions.AppliedNoReceipt, "r1"},
		"cut refusal":     {cutAfter("HTTP/1.1 422 No\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"error\":{}}"), actions.Ambiguous, ""},
		"a conflict":      {cutAfter(conflict + "Content-Length: 15\r\n\r\n{\"exists\":true}"), actions.MaybeOurs, ""},
		"cut conflict":    {cutAfter(conflict + "Content-Length: 16\r\n\r\n{\"exists\":true}"), actions.Ambiguous, ""},
		"huge": {func(w http.ResponseWriter, _ *http.Request, _ int) {
			write(w, 201, nil, `{"id":"r1","amount":1,"x":"`+strings.Repeat("x", 5000)+`"}`)
		}, actions.AppliedNoReceipt, "r1"},
		"accepted, no body": {func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusAccepted) }, actions.Accepted, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p.turn(test.answer)
			if o := a.Execute(t.Context(), call(t, theArgs)); o.Kind != test.kind || o.Receipt.Reference != test.reference {
				t.Errorf("%+v, want %s %q", o, test.kind, test.reference)
			}
			p.one(t)
		})
	}

	t.Run("too late", func(t *testing.T) {
		hurried := build(t, p.URL, provider, actionHead+"timeout: 2s\n"+refund)
		p.turn(func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() })
		if o := hurried.Execute(t.Context(), call(t, theArgs)); o.Kind != actions.Ambiguous || o.Receipt.Reference != "" {
			t.Errorf("%+v, want %s and no reference", o, actions.Ambiguous)
		}
		p.one(t)
	})
}

// exists is a rule by the body.
const exists = "outcomes: [{status: [409], if: body.exists, is: maybe_ours}]\n"

// A provider that is not there got nothing.
func TestClassifyNotSent(t *testing.T) {
	t.Parallel()
	p := says(t, 200, nil, "")
	a := build(t, p.URL, providerHead, actionHead+refund)
	p.Close()
	if o := a.Execute(t.Context(), call(t, theArgs)); o.Kind != actions.NotApplied || o.Failure.Code != "not_sent" {
		t.Errorf("%+v", o)
	}
}

// Receipts hold what is named, sorted, with every digit, and nothing that a
// database refuses.
//
// PROVIDERS requirements 9, 15
func TestReceipt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ receipt, body, reference, want, evidence string }{
		"fields": {
			"{reference: body.data.id, fields: {z: body.data.n, a: body.data.price, list: body.data.list, gone: body.?gone, t: 'string(body.data.price)'}}",
			`{"data":{"id":90071992547409931234,"n":90071992547409931234,"price":12.50,"list":[{"b":1e2,"a":null}],"other":1}}`,
			"90071992547409931234", `{"a":12.50,"list":[{"a":null,"b":1e2}],"t":"12.50","z":90071992547409931234}`, "",
		},
		"header":  {`{reference: 'header["x-message-id"]', fields: {id: 'header["x-message-id"]'}}`, ``, "m1", `{"id":"m1"}`, ""},
		"pattern": {`{reference: 'regex.extract(body.message, "id ([0-9]+)").orValue("")', fields: {}}`, `{"message":"made with id 42."}`, "42", `{}`, ""},
		"strange text": {"{reference: body.id, fields: {t: body.t, 'a\"b': body.t, raw: text}}", `{"id":"r1","t":"a\u0000b\ud800c"}`, "r1",
			`{"a\"b":"a` + "\uFFFDb\uFFFD" + `c","raw":"{\"id\":\"r1\",\"t\":\"a\\u0000b\\ud800c\"}","t":"a` + "\uFFFDb\uFFFD" + `c"}`, ""},
		"no reference":       {"{reference: body.id, fields: {}}", `{"id":null}`, "", "", "none"},
		"broken reference":   {"{reference: body.id, fields: {}}", `{"id":1.5}`, "", "", "none"},
		"line in reference":  {"{reference: body.id, fields: {}}", `{"id":"a\nb"}`, "", "", "none"},
		"long reference":     {"{reference: body.id, fields: {}}", `{"id":"` + strings.Repeat("x", 256) + `"}`, "", "", "none"},
		"list for reference": {"{reference: body.id, fields: {}}", `{"id":[]}`, "", "", "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := says(t, 200, http.Header{"X-Message-Id": {"m1"}}, test.body)
			action := actionHead + strings.Split(refund, "receipt:")[0] + "receipt: " + test.receipt + "\n"
			o := build(t, p.URL, providerHead, action).Execute(t.Context(), call(t, theArgs))
			if (o.Kind == actions.Applied) != (test.evidence == "") || o.Receipt.Reference != test.reference || string(o.Receipt.JSON) != test.want {
				t.Errorf("%s %q %s, want %q %s", o.Kind, o.Receipt.Reference, o.Receipt.JSON, test.reference, test.want)
			}
		})
	}
}

// A success says for the audit record whether it is a stored one, and whether our
// key was taken notice of.
//
// PROVIDERS requirement 9
func TestRemarks(t *testing.T) {
	t.Parallel()
	for want, header := range map[string]http.Header{
		"":                  {"Idempotency-Key": {theKey}},
		"ignored our key":   {},
		"replayed a stored": {"Idempotency-Key": {theKey}, "Replayed": {"true"}},
	} {
		p := says(t, 200, header, `{"id":"r1","amount":1}`)
		o := build(t, p.URL, providerHead+rulesOfAcme, actionHead+refund).Execute(t.Context(), call(t, theArgs))
		if o.Kind != actions.Applied || !strings.Contains(o.Failure.Evidence, want) || (want == "") != (o.Failure.Evidence == "") {
			t.Errorf("%+v, want %q", o, want)
		}
	}
}

// A provider whose errors are no JSON objects proves its origin otherwise.
func TestOrigin(t *testing.T) {
	t.Parallel()
	const origin = `
origin: {if: 'header[?"x-request-id"].hasValue()'}
`
	for _, test := range []struct {
		header http.Header
		want   actions.Kind
	}{
		{http.Header{"X-Request-Id": {"1"}}, actions.Rejected},
		{http.Header{}, actions.Ambiguous},
	} {
		p := says(t, 400, test.header, `[{"errorCode":"BAD"}]`)
		if o := build(t, p.URL, providerHead+origin, actionHead+refund).Execute(t.Context(), call(t, theArgs)); o.Kind != test.want {
			t.Errorf("%+v, want %s", o, test.want)
		}
	}
}

// The rules of an action come before those of its provider.
func TestOutcomesOfTheAction(t *testing.T) {
	t.Parallel()
	p := says(t, 409, nil, `{"error":{"code":"exists"}}`)
	own := actionHead + refund + "outcomes: [{status: [409], code: [exists], is: rejected, because: the manual}]\n"
	if o := build(t, p.URL, providerHead+rulesOfAcme, own).Execute(t.Context(), call(t, theArgs)); o.Kind != actions.Rejected {
		t.Errorf("%+v", o)
	}
}

// What a schema cannot say is a check. One that fails to say is not passed.
func TestValidate(t *testing.T) {
	t.Parallel()
	a := build(t, "", providerHead, actionHead+refund+`
checks:
  - {if: "args.amount <= 1000 || has(args.note)", field: note, message: A big refund wants a note.}
  - {if: 'args.charge.startsWith("ch_")', field: charge, message: Want a charge.}
`)
	for args, want := range map[string]string{
		`{"charge":"ch_1","amount":1}`:                 "",
		`{"charge":"ch_1","amount":1200}`:              "note",
		`{"charge":"ch_1","amount":1200,"note":"yes"}`: "",
		`{"charge":"x","amount":1}`:                    "charge",
		`{"amount":1}`:                                 "charge",
	} {
		err := a.Validate(call(t, args).Arguments)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want+": ") {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
