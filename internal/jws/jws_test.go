package jws_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/onceward/onceward/internal/jws"
)

const typ = "test+jwt"

// key is one of a few fixed keys.
func key(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func public(k ed25519.PrivateKey) ed25519.PublicKey {
	return ed25519.PublicKey(k[ed25519.SeedSize:])
}

// by signs with what else go-jose can.
func by(t *testing.T, alg jose.SignatureAlgorithm, k any, options *jose.SignerOptions) *jose.JSONWebSignature {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: k}, options)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign([]byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func compact(t *testing.T, s *jose.JSONWebSignature) string {
	t.Helper()
	text, err := s.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestWhatWasSignedIsRead(t *testing.T) {
	text, err := jws.Sign(key(1), "one", typ, []byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := jws.Sign(key(1), "one", typ, []byte("payload"))
	if err != nil || again != text {
		t.Errorf("signed twice: %s and %s, %v", text, again, err)
	}
	statement, err := jws.Parse(text, typ)
	if err != nil || statement.KeyID != "one" {
		t.Fatalf("got %+v, %v", statement, err)
	}
	if payload, err := statement.Verify(public(key(1))); err != nil || string(payload) != "payload" {
		t.Errorf("got %s, %v", payload, err)
	}
	if _, err := statement.Verify(public(key(2))); !errors.Is(err, jws.ErrSignature) {
		t.Errorf("another key: %v", err)
	}
	for i := range len(text) {
		changed := []byte(text)
		changed[i]++
		s, err := jws.Parse(string(changed), typ)
		if err != nil {
			continue
		}
		if payload, err := s.Verify(public(key(1))); err == nil {
			t.Errorf("byte %d changed: verified %s", i, payload)
		}
	}
}

func TestWhatIsNoStatement(t *testing.T) {
	good, err := jws.Sign(key(1), "one", typ, []byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good, ".")
	header := func(text string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(text)) + "." + parts[1] + "." + parts[2]
	}
	withKid := func() *jose.SignerOptions { return (&jose.SignerOptions{}).WithType(typ).WithHeader("kid", "one") }
	for name, text := range map[string]string{
		"nothing":        "",
		"one part":       "abc",
		"no signature":   parts[0] + "." + parts[1] + ".",
		"two parts":      parts[0] + "." + parts[1],
		"four parts":     good + ".abc",
		"alg none":       header(`{"alg":"none","kid":"one","typ":"` + typ + `"}`),
		"alg None":       header(`{"alg":"None","kid":"one","typ":"` + typ + `"}`),
		"no alg":         header(`{"kid":"one","typ":"` + typ + `"}`),
		"HMAC by public": compact(t, by(t, jose.HS256, []byte(public(key(1))), withKid())),
		"its own key":    compact(t, by(t, jose.EdDSA, key(2), &jose.SignerOptions{EmbedJWK: true, ExtraHeaders: map[jose.HeaderKey]any{"typ": typ, "kid": "one"}})),
		"no kid":         compact(t, by(t, jose.EdDSA, key(1), (&jose.SignerOptions{}).WithType(typ))),
		"no typ":         compact(t, by(t, jose.EdDSA, key(1), (&jose.SignerOptions{}).WithHeader("kid", "one"))),
		"another typ":    compact(t, by(t, jose.EdDSA, key(1), (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", "one"))),
		"unknown crit":   compact(t, by(t, jose.EdDSA, key(1), withKid().WithHeader("crit", []string{"x"}).WithHeader("x", 1))),
		"as JSON":        by(t, jose.EdDSA, key(1), withKid()).FullSerialize(),
	} {
		statement, err := jws.Parse(text, typ)
		if err == nil {
			_, err = statement.Verify(public(key(1)))
		}
		if err == nil {
			t.Errorf("%s: believed", name)
		}
	}
}

func TestKeys(t *testing.T) {
	set, err := jws.MarshalKeys([]jws.Key{{ID: "one", Public: public(key(1))}, {ID: "two", Public: public(key(2))}})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := jws.ParseKeys(set)
	if err != nil || len(keys) != 2 || !keys["one"].Equal(public(key(1))) || !keys["two"].Equal(public(key(2))) {
		t.Errorf("got %v, %v", keys, err)
	}
	if bytes.Contains(set, []byte(`"d"`)) {
		t.Errorf("it tells a private key: %s", set)
	}
	empty, err := jws.MarshalKeys(nil)
	if err != nil || string(empty) != `{"keys":[]}` {
		t.Errorf("no keys: %s, %v", empty, err)
	}
}

func TestKeysOfOthers(t *testing.T) {
	element := func(id, more string) string {
		return fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","kid":%q,"x":%q%s}`, id, base64.RawURLEncoding.EncodeToString(public(key(1))), more)
	}
	mine := element("one", "")
	for name, test := range map[string]struct {
		set  string
		want int // keys; 0: refused
	}{
		"of kinds that nobody knows": {`{"keys":[` + mine + `,{"kty":"XYZ","kid":"x"},{"kty":"oct","k":"AAAA","kid":"s"}]}`, 0},
		"beside an unknown kind":     {`{"keys":[` + mine + `,{"kty":"XYZ","kid":"x"}]}`, 1},
		"to encrypt":                 {`{"keys":[` + element("one", `,"use":"enc"`) + `]}`, 0},
		"private":                    {`{"keys":[` + element("one", `,"d":"`+base64.RawURLEncoding.EncodeToString(key(1).Seed())+`"`) + `]}`, 0},
		"without an id":              {`{"keys":[` + element("", "") + `]}`, 0},
		"one id twice":               {`{"keys":[` + mine + `,` + mine + `]}`, 0},
		"none":                       {`{"keys":[]}`, 0},
		"no set":                     {`[]`, 0},
		"too many":                   {`{"keys":[` + strings.Repeat(mine+`,`, 64) + mine + `]}`, 0},
		"too large":                  {`{"keys":[` + mine + `]` + strings.Repeat(" ", jws.MaxKeysBytes) + `}`, 0},
	} {
		keys, err := jws.ParseKeys([]byte(test.set))
		if len(keys) != test.want || (err == nil) != (test.want > 0) {
			t.Errorf("%s: %d keys, %v", name, len(keys), err)
		}
	}
}
