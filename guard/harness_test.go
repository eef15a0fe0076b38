package guard_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/guard"
	"github.com/onceward/onceward/internal/jws"
)

const (
	issuer   = "urn:onceward:test"
	audience = "billing"
	action   = "payments.refund.create"
)

// noon is what every clock of these tests shows, unless it is moved.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func now() time.Time { return noon }

// key is one of a few fixed keys.
func key(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return ed25519.PublicKey(k[ed25519.SeedSize:]) }

func hashOf(t testing.TB, arguments string, advisory ...string) string {
	t.Helper()
	args, err := actions.ParseArguments([]byte(arguments))
	if err != nil {
		t.Fatal(err)
	}
	hash := args.IdentityHash(advisory)
	return hex.EncodeToString(hash[:])
}

// claims are good ones.
func claims(t testing.TB) guard.Claims {
	t.Helper()
	return guard.Claims{
		Issuer: issuer, Audience: audience, OperationID: "op-1", Tenant: "acme", ActionType: action,
		ArgumentsHash: hashOf(t, `{"amount":1000}`), Attempt: 1, ID: "op-1/1",
		IssuedAt: noon.Unix(), ExpiresAt: noon.Add(30 * time.Second).Unix(),
	}
}

func sign(t testing.TB, what any) string {
	t.Helper()
	payload, err := json.Marshal(what)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jws.Sign(key(1), "one", guard.TokenType, payload)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func set(t testing.TB, keys ...jws.Key) []byte {
	t.Helper()
	text, err := jws.MarshalKeys(keys)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func one() jws.Key { return jws.Key{ID: "one", Public: public(key(1))} }

func verifier(t testing.TB, keys guard.Keys) *guard.Verifier {
	t.Helper()
	if keys == nil {
		var err error
		if keys, err = guard.StaticKeys(set(t, one())); err != nil {
			t.Fatal(err)
		}
	}
	v, err := guard.NewVerifier(guard.VerifierOptions{Issuer: issuer, Audience: audience, Keys: keys, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func guarded(t testing.TB, o guard.Options) *guard.Guard {
	t.Helper()
	if o.Verifier == nil {
		o.Verifier = verifier(t, nil)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	g, err := guard.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// failingKeys are away.
type failingKeys struct{}

func (failingKeys) Key(context.Context, string) (ed25519.PublicKey, error) {
	return nil, guard.ErrKeysUnavailable
}
