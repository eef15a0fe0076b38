package declared_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/declared"
	"github.com/onceward/onceward/actions/definition"
)

func withAuth(auth string) string { return providerHead + "  auth:\n    " + auth + "\n" }

// repeats is a provider that says back everything that could hold a credential,
// in a refusal and in a receipt.
func repeats(t *testing.T, status int) *answerer {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		all := fmt.Sprintf("%s %v", r.RequestURI, r.Header)
		if user, password, ok := r.BasicAuth(); ok {
			all += user + password
		}
		write(w, status, http.Header{"X-Echo": {all}}, fmt.Sprintf(`{"id":"r1","amount":1,"echo":%q,"error":{"code":%q,"message":%q}}`, all, all, all))
	})
}

const echoing = `
errors: {code: body.error.code, message: body.error.message}
`

// Each kind of credential reaches the provider, is no part of what is frozen, and
// does not come back.
//
// PROVIDERS requirement 1
func TestCredentials(t *testing.T) {
	t.Parallel()
	header := func(name string) func(seen) string { return func(s seen) string { return s.header.Get(name) } }
	for name, test := range map[string]struct {
		auth string
		at   func(seen) string
		want string
	}{
		"bearer":        {"bearer: {env: A}", header("Authorization"), "Bearer " + theSecret},
		"basic":         {"basic: {user: user, password: {env: A}}", header("Authorization"), "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+theSecret))},
		"basic, token":  {"basic: {user_secret: {env: A}, password_text: X}", header("Authorization"), "Basic " + base64.StdEncoding.EncodeToString([]byte(theSecret+":X"))},
		"basic, config": {`basic: {user: "${config.user}"}`, header("Authorization"), "Basic " + base64.StdEncoding.EncodeToString([]byte("someone:"))},
		"header":        {"header: {name: x-api-key, secret: {env: A}, prefix: 'Token '}", header("X-Api-Key"), "Token " + theSecret},
		"query":         {"query: {name: api_key, secret: {env: A}}", func(s seen) string { return s.target }, "/refunds?api_key=" + theSecret},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, status := range []int{200, 400, 500} {
				p := repeats(t, status)
				provider := withAuth(test.auth) + echoing + "config: {user: {description: Who., value: someone}}\n"
				action := strings.Replace(actionHead+refund, "amount: body.amount", "amount: body.amount, echo: body.echo, head: 'header[\"x-echo\"]', text: text", 1)
				a := build(t, p.URL, provider, action)
				frozen := render(t, a, call(t, theArgs))
				o := a.Execute(t.Context(), call(t, theArgs))
				if got := test.at(p.one(t)); got != test.want {
					t.Errorf("the provider got %q, want %q", got, test.want)
				}
				if status == 200 && o.Kind != actions.Applied || status == 400 && (o.Kind != actions.Rejected || o.Failure.Message == "") {
					t.Errorf("%+v", o)
				}
				wantNoSecret(t, frozen, o, string(o.Receipt.JSON))
			}
		})
	}
}

// A secret is read at each attempt, for the tenant of the call. Without it,
// nothing is sent; that is no refusal.
func TestSecrets(t *testing.T) {
	t.Parallel()
	p := says(t, 200, nil, `{"id":"r1","amount":1}`)
	secrets := map[string]string{"acme": "first-secret", "beta": "of-the-tenant-beta", "broken": "a\nb", "none": ""}
	var mu sync.Mutex
	a := build(t, p.URL, withAuth("bearer: {file: '/run/secrets/${tenant}/acme'}"), actionHead+refund, func(o *declared.Options) {
		o.Secret = func(ref definition.Secret, tenant string) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			if ref.File != "/run/secrets/${tenant}/acme" {
				return "", errors.New("another reference")
			}
			secret, ok := secrets[tenant]
			if !ok {
				return "", errors.New("the secret of this tenant is not there")
			}
			return secret, nil
		}
	})
	try := func(tenant, rotated string) actions.Outcome {
		mu.Lock()
		if rotated != "" {
			secrets[tenant] = rotated
		}
		mu.Unlock()
		c := call(t, theArgs)
		c.Tenant = tenant
		return a.Execute(t.Context(), c)
	}
	for _, step := range []struct{ tenant, rotated, want string }{
		{"acme", "", "first-secret"}, {"acme", "second-secret", "second-secret"}, {"beta", "", "of-the-tenant-beta"},
	} {
		try(step.tenant, step.rotated)
		if all := p.requests(); all[len(all)-1].header.Get("Authorization") != "Bearer "+step.want {
			t.Errorf("%+v: %v", step, all[len(all)-1].header)
		}
	}
	sent := len(p.requests())
	for _, tenant := range []string{"nobody", "broken", "none"} {
		if o := try(tenant, ""); o.Kind != actions.NotApplied || !strings.Contains(o.Failure.Evidence, "secret") || len(p.requests()) != sent {
			t.Errorf("%s: %+v", tenant, o)
		}
	}
}

