package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/guard"
	"github.com/onceward/onceward/internal/signing"
	"github.com/onceward/onceward/ledger"
)

const (
	issuer    = "urn:onceward:example"
	arguments = `{"amount":500,"customer":"li"}`
)

// world is the service, and Onceward as it sees it: a signer and its keys.
func world(t *testing.T) (*httptest.Server, *signing.Signer) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	signer, err := signing.New(signing.Options{Issuer: issuer, Keys: func() []signing.Key {
		return []signing.Key{{ID: "one", Private: private, Primary: true}}
	}})
	if err != nil {
		t.Fatal(err)
	}
	onceward := httptest.NewServer(signer.Handler(log))
	t.Cleanup(onceward.Close)
	keys, err := guard.NewRemoteKeys(guard.RemoteOptions{URL: onceward.URL + signing.KeysPath})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := newHandler(keys, issuer, guard.NewMemory(guard.MemoryOptions{}), log)
	if err != nil {
		t.Fatal(err)
	}
	service := httptest.NewServer(handler)
	t.Cleanup(service.Close)
	return service, signer
}

func token(t *testing.T, s *signing.Signer, actionType, audience string, attempt int) string {
	t.Helper()
	text, err := s.Mint(ledger.Operation{
		Tenant: "acme", ID: "op-1", ActionType: actionType, Attempt: attempt, ArgsHash: sha256.Sum256([]byte(arguments)),
	}, audience, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func send(t *testing.T, method, url, body, token string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set(guard.TokenHeader, token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(text))
}

func TestCredits(t *testing.T) {
	service, signer := world(t)
	good := token(t, signer, grantAction, audience, 1)
	for _, step := range []struct {
		name, method, body, token string
		code                      int
		answer                    string
	}{
		{"without a token", http.MethodPost, arguments, "", 401, `{"reason":"OPERATION_TOKEN_REQUIRED"}`},
		{"for another service", http.MethodPost, arguments, token(t, signer, grantAction, "billing", 1), 401, `{"reason":"OPERATION_TOKEN_INVALID"}`},
		{"for another action", http.MethodPost, arguments, token(t, signer, "credits.revoke", audience, 1), 403, `{"reason":"OPERATION_FORBIDDEN"}`},
		{"other arguments", http.MethodPost, `{"amount":500000,"customer":"li"}`, good, 403, `{"reason":"OPERATION_FORBIDDEN"}`},
		{"the first", http.MethodPost, arguments, good, 201, `{"amount":500,"id":"op-1"}`},
		{"again", http.MethodPost, arguments, good, 201, `{"amount":500,"id":"op-1"}`},
		{"another attempt", http.MethodPost, arguments, token(t, signer, grantAction, audience, 2), 201, `{"amount":500,"id":"op-1"}`},
		{"reading the route", http.MethodGet, "", "", 405, "POST a grant"},
	} {
		if code, answer := send(t, step.method, service.URL+"/grants", step.body, step.token); code != step.code || answer != step.answer {
			t.Errorf("%s: %d %s, want %d %s", step.name, code, answer, step.code, step.answer)
		}
	}
	if code, answer := send(t, http.MethodGet, service.URL+"/balances/li", "", ""); code != 200 || answer != `{"balance":500}` {
		t.Errorf("balance: %d %s", code, answer)
	}
}

func TestServiceWithoutAnIssuer(t *testing.T) {
	if _, err := newHandler(nil, "", guard.NewMemory(guard.MemoryOptions{}), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a service that believes nobody in particular starts")
	}
}
