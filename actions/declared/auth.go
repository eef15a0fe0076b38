package declared

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // some providers sign with HMAC-SHA1, which is not broken by collisions
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/actions/httpaction"
)

// authRules are compiled rules of how we prove who we are. Nil is none.
type authRules struct {
	definition.Auth
	user     string // of Basic, a literal
	tokenURL *url.URL
	content  *expr.Template            // of an HMAC
	headers  map[string]*expr.Template // that carry it
	hash     func() hash.Hash
	config   map[string]any
}

func (c *compiler) auth(field string, a *definition.Auth, k *contract) *authRules {
	if a == nil {
		return nil
	}
	out := &authRules{Auth: *a, config: k.config}
	kinds := 0
	for _, set := range []bool{a.Bearer != nil, a.Basic != nil, a.Header != nil, a.Query != nil, a.HMAC != nil, a.OAuth2 != nil} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		c.bad(field, "want exactly one kind of credential; there are %d", kinds)
	}
	if a.Basic != nil {
		if t := c.template(c.envs.config, field+".basic.user", a.Basic.User); t != nil {
			user, err := t.Text(expr.Vars{"config": k.config}, nil)
			if err != nil {
				c.bad(field+".basic.user", "%v", err)
			}
			out.user = user
		}
	}
	if a.OAuth2 != nil {
		out.tokenURL = k.address(c, field+".oauth2.token_url", a.OAuth2.TokenURL)
	}
	if a.HMAC != nil {
		c.hmac(field+".hmac", a.HMAC, out)
	}
	return out
}

func (c *compiler) hmac(field string, h *definition.HMACAuth, out *authRules) {
	out.content = c.template(c.envs.signed, field+".content", h.Content)
	out.headers = map[string]*expr.Template{}
	if len(h.Headers) == 0 {
		c.bad(field+".headers", "want the headers that carry the signature")
	}
	for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
		out.headers[name] = c.template(c.envs.signature, member(field+".headers", name), h.Headers[name])
	}
	switch h.Algorithm {
	case "", "sha256":
		out.hash = sha256.New
	case "sha512":
		out.hash = sha512.New
	case "sha1":
		out.hash = sha1.New
	default:
		c.bad(field+".algorithm", "%q is unknown: want sha256, sha512 or sha1", h.Algorithm)
	}
	if h.Encoding != "" && h.Encoding != "hex" && h.Encoding != "base64" {
		c.bad(field+".encoding", "%q is unknown: want hex or base64", h.Encoding)
	}
}

// perTenant reports whether tenants have credentials of their own.
func (a *authRules) perTenant() bool {
	if a == nil {
		return false
	}
	var refs []definition.Secret
	add := func(refsOf ...*definition.Secret) {
		for _, ref := range refsOf {
			if ref != nil {
				refs = append(refs, *ref)
			}
		}
	}
	add(a.Bearer)
	if a.Basic != nil {
		add(a.Basic.UserSecret, a.Basic.Password)
	}
	if a.Header != nil {
		add(&a.Header.Secret)
	}
	if a.Query != nil {
		add(&a.Query.Secret)
	}
	if a.HMAC != nil {
		add(&a.HMAC.Secret)
	}
	if a.OAuth2 != nil {
		add(&a.OAuth2.ClientID, &a.OAuth2.ClientSecret, a.OAuth2.RefreshToken)
	}
	return slices.ContainsFunc(refs, func(ref definition.Secret) bool {
		return strings.Contains(ref.File, "${tenant}") || strings.Contains(ref.Env, "${TENANT}")
	})
}

// attempt is what a credential is made for; the sender hands it through its
// context.
type attempt struct {
	tenant string
	// operation is the operation token of a write; empty for none.
	operation string
	token     string // that was used, where there is one
	kept      bool   // the token is from before this attempt
}

type attemptKey struct{}

func withAttempt(ctx context.Context, at *attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, at)
}

// authorizer adds credentials to requests. It is safe for concurrent use.
type authorizer struct {
	rules  *authRules // nil: operation tokens alone
	secret func(definition.Secret, string) (string, error)
	tokens *tokens // for OAuth2
	now    func() time.Time
}

var errNoAttempt = errors.New("the request belongs to no attempt")

// credential makes the credential of one attempt. Its errors mean that nothing
// was sent; they hold no secret.
func (z *authorizer) credential(ctx context.Context, r httpaction.Request) (httpaction.Credential, error) {
	at, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return httpaction.Credential{}, errNoAttempt
	}
	credential, err := z.ours(ctx, r, at)
	if err == nil && at.operation != "" {
		credential = withToken(credential, at.operation)
	}
	return credential, err
}

// withToken adds the operation token of a write. Like our own credentials it is
// no part of what is frozen, and is removed from what comes back.
func withToken(c httpaction.Credential, token string) httpaction.Credential {
	if c.Header == nil {
		c.Header = http.Header{}
	}
	c.Header.Set(httpaction.TokenHeader, token)
	return c
}