// A signature is made for the final request of each attempt, may hold the time,
// and leaves the frozen bytes as they are.
func TestHMAC(t *testing.T) {
	t.Parallel()
	p := repeats(t, 200)
	now := newClock()
	a := build(t, p.URL, withAuth(`hmac:
      secret: {env: A}
      encoding: base64
      content: "${method} ${path}?${query} ${timestamp} ${body_sha256} ${body}"
      headers: {X-Signature: "v1=${signature}", X-Time: "${timestamp}"}`),
		actionHead+strings.Replace(refund, "path: /refunds", `path: "/r/${args.charge}"`+"\n  query: {b: '1 2', a: x}", 1), func(o *declared.Options) { o.Now = now.Now })
	frozen := render(t, a, call(t, theArgs))
	var signatures []string
	for i := range 2 {
		o := a.Execute(t.Context(), call(t, theArgs))
		sent := p.requests()[i]
		sum := sha256.Sum256([]byte(sent.body))
		mac := hmac.New(sha256.New, []byte(theSecret))
		fmt.Fprintf(mac, "POST /r/ch_1?a=x&b=1%%202 %d %s %s", now.Now().Unix(), hex.EncodeToString(sum[:]), sent.body)
		want := base64.StdEncoding.EncodeToString(mac.Sum(nil))
		if got := sent.header.Get("X-Signature"); got != "v1="+want || sent.header.Get("X-Time") != fmt.Sprint(now.Now().Unix()) {
			t.Errorf("signature %q, want %q", got, want)
		}
		wantNoSecret(t, o)
		signatures = append(signatures, want)
		now.advance(time.Hour)
	}
	if signatures[0] == signatures[1] || render(t, a, call(t, theArgs)) != frozen {
		t.Error("the time is not in the signature, or is in what is frozen")
	}
}

// bank is a provider with a token endpoint: its n-th token is tok<n>.
type bank struct {
	*answerer
	mu     sync.Mutex
	tokens []url.Values // of the token calls
	basic  []string
	// refused is the token that the API does not take.
	refused string
	answer  func(w http.ResponseWriter, n int) bool // of the token endpoint; false: the usual
}

func newBank(t *testing.T) *bank {
	t.Helper()
	b := &bank{}
	b.answerer = serve(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		if r.URL.Path != "/oauth/token" {
			b.mu.Lock()
			refused := b.refused
			b.mu.Unlock()
			if refused != "" && r.Header.Get("Authorization") == "Bearer "+refused {
				write(w, 401, nil, `{"error":{}}`)
				return
			}
			write(w, 200, nil, `{"id":"r1","amount":1}`)
			return
		}
		b.token(w, r)
	})
	return b
}

func (b *bank) token(w http.ResponseWriter, r *http.Request) {
	all := b.requests()
	form, _ := url.ParseQuery(all[len(all)-1].body)
	user, password, _ := r.BasicAuth()
	b.mu.Lock()
	b.tokens, b.basic = append(b.tokens, form), append(b.basic, user+":"+password)
	n, answer := len(b.tokens), b.answer
	b.mu.Unlock()
	if answer != nil && answer(w, n) {
		return
	}
	write(w, 200, nil, fmt.Sprintf(`{"access_token":"tok%d","token_type":"Bearer","expires_in":300,"refresh_token":"ref%d"}`, n, n))
}

func (b *bank) tokenCalls() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.tokens)
}

