package jws

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

const (
	// MaxKeysBytes bounds a set of keys as text.
	MaxKeysBytes = 64 << 10
	maxKeys      = 64
)

// ErrKeys: the text is no set of keys, or one with nothing for us.
var ErrKeys = errors.New("jws: not a JSON Web Key Set with Ed25519 keys")

// Key is one to verify with.
type Key struct {
	ID     string
	Public ed25519.PublicKey
}

// MarshalKeys renders a JSON Web Key Set (RFC 7517) of public keys.
func MarshalKeys(keys []Key) ([]byte, error) {
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, k := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: k.Public, KeyID: k.ID, Algorithm: string(jose.EdDSA), Use: "sig"})
	}
	return json.Marshal(set)
}

// ParseKeys reads a JSON Web Key Set. Keys that are not Ed25519 keys to sign
// with are passed over; a private key, one without an id and an id that is there
// twice are refused, since somebody made a mistake. It fails with ErrKeys.
func ParseKeys(text []byte) (map[string]ed25519.PublicKey, error) {
	if len(text) > MaxKeysBytes {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrKeys, MaxKeysBytes)
	}
	// One by one: a key of a kind that go-jose does not know is nothing to us.
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, ErrKeys
	}
	if len(document.Keys) > maxKeys {
		return nil, fmt.Errorf("%w: more than %d keys", ErrKeys, maxKeys)
	}
	keys := map[string]ed25519.PublicKey{}
	for i, raw := range document.Keys {
		var k jose.JSONWebKey
		if err := k.UnmarshalJSON(raw); err != nil {
			continue
		}
		public, ok := k.Key.(ed25519.PublicKey)
		switch {
		case !k.IsPublic():
			return nil, fmt.Errorf("%w: keys[%d] is private: it is no secret any more, replace it", ErrKeys, i)
		case !ok || k.Use != "" && k.Use != "sig":
			continue
		case k.KeyID == "" || keys[k.KeyID] != nil:
			return nil, fmt.Errorf("%w: keys[%d]: want a kid of its own", ErrKeys, i)
		}
		keys[k.KeyID] = public
	}
	if len(keys) == 0 {
		return nil, ErrKeys
	}
	return keys, nil
}