// ours makes what proves who we are.
func (z *authorizer) ours(ctx context.Context, r httpaction.Request, at *attempt) (httpaction.Credential, error) {
	a := z.rules
	if a == nil {
		return httpaction.Credential{}, nil
	}
	switch {
	case a.Bearer != nil:
		return z.inHeader("Authorization", "Bearer ", *a.Bearer, at)
	case a.Header != nil:
		return z.inHeader(a.Header.Name, a.Header.Prefix, a.Header.Secret, at)
	case a.Query != nil:
		secret, err := z.resolve(a.Query.Secret, at)
		return httpaction.Credential{Query: url.Values{a.Query.Name: {a.Query.Prefix + secret}}, Secrets: []string{secret}}, err
	case a.Basic != nil:
		return z.basic(at)
	case a.HMAC != nil:
		return z.sign(r, at)
	default:
		token, kept, err := z.tokens.get(ctx, at.tenant)
		at.token, at.kept = token, kept
		return headerCredential("Authorization", "Bearer "+token), err
	}
}

func headerCredential(name, value string, secrets ...string) httpaction.Credential {
	return httpaction.Credential{Header: http.Header{http.CanonicalHeaderKey(name): {value}}, Secrets: secrets}
}

func (z *authorizer) inHeader(name, prefix string, ref definition.Secret, at *attempt) (httpaction.Credential, error) {
	secret, err := z.resolve(ref, at)
	return headerCredential(name, prefix+secret, secret), err
}

// resolve reads a secret and refuses what cannot be one: a header would be
// broken by it, and the operation would be refused for good.
func (z *authorizer) resolve(ref definition.Secret, at *attempt) (string, error) {
	return resolveSecret(z.secret, ref, at.tenant)
}

func resolveSecret(secret func(definition.Secret, string) (string, error), ref definition.Secret, tenant string) (string, error) {
	value, err := secret(ref, tenant)
	if err != nil {
		return "", err
	}
	if value == "" || strings.TrimSpace(value) != value || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", fmt.Errorf("the secret %s is empty, or has white space around it or a control character in it", nameOf(ref))
	}
	return value, nil
}

// nameOf says which secret is meant.
func nameOf(ref definition.Secret) string {
	if ref.Env != "" {
		return "of the environment variable " + ref.Env
	}
	return "in the file " + ref.File
}

func (z *authorizer) basic(at *attempt) (httpaction.Credential, error) {
	b := z.rules.Basic
	user, password := z.rules.user, b.PasswordIsText
	var secrets []string
	for _, part := range []struct {
		ref  *definition.Secret
		into *string
	}{{b.UserSecret, &user}, {b.Password, &password}} {
		if part.ref == nil {
			continue
		}
		secret, err := z.resolve(*part.ref, at)
		if err != nil {
			return httpaction.Credential{}, err
		}
		*part.into = secret
		secrets = append(secrets, secret)
	}
	if strings.Contains(user, ":") {
		return httpaction.Credential{}, errors.New("the user name has a colon, which Basic cannot carry")
	}
	value := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	return headerCredential("Authorization", "Basic "+value, secrets...), nil
}

// sign makes the signature of the final request.
func (z *authorizer) sign(r httpaction.Request, at *attempt) (httpaction.Credential, error) {
	key, err := z.resolve(z.rules.HMAC.Secret, at)
	if err != nil {
		return httpaction.Credential{}, err
	}
	u, err := url.Parse(r.URL)
	if err != nil {
		return httpaction.Credential{}, errors.New("the URL cannot be parsed")
	}
	timestamp := z.now().Unix()
	sum := sha256.Sum256(r.Body)
	content, err := z.rules.content.Text(expr.Vars{
		"method": r.Method, "path": u.EscapedPath(), "query": u.RawQuery, "body": string(r.Body),
		"body_sha256": hex.EncodeToString(sum[:]), "timestamp": timestamp,
	}, nil)
	if err != nil {
		return httpaction.Credential{}, fmt.Errorf("signed content: %w", err)
	}
	mac := hmac.New(z.rules.hash, []byte(key))
	mac.Write([]byte(content))
	signature := hex.EncodeToString(mac.Sum(nil))
	if z.rules.HMAC.Encoding == "base64" {
		signature = base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	out := httpaction.Credential{Header: http.Header{}, Secrets: []string{key, signature}}
	vars := expr.Vars{"signature": signature, "timestamp": timestamp, "config": z.rules.config}
	for name, template := range z.rules.headers {
		value, err := template.Text(vars, nil)
		if err != nil {
			return httpaction.Credential{}, fmt.Errorf("header %s: %w", name, err)
		}
		out.Header.Set(name, value)
	}
	return out, nil
}
