package httpaction_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/httpaction"
)

// Addresses that look like an allowed one, or lead away from the path that they
// name, are refused before anything is open.
func TestAddressesThatLeadElsewhere(t *testing.T) {
	t.Parallel()
	s, err := httpaction.NewSender(httpaction.Options{Origins: []string{"https://api.kontoso.test"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for _, address := range []string{
		"https://api.\u212Aontoso.test/x", // the Kelvin sign, which folds to k
		"https://api.%E2%84%AAontoso.test/x",
		"https://api.kontoso.test@evil.test/x",
		"https://api.kontoso.test:443@evil.test/x",
		"https://api.kontoso.test.evil.test/x",
		"https://api.kontoso.test:8443/x",
		"http://api.kontoso.test/x",
		"//api.kontoso.test/x",
		"https:///x",
		"https://api.kontoso.test/a/../b",
		"https://api.kontoso.test/a/..",
		"https://api.kontoso.test/a/%2e%2E/b",
		"https://api.kontoso.test/a/..%2Fb",
		"https://api.kontoso.test/a/%252e%252e/b",
		"https://api.kontoso.test/a/%25252e%25252e%25252fb",
		"https://api.kontoso.test/a/..%5Cb",
		"https://api.kontoso.test/a%5C..%5Cb",
		"https://api.kontoso.test/a/..;x=1/b",
		"https://api.kontoso.test/a/..%3B/b",
		"https://api.kontoso.test/%" + strings.Repeat("25", 8) + "2e",
	} {
		r := httpaction.Request{Method: http.MethodPost, URL: address}
		x := s.Send(t.Context(), r)
		if !errors.Is(x.Err, httpaction.ErrNotSendable) || x.Sent != httpaction.NotSent || x.Phase != httpaction.PhasePrepare {
			t.Errorf("%s: %s, %s", address, x.Sent, x.Evidence)
		}
	}
	for _, address := range []string{
		"https://api.kontoso.test/a/.../b", "https://api.kontoso.test/a..b/.c", "https://api.kontoso.test/100%25/a%2Fb", "https://api.kontoso.test/%252F",
	} {
		if _, err := (httpaction.Request{Method: http.MethodPost, URL: address}).Bytes(); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// An answer that repeats a credential as JSON spells it would have it back when
// it is parsed; one that repeats it at the end of a long line would have a part
// of it left when the line is cut.
func TestSecretsThatComeBackInAnotherSpelling(t *testing.T) {
	t.Parallel()
	const secret = `p/q+r<s>t&u"v\w'x`
	spellings := []string{
		`p/q+r<s>t&u\"v\\w'x`,
		`p\/q+r<s>t&u\"v\\w'x`,
		`p/q+r\u003cs\u003et\u0026u\"v\\w'x`,
		`p/q\u002Br\u003Cs\u003Et\u0026u\"v\\w\u0027x`,
	}
	body := `["` + strings.Join(spellings, `","`) + `"]`
	long := strings.Repeat("x", 198) + "-" + "0123456789abcdefghij" // cut in the middle of it
	for name, test := range map[string]struct{ secret, answer string }{
		"JSON":      {secret, "HTTP/1.1 400 No\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + body},
		"long line": {"0123456789abcdefghij", long + "\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := serve(t, sayThenCut(test.answer))
			s := p.sender(t, func(o *httpaction.Options) {
				o.Authorize = func(context.Context, httpaction.Request) (httpaction.Credential, error) {
					return httpaction.Credential{Header: http.Header{"X-Key": {test.secret}}}, nil
				}
			})
			x := s.Send(t.Context(), keyed(p.url))
			for _, part := range append(spellings, test.secret, test.secret[:9]) {
				if strings.Contains(x.Evidence, part) || strings.Contains(string(x.Body), part) {
					t.Errorf("%q came back: %s %s", part, x.Evidence, x.Body)
				}
			}
			if name == "JSON" && string(x.Body) != `["[redacted]","[redacted]","[redacted]","[redacted]"]` {
				t.Errorf("body %s", x.Body)
			}
		})
	}
}

// A refusal that is cut may go on to say anything: neither the table nor a rule
// takes it for one, whatever proof of origin there is.
func TestCutRefusalIsNone(t *testing.T) {
	t.Parallel()
	rule := httpaction.Rule{Statuses: []int{409}, Kind: actions.NotApplied, Because: "the manual"}
	c, err := httpaction.NewClassifier(httpaction.Rules{
		Receipt: httpaction.JSONReceipt("id"), Origin: func(httpaction.Exchange) bool { return true }, Overrides: []httpaction.Rule{rule},
	})
	if err != nil {
		t.Fatal(err)
	}
	for status, whole := range map[int]actions.Kind{400: actions.Rejected, 409: actions.NotApplied} {
		x := httpaction.Exchange{Status: status, Complete: true}
		if o := c.Classify(x); o.Kind != whole {
			t.Errorf("%d: %s, want %s", status, o.Kind, whole)
		}
		x.Complete = false
		if o := c.Classify(x); o.Kind != actions.Ambiguous {
			t.Errorf("%d, cut: %s", status, o.Kind)
		}
	}
}
