package simulator

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // some providers sign with HMAC-SHA1, which is not broken by collisions
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/fakeprovider"
)

// auth is what the provider asks of a request. It is safe for concurrent use.
type auth struct {
	s     *simulation
	good  func(*fakeprovider.Call) bool
	token *fakeprovider.Endpoint // OAuth 2: where access tokens are had

	mu     sync.Mutex
	issued map[string]bool // access tokens; they do not expire here
}

// credentials compiles how a contract proves who we are.
func (s *simulation) credentials(a *definition.Auth) *auth {
	out := &auth{s: s, issued: map[string]bool{}, good: func(*fakeprovider.Call) bool { return true }}
	if a == nil {
		return out
	}
	authorization := func(want string) func(*fakeprovider.Call) bool {
		return func(c *fakeprovider.Call) bool { return c.Header.Get("Authorization") == want }
	}
	switch {
	case a.Bearer != nil:
		out.good = authorization("Bearer " + Secret(*a.Bearer))
	case a.Basic != nil:
		user, password := s.basic(a.Basic)
		out.good = authorization("Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	case a.Header != nil:
		name, want := a.Header.Name, a.Header.Prefix+Secret(a.Header.Secret)
		out.good = func(c *fakeprovider.Call) bool { return c.Header.Get(name) == want }
	case a.Query != nil:
		name, want := a.Query.Name, a.Query.Prefix+Secret(a.Query.Secret)
		out.good = func(c *fakeprovider.Call) bool { return c.Query.Get(name) == want }
	case a.HMAC != nil:
		out.good = s.signed(a.HMAC)
	case a.OAuth2 != nil:
		out.oauth2(a.OAuth2)
	}
	return out
}

// refuse is the answer to a request without good credentials.
func (a *auth) refuse(c *fakeprovider.Call) *fakeprovider.Answer {
	if a.good(c) {
		return nil
	}
	refusal := a.s.failure(fakeprovider.Failure{
		Status: http.StatusUnauthorized, Type: "authentication_error", Code: "unauthorized", Message: "The credentials are missing or wrong.",
	})
	return &refusal
}

func (a *auth) endpoints() []fakeprovider.Endpoint {
	if a.token == nil {
		return nil
	}
	return []fakeprovider.Endpoint{*a.token}
}

func (s *simulation) basic(b *definition.BasicAuth) (user, password string) {
	user, password = b.User, b.PasswordIsText
	if b.UserSecret != nil {
		user = Secret(*b.UserSecret)
	} else if b.User != "" {
		text, err := s.constant(b.User)
		if err != nil {
			s.bad(s.provider.Place, "http.auth.basic.user", "%v", err)
		}
		user = text
	}
	if b.Password != nil {
		password = Secret(*b.Password)
	}
	return user, password
}

// oauth2 gives access tokens to whoever knows the client's secret, and takes no
// other tokens.
func (a *auth) oauth2(o *definition.OAuth2Auth) {
	path := ""
	if text, err := a.s.constant(o.TokenURL); err != nil {
		a.s.bad(a.s.provider.Place, "http.auth.oauth2.token_url", "%v", err)
	} else if u, err := url.Parse(text); err != nil || u.Path == "" {
		a.s.bad(a.s.provider.Place, "http.auth.oauth2.token_url", "want a URL with a path")
	} else {
		path = u.Path
		if rest, ok := strings.CutPrefix(path, a.s.base); ok && a.s.base != "" && strings.HasPrefix(rest, "/") {
			path = rest
		}
	}
	a.token = &fakeprovider.Endpoint{Path: path, Answer: func(c *fakeprovider.Call) fakeprovider.Answer { return a.issue(o, c) }}
	a.good = func(c *fakeprovider.Call) bool {
		token, isBearer := strings.CutPrefix(c.Header.Get("Authorization"), "Bearer ")
		a.mu.Lock()
		defer a.mu.Unlock()
		return isBearer && a.issued[token]
	}
}

// tokenSeconds is the life of an access token that its receiver is told.
const tokenSeconds = 3600

func (a *auth) issue(o *definition.OAuth2Auth, c *fakeprovider.Call) fakeprovider.Answer {
	refuse := func(status int, code string) fakeprovider.Answer {
		body, _ := encode(map[string]any{"error": code}) // a text
		return fakeprovider.Answer{Status: status, Body: body}
	}
	form, err := url.ParseQuery(string(c.Body))
	if err != nil || !strings.HasPrefix(c.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		return refuse(http.StatusBadRequest, "invalid_request")
	}
	id, secret := form.Get("client_id"), form.Get("client_secret")
	if o.Style != "body" {
		r := http.Request{Header: c.Header}
		id, secret, _ = r.BasicAuth()
	}
	switch {
	case id != Secret(o.ClientID) || secret != Secret(o.ClientSecret):
		return refuse(http.StatusUnauthorized, "invalid_client")
	case o.RefreshToken == nil && form.Get("grant_type") != "client_credentials":
		return refuse(http.StatusBadRequest, "unsupported_grant_type")
	case o.RefreshToken != nil && (form.Get("grant_type") != "refresh_token" || form.Get("refresh_token") != Secret(*o.RefreshToken)):
		return refuse(http.StatusBadRequest, "invalid_grant")
	case form.Get("scope") != strings.Join(o.Scopes, " ") && o.RefreshToken == nil:
		return refuse(http.StatusBadRequest, "invalid_scope")
	}
	for name, value := range o.Parameters {
		if form.Get(name) != value {
			return refuse(http.StatusBadRequest, "invalid_request")
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	token := fmt.Sprintf("simulatedtoken%d%s", len(a.issued)+1, a.s.seed)
	a.issued[token] = true
	body, _ := encode(map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": tokenSeconds}) // texts and a number
	return fakeprovider.Answer{Status: http.StatusOK, Body: body, Header: http.Header{"Cache-Control": {"no-store"}}}
}

// signed compiles how a contract signs requests. The time that was signed is
// read from the header that carries it; how old it is does not count, because
// the provider's clock may be a manual one.
func (s *simulation) signed(h *definition.HMACAuth) func(*fakeprovider.Call) bool {
	at, field := s.provider.Place, "http.auth.hmac"
	if _, known := hashes()[h.Algorithm]; !known {
		s.bad(at, field+".algorithm", `want "sha256", "sha512" or "sha1"`)
		return nil
	}
	env, err := s.language.Env("method", "path", "query", "body", "body_sha256", "timestamp", "signature", "config")
	if err != nil {
		s.bad(at, field, "%v", err)
		return nil
	}
	content, err := env.Template(h.Content)
	if err != nil {
		s.bad(at, field+".content", "%v", err)
		return nil
	}
	headers := map[string]*expr.Template{}
	for name, text := range h.Headers {
		if headers[name], err = env.Template(text); err != nil {
			s.bad(at, field+".headers."+name, "%v", err)
			return nil
		}
	}
	return func(c *fakeprovider.Call) bool {
		path, query, _ := strings.Cut(c.Target, "?")
		sum := sha256.Sum256(c.Body)
		vars := expr.Vars{
			"method": c.Method, "path": path, "query": query, "body": string(c.Body), "body_sha256": hex.EncodeToString(sum[:]),
			"timestamp": timestampIn(h.Headers, c.Header), "signature": "", "config": s.config,
		}
		text, err := content.Text(vars, nil)
		if err != nil {
			return false
		}
		vars["signature"] = mac(h.Algorithm, h.Encoding, []byte(Secret(h.Secret)), text)
		for name, t := range headers {
			if want, err := t.Text(vars, nil); err != nil || c.Header.Get(name) != want {
				return false
			}
		}
		return len(headers) > 0
	}
}

// mac is a keyed hash as text.
func mac(algorithm, encoding string, key []byte, content string) string {
	h := hmac.New(hashes()[algorithm], key)
	h.Write([]byte(content))
	if encoding == "base64" {
		return base64.StdEncoding.EncodeToString(h.Sum(nil))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// decoded is a secret that is base64 of the key.
func decoded(secret string) []byte {
	key, err := base64.StdEncoding.DecodeString(secret)
	if err != nil {
		return []byte(secret) // Secret is base64; this is for whoever changes that
	}
	return key
}

func hashes() map[string]func() hash.Hash {
	return map[string]func() hash.Hash{"": sha256.New, "sha256": sha256.New, "sha512": sha512.New, "sha1": sha1.New}
}

// timestampIn reads the time that was signed out of the headers that carry it.
func timestampIn(templates map[string]string, header http.Header) any {
	for name, template := range templates {
		var pattern bytes.Buffer
		has := false
		for _, p := range pieces(template) {
			switch {
			case !p.expression:
				pattern.WriteString(regexp.QuoteMeta(p.text))
			case strings.Contains(p.text, "timestamp") && !has:
				has = true
				pattern.WriteString(`([0-9]+)`)
			default:
				pattern.WriteString(`.*?`)
			}
		}
		if !has {
			continue
		}
		re, err := regexp.Compile(`^` + pattern.String() + `$`)
		if err != nil {
			continue
		}
		if m := re.FindStringSubmatch(header.Get(name)); m != nil {
			if n, err := parseJSON([]byte(m[1])); err == nil {
				return n // a number, as the contract's expressions see it
			}
		}
	}
	return 0
}
