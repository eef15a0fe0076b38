package declared

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	"golang.org/x/sync/singleflight"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/httpaction"
)

const (
	tokenTimeout = 10 * time.Second // of one token call
	// defaultLife is how long a token is used that says no end.
	defaultLife = 10 * time.Minute
	// renewAhead is how long before its end a token is renewed, at most a fifth of
	// its life.
	renewAhead = time.Minute
	// renewPause is how long a token that is still good is used before another
	// try, where renewing it failed.
	renewPause = 15 * time.Second

	maxTokenBytes = 64 << 10 // of the answer to a token call

	// keptTokens is how many tenants' tokens are kept before those are dropped that
	// have ended. One whose provider gave it a refresh token of its own stays: nothing
	// else can renew it.
	keptTokens = 1024
)

// tokens fetches OAuth2 access tokens and keeps them until shortly before they
// end. A token call is never a part of an attempt: it happens before the first
// byte, and where it fails nothing was sent. It is safe for concurrent use.
type tokens struct {
	rules     *definition.OAuth2Auth
	url       string
	client    *http.Client
	secret    func(definition.Secret, string) (string, error)
	perTenant bool
	now       func() time.Time

	group singleflight.Group
	mu    sync.Mutex
	known map[string]*token // by tenant, or "" where all share one
	// sweepAt is how many there are when ended ones are dropped.
	sweepAt int
}

type token struct {
	value          string
	renewAt, endAt time.Time
	// refresh is a refresh token that the provider gave in place of the configured
	// one, for as long as that stays the same.
	configured, refresh string
}

// newTokens makes a store whose calls go out through sender.
func newTokens(rules *authRules, address string, sender *httpaction.Sender, o Options) *tokens {
	return &tokens{
		rules: rules.OAuth2, url: address, secret: o.Secret, now: o.Now, perTenant: rules.perTenant(),
		client: &http.Client{
			Transport:     tokenTransport{sender},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		known: map[string]*token{}, sweepAt: keptTokens,
	}
}

func (t *tokens) slot(tenant string) string {
	if t.perTenant {
		return tenant
	}
	return ""
}

// get returns a token that is good, from memory where it can; kept says so.
func (t *tokens) get(ctx context.Context, tenant string) (value string, kept bool, err error) {
	slot := t.slot(tenant)
	if value, ok := t.fresh(slot); ok {
		return value, true, nil
	}
	// The call is shared, so that it ends with none of those who wait for it.
	shared := context.WithoutCancel(ctx)
	done := t.group.DoChan(slot, func() (any, error) {
		if value, ok := t.fresh(slot); ok {
			return value, nil
		}
		return t.renew(shared, slot, tenant)
	})
	select {
	case <-ctx.Done():
		return "", false, fmt.Errorf("waiting for an access token: %w", context.Cause(ctx))
	case result := <-done:
		value, _ := result.Val.(string)
		return value, false, result.Err
	}
}

func (t *tokens) fresh(slot string) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.known[slot]
	if known == nil || known.value == "" || !t.now().Before(known.renewAt) {
		return "", false
	}
	return known.value, true
}

// renew fetches a token. Where that fails, one that has not ended goes on.
func (t *tokens) renew(ctx context.Context, slot, tenant string) (string, error) {
	next, err := t.fetch(ctx, slot, tenant)
	t.mu.Lock()
	defer t.mu.Unlock()
	known, now := t.known[slot], t.now()
	if err == nil {
		t.keep(slot, next, now)
		return next.value, nil
	}
	if known != nil && known.value != "" && now.Before(known.endAt) {
		known.renewAt = now.Add(renewPause)
		return known.value, nil
	}
	return "", err
}

// keep remembers a token. The caller holds mu.
func (t *tokens) keep(slot string, next *token, now time.Time) {
	if len(t.known) >= t.sweepAt {
		maps.DeleteFunc(t.known, func(_ string, known *token) bool {
			return !now.Before(known.endAt) && known.refresh == known.configured
		})
		t.sweepAt = max(keptTokens, 2*len(t.known))
	}
	t.known[slot] = next
}

// drop forgets a token that the provider refused, unless there is another one
// already. The attempt that used it is not made again here.
func (t *tokens) drop(tenant, refused string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.known[t.slot(tenant)]; known != nil && known.value == refused {
		known.value = "" // its refresh token stays
	}
}

