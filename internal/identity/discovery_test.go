package identity

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/onceward/onceward/server"
)

// An issuer's key rotates while it serves, over HTTP, and then it goes away.
func TestAProviderRotatesAndGoesAway(t *testing.T) {
	t.Parallel()
	first, second := ed(t, "2026-01"), ed(t, "2026-02")
	p := newProvider(t, first)
	a := authenticator(t, newStore(), nil, config(t, p, nil))
	if _, err := a.Authenticate(t.Context(), bearer(first.token(t, standard(p)))); err != nil {
		t.Fatal(err)
	}
	i := a.File.current().issuers[p.URL]
	forget := func() { // as if the gap were over
		i.keys.mu.Lock()
		defer i.keys.mu.Unlock()
		i.keys.tried = i.keys.tried.Add(-keysGap)
	}
	p.publish(first, second)
	forget()
	if _, err := a.Authenticate(t.Context(), bearer(second.token(t, standard(p)))); err != nil {
		t.Errorf("the new key: %v", err)
	}
	p.set(func() { p.away = true })
	forget()
	if _, err := a.Authenticate(t.Context(), bearer(ed(t, "2026-03").token(t, standard(p)))); !errors.Is(err, server.ErrCannotAuthenticate) {
		t.Errorf("a key that nobody can tell of: %v", err)
	}
	if _, err := a.Authenticate(t.Context(), bearer(first.token(t, standard(p)))); err != nil {
		t.Errorf("a known key: %v", err)
	}
	if n := p.reads.Load(); n != 3 {
		t.Errorf("the keys were read %d times", n)
	}
}

func TestWhatProvidersPublishIsNotBelieved(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		discovery func(p *provider) string
		want      string
	}{
		"another issuer":      {func(p *provider) string { return `{"issuer":"https://other","jwks_uri":"` + p.URL + `/keys"}` }, "did not match"},
		"keys in plain text":  {func(p *provider) string { return `{"issuer":"` + p.URL + `","jwks_uri":"http://keys.example.com/"}` }, "want https"},
		"keys from a file":    {func(p *provider) string { return `{"issuer":"` + p.URL + `","jwks_uri":"file:///etc/keys"}` }, "want a URL"},
		"no keys":             {func(p *provider) string { return `{"issuer":"` + p.URL + `"}` }, "want a URL"},
		"something else":      {func(*provider) string { return `<html>` }, "discovery"},
		"more than is read":   {func(*provider) string { return strings.Repeat(" ", maxAnswerBytes) + "{}" }, "discovery"},
		"an answer elsewhere": {func(p *provider) string { return `{"issuer":"` + p.URL + `","jwks_uri":"` + p.URL + `/none"}` }, "404"},
	} {
		p := newProvider(t, ed(t, "k"))
		p.set(func() { p.discovery = test.discovery(p) })
		i := newIssuer(config(t, p, nil), quiet(t))
		if keys, err := i.fetch(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, %v; want %s", name, keys, err, test.want)
		}
	}
}

func TestKeysThatCannotCheckTokens(t *testing.T) {
	t.Parallel()
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	good := ed(t, "good")
	private, encrypting := jose.JSONWebKey{KeyID: "private", Key: good.key}, ec(t, "enc").public()
	encrypting.Use = "enc"
	p := newProvider(t)
	p.set(func() {
		p.keys = []jose.JSONWebKey{
			private, encrypting, {KeyID: "weak", Key: weak.Public()}, {KeyID: "shared", Key: []byte("0123456789abcdef")}, good.public(),
		}
	})
	i := newIssuer(config(t, p, nil), quiet(t))
	keys, err := i.fetch(t.Context())
	if err != nil || len(keys) != 1 || keys[0].KeyID != "good" {
		t.Errorf("took %v, %v", keys, err)
	}
	p.set(func() { p.keys = p.keys[:4] })
	if keys, err := i.fetch(t.Context()); err == nil {
		t.Errorf("took %v", keys)
	}
	p.set(func() {
		for range maxIssuerKeys {
			p.keys = append(p.keys, good.public())
		}
	})
	if keys, err := i.fetch(t.Context()); err == nil {
		t.Errorf("took %d keys", len(keys))
	}
}

// Who redirects, or is another server than its certificate says, is not asked.
func TestKeysComeFromWhereTheyAreSaidToBe(t *testing.T) {
	t.Parallel()
	p := newProvider(t, ed(t, "k"))
	redirecting := httptest.NewServer(http.RedirectHandler(p.URL+"/keys", http.StatusFound))
	t.Cleanup(redirecting.Close)
	strange := httptest.NewUnstartedServer(http.NotFoundHandler())
	strange.Config.ErrorLog = log.New(io.Discard, "", 0)
	strange.StartTLS()
	t.Cleanup(strange.Close)
	for address, want := range map[string]string{redirecting.URL: "redirects", strange.URL: "certificate"} {
		i := newIssuer(config(t, p, func(c *issuerConfig) { c.JWKS = address }), quiet(t))
		if _, err := i.fetch(context.WithoutCancel(t.Context())); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", address, err, want)
		}
	}
	if n := p.reads.Load(); n != 0 {
		t.Errorf("the keys were read %d times", n)
	}
}

func TestBadURLs(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		"https://login.example.com":      true,
		"https://login.example.com/a/b/": true,
		"http://127.0.0.1:80/x":          true,
		"http://localhost":               true,
		"http://login.example.com":       false,
		"http://127.0.0.1.example.com":   false,
		"https://a:b@example.com":        false,
		"https://example.com/#x":         false,
		"login.example.com":              false,
		"file:///etc/passwd":             false,
		"":                               false,
	} {
		if problem := badURL(text); (problem == "") != good {
			t.Errorf("%s: %q", text, fmt.Sprint(problem))
		}
	}
}
