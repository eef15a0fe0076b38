package httpaction_test

import (
	"errors"
	"io"
	"log"
	"net/http"
	"testing"

	"github.com/onceward/onceward/actions/httpaction"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

func TestRequestBytes(t *testing.T) {
	r := httpaction.Request{
		Method: "POST",
		URL:    "https://api.example.com/v1/refunds?b=2&a=1",
		Header: http.Header{"x-b": {"2", "1"}, "Idempotency-Key": {"k0"}, "Content-Type": {"application/json"}},
		Body:   []byte("{}\r\n"),
	}
	const want = "POST https://api.example.com/v1/refunds?b=2&a=1 HTTP/1.1\r\n" +
		"Content-Type: application/json\r\nIdempotency-Key: k0\r\nX-B: 2\r\nX-B: 1\r\n\r\n{}\r\n"
	for range 20 { // maps have no order
		got, err := r.Bytes()
		if err != nil || string(got) != want {
			t.Fatalf("got %q, %v\nwant %q", got, err, want)
		}
	}
}

func TestRequestRefused(t *testing.T) {
	type change = func(*httpaction.Request)
	url := func(s string) change { return func(r *httpaction.Request) { r.URL = s } }
	header := func(name, value string) change {
		return func(r *httpaction.Request) { r.Header = http.Header{name: {value}} }
	}
	for name, change := range map[string]change{
		"empty method":        func(r *httpaction.Request) { r.Method = "" },
		"lower-case method":   func(r *httpaction.Request) { r.Method = "post" },
		"method with a space": func(r *httpaction.Request) { r.Method = "POST /x" },
		"connect":             func(r *httpaction.Request) { r.Method = "CONNECT" },
		"relative URL":        url("/v1/refunds"),
		"no host":             url("https:///v1"),
		"other scheme":        url("file:///etc/passwd"),
		"user":                url("https://u:p@api.example.com/"),
		"fragment":            url("https://api.example.com/#x"),
		"line break":          url("https://api.example.com/\r\nX: y"),
		"traversal":           url("https://api.example.com/v1/../admin"),
		"escaped traversal":   url("https://api.example.com/v1/%2e%2E/admin"),
		"escaped slash":       url("https://api.example.com/v1/x%2F..%2Fadmin"),
		"bad escape":          url("https://api.example.com/%zz"),
		"header name":         header("X Note", "v"),
		"header line break":   header("X-Note", "a\nb"),
		"header NUL":          header("X-Note", "a\x00b"),
		"header space":        header("X-Note", " a"),
		"host":                header("Host", "other.example"),
		"length":              header("content-length", "1"),
		"chunked":             header("Transfer-Encoding", "chunked"),
		"expect":              header("Expect", "100-continue"),
		"credential":          header("authorization", "Bearer x"),
		"two spellings": func(r *httpaction.Request) {
			r.Header = http.Header{"X-Note": {"1"}, "x-note": {"2"}}
		},
	} {
		r := keyed("https://api.example.com")
		change(&r)
		if _, err := r.Bytes(); !errors.Is(err, httpaction.ErrNotSendable) {
			t.Errorf("%s: %v, want ErrNotSendable", name, err)
		}
	}
}