// fetch makes one token call.
func (t *tokens) fetch(ctx context.Context, slot, tenant string) (*token, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	id, err := resolveSecret(t.secret, t.rules.ClientID, tenant)
	if err != nil {
		return nil, err
	}
	password, err := resolveSecret(t.secret, t.rules.ClientSecret, tenant)
	if err != nil {
		return nil, err
	}
	next := &token{}
	if t.rules.RefreshToken != nil {
		if next.configured, err = resolveSecret(t.secret, *t.rules.RefreshToken, tenant); err != nil {
			return nil, err
		}
		next.refresh = t.refreshToken(slot, next.configured)
	}
	asked := t.now()
	got, err := t.call(context.WithValue(ctx, oauth2.HTTPClient, t.client), id, password, next.refresh)
	if err != nil {
		return nil, describeTokenError(err)
	}
	if !strings.EqualFold(got.Type(), "bearer") {
		return nil, errors.New("the token endpoint gave a token that is no bearer token")
	}
	if strings.ContainsFunc(got.AccessToken, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, errors.New("the token endpoint gave a token that no header can carry")
	}
	life := defaultLife
	if !got.Expiry.IsZero() { // which oauth2 counted from the machine's clock, just now
		life = max(time.Until(got.Expiry).Round(time.Second), 0)
	}
	next.value, next.endAt = got.AccessToken, asked.Add(life)
	next.renewAt = next.endAt.Add(-min(renewAhead, life/5))
	if got.RefreshToken != "" {
		next.refresh = got.RefreshToken
	}
	return next, nil
}

// refreshToken is the one that the provider gave last, or the configured one
// where that is another than it was.
func (t *tokens) refreshToken(slot, configured string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.known[slot]; known != nil && known.configured == configured && known.refresh != "" {
		return known.refresh
	}
	return configured
}

func (t *tokens) call(ctx context.Context, id, password, refresh string) (*oauth2.Token, error) {
	style := oauth2.AuthStyleInHeader
	if t.rules.Style == "body" {
		style = oauth2.AuthStyleInParams
	}
	if refresh != "" {
		config := oauth2.Config{ClientID: id, ClientSecret: password, Endpoint: oauth2.Endpoint{TokenURL: t.url, AuthStyle: style}}
		return config.TokenSource(ctx, &oauth2.Token{RefreshToken: refresh}).Token()
	}
	more := url.Values{}
	for name, value := range t.rules.Parameters {
		more.Set(name, value)
	}
	config := clientcredentials.Config{
		ClientID: id, ClientSecret: password, TokenURL: t.url, Scopes: t.rules.Scopes, EndpointParams: more, AuthStyle: style,
	}
	return config.Token(ctx)
}

// describeTokenError says what went wrong without the answer's text, which may
// repeat what was sent.
func describeTokenError(err error) error {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		text := fmt.Sprintf("the token endpoint answered HTTP %d", refused.Response.StatusCode)
		if slices.Contains(tokenErrors, refused.ErrorCode) {
			text += " (" + refused.ErrorCode + ")"
		}
		return errors.New(text)
	}
	if failed, ok := errors.AsType[*tokenCallError](err); ok {
		return failed
	}
	return errors.New("the token endpoint's answer is no token")
}

// tokenErrors are the codes of RFC 6749, section 5.2, and those that servers say
// beside them. Another text could be what we sent.
var tokenErrors = []string{
	"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
	"access_denied", "server_error", "temporarily_unavailable",
}

// tokenCallError is a token call without an answer.
type tokenCallError struct{ evidence string }

func (e *tokenCallError) Error() string { return "the token endpoint gave no answer: " + e.evidence }

// tokenTransport sends token calls under the same limits as everything else: to
// the one origin, to no private address that is not named, once.
type tokenTransport struct{ sender *httpaction.Sender }

type authorizationKey struct{}

// RoundTrip implements http.RoundTripper.
func (t tokenTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	header := req.Header.Clone()
	authorization := http.Header{}
	if values := header.Values("Authorization"); len(values) > 0 {
		authorization["Authorization"] = values
	}
	header.Del("Authorization")
	header.Set("Accept", mediaJSON)
	ctx := context.WithValue(req.Context(), authorizationKey{}, authorization)
	x := t.sender.Send(ctx, httpaction.Request{Method: req.Method, URL: req.URL.String(), Header: header, Body: body})
	if !x.Complete {
		return nil, &tokenCallError{x.Evidence}
	}
	return &http.Response{
		StatusCode: x.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: x.Header, Body: io.NopCloser(bytes.NewReader(x.Body)), ContentLength: int64(len(x.Body)), Request: req,
	}, nil
}

// tokenCredential hands the client's credential through, which oauth2 made.
func tokenCredential(ctx context.Context, _ httpaction.Request) (http.Header, error) {
	header, _ := ctx.Value(authorizationKey{}).(http.Header)
	return header, nil
}
