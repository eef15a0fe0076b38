package identity

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/onceward/onceward/internal/apikey"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
)

// start is when tests of tokens are.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// provider is an OIDC provider that publishes keys.
type provider struct {
	*httptest.Server
	reads atomic.Int32 // of the keys

	mu   sync.Mutex
	keys []jose.JSONWebKey
	away bool
	hold chan struct{} // not nil: reads of the keys wait for it
	// discovery, if set, is what is published instead.
	discovery string
}

func newProvider(t testing.TB, keys ...signer) *provider {
	t.Helper()
	p := &provider{}
	p.publish(keys...)
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.discovery != "" {
			fmt.Fprint(w, p.discovery)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": p.URL, "jwks_uri": p.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, r *http.Request) {
		p.reads.Add(1)
		p.mu.Lock()
		keys, away, hold := p.keys, p.away, p.hold
		p.mu.Unlock()
		if hold != nil {
			select {
			case <-hold:
			case <-r.Context().Done():
			}
		}
		if away {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: keys})
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *provider) publish(keys ...signer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = nil
	for _, key := range keys {
		p.keys = append(p.keys, key.public())
	}
}

func (p *provider) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// signer is a private key with its id and algorithm.
type signer struct {
	id        string
	algorithm jose.SignatureAlgorithm
	key       any // crypto.Signer, or []byte
}

func (s signer) public() jose.JSONWebKey {
	k := jose.JSONWebKey{KeyID: s.id, Use: "sig", Key: s.key}
	if private, ok := s.key.(crypto.Signer); ok {
		k.Key = private.Public()
	}
	return k
}

// sign makes a token of a payload that can be anything.
func (s signer) sign(t testing.TB, payload []byte, headers ...func(*jose.SignerOptions)) string {
	t.Helper()
	options := (&jose.SignerOptions{}).WithType("JWT")
	for _, change := range headers {
		change(options)
	}
	made, err := jose.NewSigner(jose.SigningKey{Algorithm: s.algorithm, Key: jose.JSONWebKey{Key: s.key, KeyID: s.id}}, options)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := made.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (s signer) token(t testing.TB, c map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return s.sign(t, payload)
}

func ed(t testing.TB, id string) signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{id, jose.EdDSA, key}
}

func ec(t testing.TB, id string) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{id, jose.ES256, key}
}

// rsaKey is made once: it takes long.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, minRSABits)
	if err != nil {
		panic(err)
	}
	return key
})

// standard are the claims of a good token.
func standard(p *provider) map[string]any {
	return map[string]any{
		"iss": p.URL, "aud": "onceward", "sub": "planner-7", "org": "acme", "groups": []string{"everybody", "payment-agents"},
		"iat": start.Unix(), "exp": start.Add(time.Hour).Unix(), "jti": "first",
	}
}

// with returns claims with changes: name, value and so on; nil takes one away.
func with(c map[string]any, changes ...any) map[string]any {
	for i := 0; i < len(changes); i += 2 {
		name := changes[i].(string)
		if changes[i+1] == nil {
			delete(c, name)
			continue
		}
		c[name] = changes[i+1]
	}
	return c
}

// config is how issuers of tests are configured, checked as a file's would be.
func config(t testing.TB, p *provider, change func(*issuerConfig)) issuerConfig {
	t.Helper()
	c := issuerConfig{
		Name: "corp", URL: p.URL, Audiences: []string{"onceward", "onceward-staging"}, Tenants: []string{"acme", "globex"},
		Tenant: source{Claim: claimPath{"org"}}, Actor: source{Claim: claimPath{"sub"}, Prefix: "corp:"},
		Roles: roleSource{Claim: claimPath{"groups"}, Map: map[string]policy.Role{"payment-agents": policy.Agent, "risk": policy.Reviewer, "audit": policy.Auditor}},
	}
	if change != nil {
		change(&c)
	}
	c.check("issuer", func(path, format string, args ...any) { t.Fatalf(path+": "+format, args...) })
	return c
}

// store is a ledger of credentials in memory.
type store struct {
	mu      sync.Mutex
	keys    map[string]StoredKey
	tenants map[string]bool
	used    map[[32]byte]time.Time
	err     error
	delay   time.Duration
	reads   int // of keys and tenants
}

func newStore(made ...apikey.Key) *store {
	s := &store{keys: map[string]StoredKey{}, tenants: map[string]bool{"acme": true, "globex": true}, used: map[[32]byte]time.Time{}}
	for _, key := range made {
		s.put(key, true, true)
	}
	return s
}

// put makes or changes a key as it is stored.
func (s *store) put(key apikey.Key, usable, active bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hash := key.Hash()
	s.keys[key.String()] = StoredKey{
		Tenant: key.Tenant, Hash: hash[:], Actor: "planner", Roles: []policy.Role{policy.Agent}, Usable: usable, TenantActive: active,
	}
}

func (s *store) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *store) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// slow waits as long as the ledger takes: what was read is as old as that.
func (s *store) slow(ctx context.Context, delay time.Duration, err error) error {
	select {
	case <-time.After(delay):
		return err
	case <-ctx.Done():
		return ledger.ErrUnavailable
	}
}

func (s *store) Key(ctx context.Context, tenant, id string) (StoredKey, error) {
	s.mu.Lock()
	s.reads++
	key, ok := s.keys[apikey.Prefix+tenant+"."+id]
	err, delay := s.err, s.delay
	s.mu.Unlock()
	if err == nil && !ok {
		err = ledger.ErrNotFound
	}
	return key, s.slow(ctx, delay, err)
}

func (s *store) TenantActive(ctx context.Context, tenant string) (bool, error) {
	s.mu.Lock()
	s.reads++
	active, ok := s.tenants[tenant]
	err, delay := s.err, s.delay
	s.mu.Unlock()
	if err == nil && !ok {
		err = ledger.ErrNotFound
	}
	return active, s.slow(ctx, delay, err)
}

func (s *store) UseToken(_ context.Context, _ string, hash [32]byte, until time.Time) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, used := s.used[hash]
	if s.err == nil && !used {
		s.used[hash] = until
	}
	return !used, s.err
}

// quiet is a log that a test does not look at.
func quiet(t testing.TB) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// authenticator takes tokens of issuers, at start.
func authenticator(t testing.TB, s Store, certificates []certificateRule, issuers ...issuerConfig) *Authenticator {
	t.Helper()
	r := &rules{issuers: map[string]*issuer{}, certificates: certificates}
	for _, c := range issuers {
		r.issuers[c.URL] = newIssuer(c, quiet(t))
	}
	f := &File{}
	f.rules.Store(r)
	return New(Options{Store: s, File: f, Now: func() time.Time { return start.Add(time.Minute) }})
}
