package app

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/onceward/onceward/internal/apikey"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/postgres"
	"github.com/onceward/onceward/policy"
	"github.com/onceward/onceward/server"
)

const (
	// keyLife is how long an API key is taken for what the ledger said of it: a
	// revoked key and a disabled tenant stop within it.
	keyLife = time.Second
	// maxYoungKeys bounds each of two generations of remembered keys, at some
	// 500 bytes a key.
	maxYoungKeys = 5000
	// keyReadTimeout bounds one read, which does not end with the caller that
	// was first to ask.
	keyReadTimeout = 10 * time.Second
)

// keyStore is where API keys are stored. It fails with ledger.ErrNotFound or
// ledger.ErrUnavailable.
type keyStore interface {
	Credential(ctx context.Context, tenant, keyID string) (postgres.Credential, error)
}

// apiKeys authenticates requests by API keys in the ledger. What the ledger says
// of a key is remembered for one second, so that a revoked key stops within a
// second; the secret is compared at every request. Requests that come together
// share one read. While the ledger does not answer nobody is let in, once the
// second is over.
//
// Only keys that the ledger has are remembered: whoever guesses names fills no
// memory. It is safe for concurrent use.
type apiKeys struct {
	store keyStore
	reads singleflight.Group

	mu sync.RWMutex
	// By the key's text without its secret, in two generations: the old one is
	// dropped as a whole, so that forgetting costs nothing.
	young, old map[string]*knownKey
	begun      time.Time // of the young one
}

// knownKey is an API key as the ledger had it. It is not changed.
type knownKey struct {
	hash      []byte // of the whole key; nil: the ledger has no such key
	usable    bool
	active    bool // its tenant
	principal policy.Principal
	read      time.Time // before the ledger was asked
}

var _ server.Authenticator = (*apiKeys)(nil)

func newAPIKeys(store keyStore) *apiKeys {
	return &apiKeys{store: store, young: map[string]*knownKey{}}
}

// Authenticate implements server.Authenticator.
func (a *apiKeys) Authenticate(ctx context.Context, token string) (policy.Principal, error) {
	arrived := time.Now()
	// The name only finds what is remembered. That the text is a key at all
	// follows from its hash, which is that of a key that was made.
	key := a.remembered(name(token), arrived)
	if key == nil {
		var err error
		if key, err = a.read(ctx, token, arrived); err != nil {
			return policy.Principal{}, err
		}
	}
	own := sha256.Sum256([]byte(token))
	switch {
	case subtle.ConstantTimeCompare(own[:], key.hash) != 1, !key.usable:
		return policy.Principal{}, server.ErrBadCredential
	case !key.active:
		return policy.Principal{}, server.ErrTenantInactive
	default:
		return key.principal, nil
	}
}

// name is the text of a key without its secret: tenant and id.
func name(token string) string {
	return token[:max(strings.LastIndexByte(token, '.'), 0)]
}

func (a *apiKeys) remembered(name string, now time.Time) *knownKey {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for _, generation := range [...]map[string]*knownKey{a.young, a.old} {
		if key, ok := generation[name]; ok && key.fresh(now) {
			return key
		}
	}
	return nil
}

// fresh by both clocks: the monotonic one stands still while a machine sleeps.
func (k *knownKey) fresh(now time.Time) bool {
	return max(now.Sub(k.read), now.Round(0).Sub(k.read.Round(0))) < keyLife
}

// read asks the ledger for a key, together with everybody else who asks for it
// now.
func (a *apiKeys) read(ctx context.Context, token string, arrived time.Time) (*knownKey, error) {
	parsed, err := apikey.Parse(token)
	if err != nil {
		return nil, server.ErrBadCredential
	}
	for {
		shared := a.reads.DoChan(parsed.String(), func() (any, error) {
			detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), keyReadTimeout)
			defer cancel()
			return a.ask(detached, parsed)
		})
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case result := <-shared:
			key, _ := result.Val.(*knownKey)
			switch {
			case result.Err != nil:
				return nil, result.Err
			case key.hash == nil && !key.read.Before(arrived):
				return nil, server.ErrBadCredential
			case key.hash != nil && key.fresh(arrived):
				return key, nil
			}
			// A read that began before this request came, and is too old for it:
			// the key may have been made, or revoked, since.
		}
	}
}

func (a *apiKeys) ask(ctx context.Context, parsed apikey.Key) (*knownKey, error) {
	asked := time.Now()
	stored, err := a.store.Credential(ctx, parsed.Tenant, parsed.ID)
	if errors.Is(err, ledger.ErrNotFound) {
		return &knownKey{read: asked}, nil // and not remembered
	}
	if err != nil {
		return nil, err
	}
	key := &knownKey{
		hash: stored.Hash, usable: stored.Usable, active: stored.TenantActive, read: asked,
		principal: policy.Principal{Tenant: stored.Tenant, Actor: stored.Actor},
	}
	for _, role := range stored.Roles {
		key.principal.Roles = append(key.principal.Roles, policy.Role(role))
	}
	a.remember(parsed.String(), key)
	return key, nil
}

// remember keeps a key.
func (a *apiKeys) remember(name string, key *knownKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.young) >= maxYoungKeys || key.read.Sub(a.begun) >= keyLife {
		a.young, a.old, a.begun = map[string]*knownKey{}, a.young, key.read
	}
	a.young[name] = key
}
