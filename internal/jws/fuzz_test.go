package jws

import (
	"bytes"
	"crypto/ed25519"
	"testing"
)

// Whatever text comes: no panic, and what is believed is what was signed.
func FuzzParse(f *testing.F) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	payload := []byte(`{"sub":"op-1"}`)
	good, err := Sign(key, "one", "t+jwt", payload)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		"", "..", "a.b.c", good, good + "=", good[:len(good)-1], " " + good, good + "." + good, "{}",
		"eyJhbGciOiJub25lIn0.e30.", "eyJhbGciOiJIUzI1NiIsInR5cCI6InQrand0In0.e30.AA", `{"payload":"e30","signatures":[]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text, "t+jwt")
		if err != nil {
			return
		}
		got, err := s.Verify(key.Public().(ed25519.PublicKey))
		if err == nil && !bytes.Equal(got, payload) {
			t.Errorf("%q says %q, which nobody signed", text, got)
		}
	})
}

// Whatever text comes as keys: no panic, and each key can be used.
func FuzzParseKeys(f *testing.F) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	good, err := MarshalKeys([]Key{{ID: "one", Public: key.Public().(ed25519.PublicKey)}})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{nil, good, good[:len(good)/2], []byte(`{"keys":[{}]}`), []byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA","kid":"a"}]}`), []byte(`{"keys":[{"kty":"oct","k":"AA","kid":"a"}]}`)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := ParseKeys(text)
		if err != nil {
			return
		}
		for id, k := range keys {
			if id == "" || len(k) != ed25519.PublicKeySize {
				t.Errorf("%q has key %q of %d bytes", text, id, len(k))
			}
		}
	})
}