func (b *bank) used(t *testing.T) []string {
	t.Helper()
	var used []string
	for _, r := range b.requests() {
		if !strings.HasPrefix(r.target, "/oauth/") {
			used = append(used, strings.TrimPrefix(r.header.Get("Authorization"), "Bearer "))
		}
	}
	return used
}

const oauth = `oauth2: {token_url: "https://login.acme.test/oauth/token", client_id: {env: ID}, client_secret: {env: PW}, scopes: [a, b], parameters: {audience: api}}`

func secretsByName(ref definition.Secret, tenant string) (string, error) {
	return ref.Env + ref.File + "-of-" + tenant, nil
}

// Tokens are fetched once, kept, and renewed before they end.
//
// PROVIDERS requirement 1
func TestOAuth2(t *testing.T) {
	t.Parallel()
	b, now := newBank(t), newClock()
	a := build(t, b.URL, withAuth(oauth), actionHead+refund, func(o *declared.Options) { o.Now, o.Secret = now.Now, secretsByName })
	var together sync.WaitGroup
	for range 8 { // at once: one token call
		together.Go(func() {
			if o := a.Execute(t.Context(), call(t, theArgs)); o.Kind != actions.Applied {
				t.Errorf("%+v", o)
			}
		})
	}
	together.Wait()
	if b.tokenCalls() != 1 {
		t.Fatalf("%d token calls", b.tokenCalls())
	}
	now.advance(239 * time.Second)
	a.Execute(t.Context(), call(t, theArgs))
	now.advance(2 * time.Second) // a minute before its end
	a.Execute(t.Context(), call(t, theArgs))
	if used := b.used(t); b.tokenCalls() != 2 || used[8] != "tok1" || used[9] != "tok2" {
		t.Errorf("%d token calls, used %v", b.tokenCalls(), used)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if got := b.tokens[0].Encode(); got != "audience=api&grant_type=client_credentials&scope=a+b" || b.basic[0] != "ID-of-acme:PW-of-acme" {
		t.Errorf("asked with %s as %s", got, b.basic[0])
	}
}

// A token that cannot be had means that nothing was sent. One that is still good
// is used on.
func TestOAuth2Fails(t *testing.T) {
	t.Parallel()
	b, now := newBank(t), newClock()
	b.answer = func(w http.ResponseWriter, n int) bool {
		switch n {
		case 1: // refused, with everything said back
			write(w, 401, nil, `{"error":"invalid_client","error_description":"PW-of-acme is wrong"}`)
		case 2:
			write(w, 200, nil, `{"access_token":`)
		case 3:
			w.Header().Set("Location", b.URL+"/oauth/elsewhere")
			w.WriteHeader(http.StatusTemporaryRedirect)
		case 4:
			write(w, 200, nil, `{"access_token":"tok","token_type":"mac"}`)
		case 5:
			return false
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return true
	}
	a := build(t, b.URL, withAuth(oauth), actionHead+refund, func(o *declared.Options) { o.Now, o.Secret = now.Now, secretsByName })
	for n := 1; n <= 4; n++ {
		o := a.Execute(t.Context(), call(t, theArgs))
		if o.Kind != actions.NotApplied || !strings.Contains(o.Failure.Evidence, "token") || strings.Contains(o.Failure.Evidence, "PW-of") || len(b.used(t)) != 0 {
			t.Errorf("token call %d: %+v", n, o)
		}
	}
	a.Execute(t.Context(), call(t, theArgs))
	now.advance(250 * time.Second) // to be renewed, and renewing fails
	for range 2 {
		if o := a.Execute(t.Context(), call(t, theArgs)); o.Kind != actions.Applied {
			t.Errorf("%+v", o)
		}
	}
	if b.tokenCalls() != 6 { // and not at every attempt
		t.Errorf("%d token calls", b.tokenCalls())
	}
	now.advance(time.Minute)
	if o := a.Execute(t.Context(), call(t, theArgs)); o.Kind != actions.NotApplied {
		t.Errorf("after its end: %+v", o)
	}
	for _, r := range b.requests() {
		if strings.HasSuffix(r.target, "elsewhere") {
			t.Error("a redirect of the token endpoint was followed")
		}
	}
}

// A 401 of the API drops the token; the attempt is not made again by itself. It is
// a refusal for good only of a token that is new.
//
// PROVIDERS requirement 1
func TestOAuth2TokenRefused(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	refuse := func(token string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.refused = token
	}
	a := build(t, b.URL, withAuth(`oauth2: {token_url: "https://login.acme.test/oauth/token", client_id: {env: ID}, client_secret: {env: PW}, refresh_token: {env: RT}, style: body}`),
		actionHead+refund, func(o *declared.Options) { o.Secret = secretsByName })
	for i, step := range []struct {
		refused string
		kind    actions.Kind
		calls   int // of the API and for tokens, so far
	}{
		{"", actions.Applied, 2},
		{"tok1", actions.NotApplied, 3},
		{"tok2", actions.Rejected, 5},
		{"tok2", actions.Applied, 7},
	} {
		refuse(step.refused)
		if o := a.Execute(t.Context(), call(t, theArgs)); o.Kind != step.kind || len(b.requests()) != step.calls {
			t.Errorf("step %d: %+v after %d requests", i, o, len(b.requests()))
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, want := range []string{
		"client_id=ID-of-acme&client_secret=PW-of-acme&grant_type=refresh_token&refresh_token=RT-of-acme",
		"client_id=ID-of-acme&client_secret=PW-of-acme&grant_type=refresh_token&refresh_token=ref1", // the one that the provider gave
	} {
		if got := b.tokens[i].Encode(); got != want {
			t.Errorf("token call %d: %s", i, got)
		}
	}
}

// Token calls go to their own origin alone, and the API's requests never there.
func TestOAuth2Egress(t *testing.T) {
	t.Parallel()
	p, a := load(t, withAuth(oauth), actionHead+refund)
	var mu sync.Mutex
	var dialled []string
	conn, err := declared.NewConnection(p, declared.Options{Secret: secretsByName, Dial: func(_ context.Context, _, address string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		dialled = append(dialled, address)
		return nil, errors.New("nobody there")
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	adapter, err := declared.HTTP(conn, a)
	if err != nil {
		t.Fatal(err)
	}
	if o := adapter.Execute(t.Context(), call(t, theArgs)); o.Kind != actions.NotApplied || len(dialled) != 1 || dialled[0] != "login.acme.test:443" {
		t.Errorf("%+v, dialled %v", o, dialled)
	}
}

func TestNewConnectionRefuses(t *testing.T) {
	t.Parallel()
	for name, provider := range map[string]string{
		"credentials without secrets": withAuth("bearer: {env: A}"),
		"no such certificate":         providerHead + "  tls: {ca: /nowhere/ca.pem}\n",
		"no such client certificate":  providerHead + "  tls: {cert: /nowhere/c.pem, key: /nowhere/k.pem}\n",
	} {
		p, _ := load(t, provider, actionHead+refund)
		if conn, err := declared.NewConnection(p, declared.Options{}); err == nil {
			conn.Close()
			t.Errorf("%s: accepted", name)
		}
	}
	// What the files' own check refuses too, for who makes definitions himself.
	at := func(h definition.HTTP) *definition.HTTP { return &h }
	for field, h := range map[string]*definition.HTTP{
		"http: ":                     nil,
		"http.base_url: ":            at(definition.HTTP{BaseURL: "ftp://api.acme.test"}),
		"http.hosts[0]: ":            at(definition.HTTP{BaseURL: "https://api.acme.test", Hosts: []string{"https://${config.none}.test"}}),
		"http.private_networks[0]: ": at(definition.HTTP{BaseURL: "https://api.acme.test", PrivateNetworks: []string{"ten"}}),
		"http.auth: ":                at(definition.HTTP{BaseURL: "https://api.acme.test", Auth: &definition.Auth{}}),
		"http.auth.hmac.algorithm: ": at(definition.HTTP{BaseURL: "https://api.acme.test", Auth: &definition.Auth{HMAC: &definition.HMACAuth{Algorithm: "md5", Headers: map[string]string{"X": ""}}}}),
	} {
		_, err := declared.NewConnection(&definition.Provider{Name: "acme", HTTP: h}, options(""))
		if _, ok := errors.AsType[*declared.InvalidError](err); !ok || !strings.HasPrefix(err.Error(), "acme: "+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
