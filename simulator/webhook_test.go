package simulator_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/webhook"
	"github.com/onceward/onceward/simulator"
)

// receiver keeps what it gets.
func receiver(t *testing.T) (string, <-chan actions.Message) {
	t.Helper()
	got := make(chan actions.Message, 1)
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- actions.Message{Method: r.Method, URL: "http://" + r.Host + r.URL.RequestURI(), Header: r.Header, Body: body}
		_, _ = io.WriteString(rw, "thanks")
	}))
	t.Cleanup(s.Close)
	return s.URL + "/hooks?x=1", got
}

// Every scheme is verified by the package that verifies providers, which shares
// no code with this one.
func TestWebhooksAreSigned(t *testing.T) {
	secrets := []definition.Secret{{Env: "SIGNED_HOOK"}}
	hmacRules := func(content ...string) definition.Verify {
		return definition.Verify{
			Scheme: "hmac", Secrets: secrets, Header: "X-Sig", Prefix: "v0=", Algorithm: "sha512", Encoding: "base64",
			TimestampHeader: "X-Time", Content: content,
		}
	}
	parts := []webhook.Part{{Kind: webhook.Text, Text: "v0:"}, {Kind: webhook.Timestamp}, {Kind: webhook.Method}, {Kind: webhook.URL}, {Kind: webhook.Header, Text: "X-More"}}
	verify := webhook.Rules{
		Scheme: webhook.HMAC, Header: "X-Sig", Prefix: "v0=", Algorithm: webhook.SHA512, Encoding: webhook.Base64, TimestampHeader: "X-Time",
	}
	withBody, withForm := verify, verify
	withBody.Content = slices.Concat(parts, []webhook.Part{{Kind: webhook.Body}})
	withForm.Content = slices.Concat(parts, []webhook.Part{{Kind: webhook.Form}})
	const event = `{"operation_id":"op1","event":{"id":"evt_1","ref":"${id}","n":1.0,"text":"${object.text}"},"headers":{"X-More":"more"}}`
	for name, tt := range map[string]struct {
		rules  definition.Verify
		verify webhook.Rules
		call   string
		body   string
	}{
		"stripe":   {definition.Verify{Scheme: "stripe", Secrets: secrets}, webhook.Rules{Scheme: webhook.Stripe}, event, ""},
		"github":   {definition.Verify{Scheme: "github", Secrets: secrets}, webhook.Rules{Scheme: webhook.GitHub}, event, ""},
		"standard": {definition.Verify{Scheme: "standard", Secrets: secrets}, webhook.Rules{Scheme: webhook.Standard}, event, ""},
		"plain": {definition.Verify{Scheme: "hmac", Secrets: secrets, Header: "X-Sig"},
			webhook.Rules{Scheme: webhook.HMAC, Header: "X-Sig"}, event, ""},
		"hmac": {hmacRules("text:v0:", "timestamp", "method", "url", "header:X-More", "body"), withBody, event, ""},
		"form": {hmacRules("text:v0:", "timestamp", "method", "url", "header:X-More", "form"), withForm,
			`{"operation_id":"op1","form":{"b":"${id}","a":"x y"},"headers":{"X-More":"more"}}`, "a=x+y&b=p_1"},
	} {
		t.Run(name, func(t *testing.T) {
			p, acts := load(t, "signed")
			p.HTTP.Auth, p.Webhooks.Verify = nil, tt.rules
			acts[0].Simulate.Object = map[string]any{"text": "made by ${request.method}"}
			target, got := receiver(t)
			b := start(t, p, acts, simulator.Options{WebhookURL: target})
			b.wantStatus(b.send(http.MethodPost, "/ping/a", "application/xml", `<ping op="op1"/>`), 200)
			r := b.send(http.MethodPost, "/_fake/webhooks", "", tt.call)
			var told struct {
				Status int    `json:"status"`
				Answer string `json:"answer"`
			}
			if err := json.Unmarshal([]byte(r.body), &told); err != nil || r.status != 200 || told.Status != 200 || told.Answer != "thanks" {
				t.Fatalf("got %s", r.says())
			}
			m := <-got
			want := tt.body
			if want == "" {
				want = `{"id":"evt_1","n":1.0,"ref":"p_1","text":"made by POST"}`
			}
			if string(m.Body) != want {
				t.Errorf("body %s, want %s", m.Body, want)
			}
			v, err := webhook.New(tt.verify)
			if err != nil {
				t.Fatal(err)
			}
			secret := [][]byte{[]byte(simulator.Secret(secrets[0]))}
			if err := v.Verify(secret, m, epoch); err != nil {
				t.Errorf("%v of %+v", err, m)
			}
			m.Body = append(m.Body, ' ')
			if err := v.Verify(secret, m, epoch); err == nil {
				t.Error("another body is verified too")
			}
		})
	}
}

func TestWebhooksThatCannotBeSent(t *testing.T) {
	p, acts := load(t, "signed")
	p.HTTP.Auth = nil
	b := start(t, p, acts, simulator.Options{})
	if r := b.send(http.MethodPost, "/_fake/webhooks", "", `{"event":{}}`); r.status != 409 || !strings.Contains(r.body, "--webhook-url") {
		t.Errorf("got %s", r.says())
	}
	target, _ := receiver(t)
	b = start(t, p, acts, simulator.Options{WebhookURL: target})
	for call, says := range map[string]string{
		`{}`:                                   "want event or form",
		`{"event":{},"form":{}}`:               "want event or form",
		`{"event":{},"evnt":1}`:                "evnt",
		`{"operation_id":"op9","event":{}}`:    "no write of operation",
		`{"event":{"a":"${nothing}"}}`:         "a: ${nothing}",
		`{"event":{"a":"${request.body.x}"}}`:  "a: request.body.x",
		`{"form":{"a":"${request.method.x}"}}`: "a: request.method.x",
	} {
		if r := b.send(http.MethodPost, "/_fake/webhooks", "", call); r.status != 400 || !strings.Contains(r.body, says) {
			t.Errorf("%s: %s, want %q", call, r.says(), says)
		}
	}
	for field, verify := range map[string]definition.Verify{
		"webhooks.verify.secrets: is empty": {Scheme: "stripe"},
		`there is no scheme "x"`:            {Scheme: "x", Secrets: []definition.Secret{{Env: "X"}}},
		"has no name":                       {Scheme: "hmac", Secrets: []definition.Secret{{Env: "X"}}},
		`"time" cannot be signed`:           {Scheme: "hmac", Secrets: []definition.Secret{{Env: "X"}}, Header: "X", Content: []string{"time"}},
		`no algorithm "md5"`:                {Scheme: "hmac", Secrets: []definition.Secret{{Env: "X"}}, Header: "X", Algorithm: "md5"},
	} {
		p.Webhooks.Verify = verify
		if _, err := simulator.New(p, acts, simulator.Options{}); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v, want %q", err, field)
		}
	}
}
