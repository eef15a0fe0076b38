package httpaction_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/onceward/onceward/actions/httpaction"
)

// A credential in the query is on the wire, is no part of what is frozen, and
// does not come back, in whatever spelling.
func TestAuthorizeQuery(t *testing.T) {
	const secret = "s3cret/with+signs"
	p := serve(t, say(fmt.Sprintf("HTTP/1.1 400 No\r\nContent-Type: text/plain\r\nX-Echo: %s\r\nContent-Length: %d\r\n\r\n%s",
		url.QueryEscape(secret), len("hidden-password "+secret), "hidden-password "+secret)))
	s := p.sender(t, func(o *httpaction.Options) {
		o.Authorize = func(context.Context, httpaction.Request) (httpaction.Credential, error) {
			return httpaction.Credential{
				Header: http.Header{"X-Key": {"another-secret"}}, Query: url.Values{"api_key": {secret}}, Secrets: []string{"hidden-password"},
			}, nil
		}
	})
	r := keyed(p.url)
	r.URL += "?b=1&a=%20"
	x := s.Send(t.Context(), r)
	seen := p.request(t, 0)
	if want := "/v1/refunds?b=1&a=%20&api_key=s3cret%2Fwith%2Bsigns"; seen.target != want || seen.header.Get("X-Key") != "another-secret" {
		t.Errorf("sent to %s with %v, want %s", seen.target, seen.header, want)
	}
	if string(x.Body) != "[redacted] [redacted]" || x.Header.Get("X-Echo") != "[redacted]" {
		t.Errorf("came back: %s, %v", x.Body, x.Header)
	}
	frozen, err := r.Bytes()
	if err != nil || strings.Contains(string(frozen), "api_key") {
		t.Errorf("frozen: %s, %v", frozen, err)
	}
}

// A credential replaces nothing that the request says.
func TestAuthorizeReplacesNothing(t *testing.T) {
	p := serve(t, say(created))
	for name, c := range map[string]httpaction.Credential{
		"header":            {Header: http.Header{"idempotency-key": {"x"}}},
		"parameter":         {Query: url.Values{"a": {"x"}}},
		"connection header": {Header: http.Header{"Host": {"x"}}},
	} {
		s := p.sender(t, func(o *httpaction.Options) {
			o.Authorize = func(context.Context, httpaction.Request) (httpaction.Credential, error) { return c, nil }
		})
		r := keyed(p.url)
		r.URL += "?a=1"
		wantSent(t, s.Send(t.Context(), r), httpaction.NotSent)
		if p.effects() != 0 {
			t.Errorf("%s: sent", name)
		}
	}
	s := p.sender(t, func(o *httpaction.Options) {
		o.Authorize = func(context.Context, httpaction.Request) (httpaction.Credential, error) {
			return httpaction.Credential{Query: url.Values{"b": {"x"}}}, nil
		}
	})
	r := keyed(p.url)
	r.URL += "?a=%zz" // a parameter could hide in what cannot be read
	wantSent(t, s.Send(t.Context(), r), httpaction.NotSent)

	both := httpaction.Options{
		Origins:    []string{p.url},
		Credential: func(context.Context, httpaction.Request) (http.Header, error) { return nil, nil },
		Authorize: func(context.Context, httpaction.Request) (httpaction.Credential, error) {
			return httpaction.Credential{}, nil
		},
	}
	if _, err := httpaction.NewSender(both); err == nil {
		t.Error("two credentials are accepted")
	}
}
