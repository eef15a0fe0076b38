package simulator_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/simulator"
)

func TestEveryKindOfCredential(t *testing.T) {
	ref := definition.Secret{Env: "X"}
	secret := simulator.Secret(ref)
	for name, tt := range map[string]struct {
		auth  *definition.Auth
		prove func(*http.Request)
	}{
		"none":   {nil, func(*http.Request) {}},
		"bearer": {&definition.Auth{Bearer: &ref}, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+secret) }},
		"basic with a literal user": {
			&definition.Auth{Basic: &definition.BasicAuth{User: "me@${config.account}", Password: &ref}},
			func(r *http.Request) { r.SetBasicAuth("me@acct_1", secret) },
		},
		"basic with a secret user": {
			&definition.Auth{Basic: &definition.BasicAuth{UserSecret: &ref, PasswordIsText: "X"}},
			func(r *http.Request) { r.SetBasicAuth(secret, "X") },
		},
		"header": {
			&definition.Auth{Header: &definition.NamedAuth{Name: "X-Key", Secret: ref}},
			func(r *http.Request) { r.Header.Set("X-Key", secret) },
		},
		"query": {
			&definition.Auth{Query: &definition.NamedAuth{Name: "api_key", Secret: ref}},
			func(r *http.Request) { r.URL.RawQuery = "api_key=" + secret },
		},
	} {
		b := pay(t, func(p *definition.Provider, _ map[string]*definition.Action) { p.HTTP.Auth = tt.auth })
		b.auth = tt.prove
		b.wantStatus(b.refund("k1", "pi_1"), 200)
		b.auth = func(r *http.Request) {
			tt.prove(r)
			for header := range r.Header {
				if header != "Content-Type" {
					r.Header.Set(header, r.Header.Get(header)+"x")
				}
			}
			r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "=", "=x", 1)
		}
		if tt.auth != nil {
			b.wantStatus(b.refund("k2", "pi_1"), 401)
		}
		b.wantEffects(1)
		if t.Failed() {
			t.Fatalf("with %s", name)
		}
	}
}

func TestSignedRequest(t *testing.T) {
	p, acts := load(t, "signed")
	b := start(t, p, acts, simulator.Options{})
	const body = `<ping op="op1"/>`
	sign := func(secret, path, content string) {
		sum := sha256.Sum256([]byte(content))
		mac := hmac.New(sha256.New, []byte(secret))
		fmt.Fprintf(mac, "1793610000.POST.%s.%x", path, sum)
		b.auth = func(r *http.Request) {
			r.Header.Set("X-Signature", "t=1793610000,v1="+hex.EncodeToString(mac.Sum(nil)))
		}
	}
	secret := simulator.Secret(definition.Secret{Env: "SIGNED_SECRET"})
	for _, tt := range []struct {
		secret, path, body string
		want               string
	}{
		{secret, "/ping/a%2Fb", body, `200 <pong id="p_1"/>`},
		{secret, "/ping/b", body, "401"},
		{secret, "/ping/a%2Fb", body + " ", "401"},
		{"other", "/ping/a%2Fb", body, "401"},
	} {
		sign(tt.secret, tt.path, tt.body)
		if r := b.send(http.MethodPost, "/ping/a%2Fb", "application/xml", body); !strings.HasPrefix(r.says(), tt.want) {
			t.Errorf("%+v: %s", tt, r.says())
		}
	}
	b.auth = func(*http.Request) {}
	b.wantStatus(b.send(http.MethodPost, "/ping/a%2Fb", "application/xml", body), 401)
	b.wantEffects(1)
	if e := b.p.EffectsFor("op1"); len(e) != 1 || string(e[0].Body) != `"\u003cping op=\"op1\"/\u003e"` {
		t.Errorf("effects %+v", e)
	}
}

func TestAccessTokenAndMultipart(t *testing.T) {
	p, acts := load(t, "files")
	b := start(t, p, acts, simulator.Options{})
	id, secret := simulator.Secret(definition.Secret{Env: "FILES_ID"}), simulator.Secret(definition.Secret{Env: "FILES_SECRET"})
	token := func(id, secret string, form url.Values) reply {
		b.auth = func(r *http.Request) { r.SetBasicAuth(id, secret) }
		return b.send(http.MethodPost, "/oauth/token", "application/x-www-form-urlencoded", form.Encode())
	}
	good := url.Values{"grant_type": {"client_credentials"}, "scope": {"write"}}
	b.want(token(id, "wrong", good), `401 {"error":"invalid_client"}`)
	b.want(token(id, secret, url.Values{"grant_type": {"password"}}), `400 {"error":"unsupported_grant_type"}`)
	b.want(token(id, secret, url.Values{"grant_type": {"client_credentials"}}), `400 {"error":"invalid_scope"}`)
	var granted struct {
		Token string `json:"access_token"`
		Type  string `json:"token_type"`
	}
	if r := token(id, secret, good); r.status != 200 || json.Unmarshal([]byte(r.body), &granted) != nil || granted.Type != "Bearer" || granted.Token == "" {
		t.Fatalf("got %s", r.says())
	}

	const body = "--b\r\nContent-Disposition: form-data; name=\"meta[operation]\"\r\n\r\nop1\r\n" +
		"--b\r\nContent-Disposition: form-data; name=\"name\"; filename=\"a.txt\"\r\n\r\nhello\r\n--b--\r\n"
	upload := func(token string) reply {
		b.auth = func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
		return b.send(http.MethodPost, "/upload", "multipart/form-data; boundary=b", body)
	}
	b.wantStatus(upload("made up"), 401)
	r := upload(granted.Token)
	b.want(r, "202 ")
	if r.header.Get("X-File-Id") != "f_op1_1" || r.header.Get("Content-Type") != "" {
		t.Errorf("headers %v", r.header)
	}
	if n := len(b.p.EffectsFor("op1")); n != 1 {
		t.Errorf("%d effects", n)
	}
	// A success that is 202 anyway says no less when it is pending.
	b.p.Next(fakeprovider.Fault{Kind: fakeprovider.Accepted202})
	if r := upload(granted.Token); r.status != 202 || r.header.Get("X-File-Id") != "f_op1_2" {
		t.Errorf("got %s, %v", r.says(), r.header)
	}
}

func TestRefreshToken(t *testing.T) {
	p, acts := load(t, "files")
	p.HTTP.Auth.OAuth2.RefreshToken = &definition.Secret{Env: "FILES_REFRESH"}
	p.HTTP.Auth.OAuth2.Style = "body"
	b := start(t, p, acts, simulator.Options{})
	form := url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {simulator.Secret(definition.Secret{Env: "FILES_REFRESH"})},
		"client_id": {simulator.Secret(definition.Secret{Env: "FILES_ID"})}, "client_secret": {simulator.Secret(definition.Secret{Env: "FILES_SECRET"})},
	}
	b.wantStatus(b.send(http.MethodPost, "/oauth/token", "application/x-www-form-urlencoded", form.Encode()), 200)
	form.Set("refresh_token", "other")
	b.want(b.send(http.MethodPost, "/oauth/token", "application/x-www-form-urlencoded", form.Encode()), `400 {"error":"invalid_grant"}`)
}
