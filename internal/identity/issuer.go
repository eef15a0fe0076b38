package identity

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

const (
	maxAnswerBytes = 1 << 20 // of an issuer, each
	maxIssuerKeys  = 50
	minRSABits     = 2048
)

// issuer makes tokens that are taken. It is safe for concurrent use.
type issuer struct {
	issuerConfig
	client *http.Client
	keys   *keySet
}

func newIssuer(c issuerConfig, log *slog.Logger) *issuer {
	i := &issuer{issuerConfig: c, client: &http.Client{
		Timeout:   keysTimeout,
		Transport: bounded{&http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}},
		// Where keys come from is in the file, or said by the issuer itself.
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("redirects are not followed") },
	}}
	i.keys = &keySet{fetch: i.fetch, log: log.With("issuer", c.Name)}
	return i
}

// fetch reads the keys that the issuer publishes. Those that could not check a
// token anyway are left out: private, symmetric, weak or malformed ones, and
// those for encryption.
func (i *issuer) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	address := i.JWKS
	if address == "" {
		provider, err := oidc.NewProvider(oidc.ClientContext(ctx, i.client), i.URL)
		if err != nil {
			return nil, fmt.Errorf("discovery: %w", err)
		}
		var published struct {
			JWKS string `json:"jwks_uri"`
		}
		if err := provider.Claims(&published); err != nil {
			return nil, fmt.Errorf("discovery: %w", err)
		}
		if problem := badURL(published.JWKS); problem != "" {
			return nil, fmt.Errorf("discovery: jwks_uri: %s", problem)
		}
		address = published.JWKS
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := i.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the keys: %s", answer.Status)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&set); err != nil {
		return nil, fmt.Errorf("the keys are no JSON Web Key Set: %w", err)
	}
	if len(set.Keys) > maxIssuerKeys {
		return nil, fmt.Errorf("%d keys are more than the %d that are taken", len(set.Keys), maxIssuerKeys)
	}
	var keys []jose.JSONWebKey
	for _, text := range set.Keys {
		var key jose.JSONWebKey
		if err := json.Unmarshal(text, &key); err == nil && checksTokens(key) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key among the issuer's that can check a signature")
	}
	return keys, nil
}

func checksTokens(key jose.JSONWebKey) bool {
	// IsPublic is false for a symmetric key: a token signed with what everybody
	// can read proves nothing.
	if !key.Valid() || !key.IsPublic() || key.Use != "" && key.Use != "sig" {
		return false
	}
	public, ok := key.Key.(*rsa.PublicKey)
	return !ok || public.N.BitLen() >= minRSABits
}

// bounded cuts answers off.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, maxAnswerBytes), answer.Body}
	}
	return answer, err
}

// badURL says what is wrong with the address of something that identity depends
// on; empty: nothing.
func badURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		return "want a URL such as https://login.example.com"
	case u.User != nil || u.Fragment != "":
		return "want a URL without user and fragment"
	case u.Scheme == "https":
		return ""
	case u.Scheme == "http" && (u.Hostname() == "127.0.0.1" || u.Hostname() == "::1" || u.Hostname() == "localhost"):
		return "" // for tests and development: nobody is in between
	default:
		return "want https: who can change the answer on its way could make tokens"
	}
}

// rootsOf reads certificates in PEM.
func rootsOf(pem []byte) (*x509.CertPool, bool) {
	pool := x509.NewCertPool()
	return pool, pool.AppendCertsFromPEM(pem)
}
