package httpaction_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/httpaction"
)

func classifier(t testing.TB, overrides ...httpaction.Rule) *httpaction.Classifier {
	t.Helper()
	c, err := httpaction.NewClassifier(httpaction.Rules{
		Receipt:   httpaction.JSONReceipt("id", "id", "amount"),
		Error:     httpaction.JSONError("error.code", "error.message"),
		Overrides: overrides,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answered is a complete exchange.
func answered(status int, contentType, body string) httpaction.Exchange {
	return httpaction.Exchange{
		BytesOffered: 100, Status: status, Header: http.Header{"Content-Type": {contentType}}, Body: []byte(body),
		Complete: true, Phase: httpaction.PhaseDone, Evidence: fmt.Sprintf("HTTP %d %s", status, contentType),
	}
}

const (
	jsonType = "application/json; charset=utf-8"
	htmlType = "text/html"
	failure  = `{"error":{"code":"charge_not_found","message":"No such charge.\n"}}`
	success  = `{"id":"re_1","amount":1200,"other":true}`
)

// The whole table of statuses, once with a body of the provider and once with
// a proxy's page. What is not listed here must be ambiguous.
func TestClassifyEveryStatus(t *testing.T) {
	byOrigin := map[actions.Kind][]int{
		actions.Applied:          {200, 201, 203, 204, 205, 206, 226},
		actions.Accepted:         {202},
		actions.AppliedNoReceipt: {303},
		actions.Rejected: {300, 304, 307, 308, 400, 401, 403, 404, 405, 406, 410, 411, 412, 413, 414, 415, 417, 422, 428, 431, 451,
			501, 505},
		actions.NotApplied:  {421, 425},
		actions.RateLimited: {429},
	}
	byAnybody := map[actions.Kind][]int{
		actions.AppliedNoReceipt: {200, 201, 203, 204, 205, 206, 226, 303}, // a page has no receipt
		actions.Accepted:         {202},
		actions.Rejected:         {300, 304, 307, 308},
		actions.NotApplied:       {421, 425},
		actions.RateLimited:      {429},
	}
	c := classifier(t)
	check := func(x httpaction.Exchange, table map[actions.Kind][]int) {
		t.Helper()
		want := actions.Ambiguous
		for kind, statuses := range table {
			if slices.Contains(statuses, x.Status) {
				want = kind
			}
		}
		if got := c.Classify(x); got.Kind != want {
			t.Errorf("%s: %s, want %s", x.Evidence, got.Kind, want)
		}
	}
	for status := 100; status < 1000; status++ {
		check(answered(status, jsonType, success), byOrigin)
		check(answered(status, htmlType, "<html>Sorry</html>"), byAnybody)
		check(answered(status, htmlType, success), map[actions.Kind][]int{ // JSON that is not declared: a receipt, no origin proof
			actions.Applied: byOrigin[actions.Applied], actions.Accepted: {202}, actions.AppliedNoReceipt: {303},
			actions.Rejected: byAnybody[actions.Rejected], actions.NotApplied: {421, 425}, actions.RateLimited: {429},
		})
	}
}

func TestClassifyExchanges(t *testing.T) {
	cut := func(x httpaction.Exchange) httpaction.Exchange {
		x.Complete, x.Phase = false, httpaction.PhaseBody
		return x
	}
	tests := []struct {
		name    string
		x       httpaction.Exchange
		kind    actions.Kind
		code    string
		receipt actions.Receipt
	}{
		{name: "zero exchange", kind: actions.Ambiguous, code: "no_answer"},
		{name: "not sent", x: httpaction.Exchange{Sent: httpaction.NotSent}, kind: actions.NotApplied, code: "not_sent"},
		{name: "never sendable", x: httpaction.Exchange{Sent: httpaction.NotSent, Err: fmt.Errorf("x: %w", httpaction.ErrNotSendable)},
			kind: actions.Rejected, code: "not_sendable"},
		{name: "not sendable is no proof once sent", x: httpaction.Exchange{Err: httpaction.ErrNotSendable}, kind: actions.Ambiguous, code: "no_answer"},
		{name: "receipt", x: answered(201, jsonType, success), kind: actions.Applied,
			receipt: actions.Receipt{Reference: "re_1", JSON: []byte(`{"id":"re_1","amount":1200}`)}},
		{name: "receipt with a numeric id", x: answered(201, jsonType, `{"amount":1,"id":9007199254740993}`), kind: actions.Applied,
			receipt: actions.Receipt{Reference: "9007199254740993", JSON: []byte(`{"id":9007199254740993,"amount":1}`)}},
		{name: "half a receipt", x: answered(201, jsonType, `{"id":"re_1","amou`), kind: actions.AppliedNoReceipt, code: "receipt_missing",
			receipt: actions.Receipt{Reference: "re_1"}},
		{name: "half a reference", x: answered(201, jsonType, `{"id":12`), kind: actions.AppliedNoReceipt, code: "receipt_missing"},
		{name: "cut, though it parses", x: cut(answered(201, jsonType, success)), kind: actions.AppliedNoReceipt, code: "receipt_missing",
			receipt: actions.Receipt{Reference: "re_1"}},
		{name: "missing field", x: answered(201, jsonType, `{"id":"re_1"}`), kind: actions.AppliedNoReceipt, code: "receipt_missing",
			receipt: actions.Receipt{Reference: "re_1"}},
		{name: "empty reference", x: answered(201, jsonType, `{"id":"","amount":1}`), kind: actions.AppliedNoReceipt, code: "receipt_missing"},
		{name: "no body", x: answered(204, "", ""), kind: actions.AppliedNoReceipt, code: "receipt_missing"},
		{name: "accepted", x: answered(202, jsonType, `{"id":"re_1"}`), kind: actions.Accepted, code: "accepted",
			receipt: actions.Receipt{Reference: "re_1"}},
		{name: "refused", x: answered(422, jsonType, failure), kind: actions.Rejected, code: "charge_not_found"},
		{name: "refused, cut", x: cut(answered(422, jsonType, failure)), kind: actions.Ambiguous, code: "outcome_unknown"},
		{name: "refused, cut by closing", x: answered(422, jsonType, failure[:30]), kind: actions.Ambiguous, code: "outcome_unknown"},
		{name: "refused with a list", x: answered(422, jsonType, `[]`), kind: actions.Ambiguous, code: "outcome_unknown"},
		{name: "refused without a code", x: answered(403, "application/problem+json", `{}`), kind: actions.Rejected, code: "http_403"},
		{name: "server error", x: answered(500, jsonType, failure), kind: actions.Ambiguous, code: "outcome_unknown"},
	}
	c := classifier(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := c.Classify(test.x)
			if got.Kind != test.kind || got.Failure.Code != test.code {
				t.Errorf("%s %q, want %s %q", got.Kind, got.Failure.Code, test.kind, test.code)
			}
			if got.Receipt.Reference != test.receipt.Reference || string(got.Receipt.JSON) != string(test.receipt.JSON) {
				t.Errorf("receipt %q %s, want %q %s", got.Receipt.Reference, got.Receipt.JSON, test.receipt.Reference, test.receipt.JSON)
			}
			if got.Kind != actions.Applied && got.Failure.Message == "" {
				t.Error("no message")
			}
		})
	}
	refused := c.Classify(answered(422, jsonType, failure)).Failure
	if !refused.Correctable || refused.Message != "No such charge." || refused.Evidence == "" {
		t.Errorf("refusal: %+v", refused)
	}
	if c.Classify(answered(403, jsonType, failure)).Failure.Correctable {
		t.Error("other arguments do not help against 403")
	}
}

func TestClassifyOverrides(t *testing.T) {
	c := classifier(t,
		httpaction.Rule{Statuses: []int{409}, Codes: []string{"in_use"}, Kind: actions.InProgress},
		httpaction.Rule{Statuses: []int{400, 409}, Codes: []string{"key_reused"}, Kind: actions.KeyMismatch},
		httpaction.Rule{Codes: []string{"exists"}, Kind: actions.MaybeOurs},
		httpaction.Rule{Statuses: []int{503}, Codes: []string{"maintenance"}, Kind: actions.NotApplied, Because: "manual, chapter 4"},
		httpaction.Rule{Statuses: []int{200}, When: func(x httpaction.Exchange) bool { return strings.Contains(string(x.Body), `"ok":false`) },
			Kind: actions.Rejected, Correctable: true, Because: "manual: ok is false"},
		httpaction.Rule{Statuses: []int{429}, Codes: []string{"late"}, Kind: actions.Ambiguous},
	)
	body := func(code string) string { return fmt.Sprintf(`{"error":{"code":%q}}`, code) }
	wait := func(x httpaction.Exchange) httpaction.Exchange { x.Header.Set("Retry-After", "120"); return x }
	for _, test := range []struct {
		x     httpaction.Exchange
		kind  actions.Kind
		after time.Duration
	}{
		{x: wait(answered(409, jsonType, body("in_use"))), kind: actions.InProgress, after: 2 * time.Minute},
		{x: answered(409, jsonType, body("key_reused")), kind: actions.KeyMismatch},
		{x: answered(400, jsonType, body("key_reused")), kind: actions.KeyMismatch},
		{x: answered(409, jsonType, body("exists")), kind: actions.MaybeOurs},
		{x: answered(409, jsonType, body("other")), kind: actions.Ambiguous},
		{x: wait(answered(503, jsonType, body("maintenance"))), kind: actions.NotApplied, after: 2 * time.Minute},
		{x: wait(answered(503, jsonType, body("other"))), kind: actions.Ambiguous},
		{x: answered(200, jsonType, `{"ok":false}`), kind: actions.Rejected},
		{x: answered(429, jsonType, body("late")), kind: actions.Ambiguous},
		{x: wait(answered(429, jsonType, body("soon"))), kind: actions.RateLimited, after: 2 * time.Minute},
	} {
		got := c.Classify(test.x)
		if got.Kind != test.kind || got.RetryAfter != test.after {
			t.Errorf("%d %s: %s after %s, want %s after %s", test.x.Status, test.x.Body, got.Kind, got.RetryAfter, test.kind, test.after)
		}
	}
	half := answered(503, jsonType, body("maintenance"))
	half.Complete = false
	if got := c.Classify(half); got.Kind != actions.Ambiguous {
		t.Errorf("half an answer proves %s", got.Kind)
	}
}

func TestNewClassifierRefuses(t *testing.T) {
	receipt := httpaction.JSONReceipt("id")
	for name, rules := range map[string]httpaction.Rules{
		"no receipt":            {},
		"no predicate":          {Receipt: receipt, Overrides: []httpaction.Rule{{Kind: actions.InProgress}}},
		"codes without a text":  {Receipt: receipt, Overrides: []httpaction.Rule{{Codes: []string{"x"}, Kind: actions.InProgress}}},
		"no evidence":           {Receipt: receipt, Overrides: []httpaction.Rule{{Statuses: []int{503}, Kind: actions.NotApplied}}},
		"no such kind":          {Receipt: receipt, Overrides: []httpaction.Rule{{Statuses: []int{503}, Kind: 99}}},
		"no such kind (minus) ": {Receipt: receipt, Overrides: []httpaction.Rule{{Statuses: []int{503}, Kind: -1}}},
	} {
		if _, err := httpaction.NewClassifier(rules); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Whatever a provider sends, only listed statuses can lead to another send or
// to a final refusal, and what is kept of its text is harmless.
func FuzzClassify(f *testing.F) {
	f.Add(422, jsonType, "", []byte(failure), true)
	f.Add(201, jsonType, "", []byte("{\"id\":\"\\u0000\\ud800\xff\",\"amount\":1e999}"), true)
	f.Add(429, htmlType, "120", []byte("<html>"), false)
	f.Add(503, jsonType, "-1", []byte(`{"error":{"code":"maintenance"}}`), true)
	f.Add(-1, "", "", []byte("\xef\xbb\xbf{}"), true)
	allowed := []int{300, 304, 307, 308, 400, 401, 403, 404, 405, 406, 410, 411, 412, 413, 414, 415, 417, 421, 422, 425, 428, 429, 431, 451, 501, 505}
	c := classifier(f)
	f.Fuzz(func(t *testing.T, status int, contentType, after string, body []byte, complete bool) {
		x := answered(status, contentType, string(body))
		x.Complete, x.Evidence = complete, string(body)
		x.Header.Set("Retry-After", after)
		got := c.Classify(x)
		switch got.Kind {
		case actions.Rejected, actions.NotApplied, actions.RateLimited:
			if !slices.Contains(allowed, status) {
				t.Errorf("HTTP %d proves %s", status, got.Kind)
			}
		case actions.Applied:
			if !complete || got.Receipt.Reference == "" || status < 200 || status > 299 {
				t.Errorf("HTTP %d, complete=%t, is applied with %+v", status, complete, got.Receipt)
			}
		}
		if got.RetryAfter < 0 || got.RetryAfter > httpaction.MaxRetryAfter {
			t.Errorf("wait %s", got.RetryAfter)
		}
		for _, text := range []string{got.Failure.Code, got.Failure.Message, got.Failure.Evidence} {
			if len(text) > 300 || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
				t.Errorf("unsafe text %q", text)
			}
		}
	})
}
