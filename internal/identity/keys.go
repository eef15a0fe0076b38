package identity

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/apikey"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
)

// StoredKey is an API key as the ledger has it.
type StoredKey struct {
	Tenant, Actor string
	Roles         []policy.Role
	Hash          []byte // SHA-256 of the whole key
	Usable        bool   // neither expired nor revoked, by the ledger's clock
	TenantActive  bool
}

// keys authenticates by API keys. The secret is compared at every request. It is
// safe for concurrent use.
type keys struct {
	store  Store
	recent recent[StoredKey] // by the key's text without its secret
}

func (k *keys) authenticate(ctx context.Context, token string) (policy.Principal, error) {
	arrived := time.Now()
	// The name only finds what is remembered. That the text is a key at all
	// follows from its hash, which is that of a key that was made.
	known := k.recent.remembered(keyName(token), arrived)
	if known == nil {
		parsed, err := apikey.Parse(token)
		if err != nil {
			return policy.Principal{}, refuse("it is neither an API key nor a token")
		}
		known, err = k.recent.read(ctx, parsed.String(), arrived, func(ctx context.Context) (StoredKey, bool, error) {
			stored, err := k.store.Key(ctx, parsed.Tenant, parsed.ID)
			if errors.Is(err, ledger.ErrNotFound) {
				return StoredKey{}, false, nil
			}
			return stored, true, err
		})
		switch {
		case err != nil:
			return policy.Principal{}, err
		case !known.found:
			return policy.Principal{}, refuse("there is no such API key")
		case known.value.Tenant != parsed.Tenant: // the store answered for another tenant
			return policy.Principal{}, refuse("the API key names another tenant than its own")
		}
	}
	var room [128]byte // of the stack, where the usual key has its copy
	own := sha256.Sum256(append(room[:0], token...))
	p := policy.Principal{Tenant: known.value.Tenant, Actor: known.value.Actor, Roles: known.value.Roles}
	switch {
	case subtle.ConstantTimeCompare(own[:], known.value.Hash) != 1:
		return policy.Principal{}, refuse("the secret of the API key is wrong")
	case !known.value.Usable:
		return policy.Principal{}, refuseProven(p, "the API key has expired or was revoked")
	case !known.value.TenantActive:
		return policy.Principal{}, inactive(p)
	default:
		return p, nil
	}
}

// keyName is the text of a key without its secret: tenant and id.
func keyName(token string) string {
	return token[:max(strings.LastIndexByte(token, '.'), 0)]
}
