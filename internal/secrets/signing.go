package secrets

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const signingPrefix = "sign-"

// SigningKey is an Ed25519 key that signs, will sign, or signed.
type SigningKey struct {
	ID        string // follows from the public key
	Private   ed25519.PrivateKey
	CreatedAt time.Time
	Primary   bool // it is the one to sign with
}

// signing are the signing keys. The zero value has none. It is not changed.
type signing struct {
	raw  []byte // as it is stored; nil: there is no file
	keys []SigningKey
}

// signingDocument is the file.
type signingDocument struct {
	Primary string           `json:"primary"`
	Keys    []signingElement `json:"keys"` // in the order that they were made in
}

type signingElement struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	Seed      string    `json:"seed"` // 32 bytes, base64url: RFC 8032's private key
}

// readSigning reads the signing keys; a folder without the file has none.
func readSigning(dir string) (signing, error) {
	path := filepath.Join(dir, signingFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return signing{}, nil
	}
	raw, err := readPrivate(path)
	if err != nil {
		return signing{}, err
	}
	s, err := parseSigning(raw)
	if err != nil {
		return signing{}, fmt.Errorf("secrets: %s: %w", path, err)
	}
	return s, nil
}

// parseSigning refuses what it is not sure of. Its errors show nothing of keys.
func parseSigning(raw []byte) (signing, error) {
	var document signingDocument
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&document); err != nil || decoder.More() {
		return signing{}, errors.New("it is not a file of signing keys")
	}
	s := signing{raw: raw}
	primaries := 0
	for i, e := range document.Keys {
		seed, err := base64.RawURLEncoding.DecodeString(e.Seed)
		if err != nil || len(seed) != ed25519.SeedSize {
			return signing{}, fmt.Errorf("keys[%d].seed: want %d bytes in base64url", i, ed25519.SeedSize)
		}
		key := ed25519.NewKeyFromSeed(seed)
		if e.ID != signingID(key) {
			return signing{}, fmt.Errorf("keys[%d].id: it is not the id of this key", i)
		}
		if slices.ContainsFunc(s.keys, func(k SigningKey) bool { return k.ID == e.ID }) {
			return signing{}, fmt.Errorf("keys[%d].id: %s is there twice", i, e.ID)
		}
		if e.ID == document.Primary {
			primaries++
		}
		s.keys = append(s.keys, SigningKey{ID: e.ID, Private: key, CreatedAt: e.CreatedAt, Primary: e.ID == document.Primary})
	}
	if primaries != 1 {
		return signing{}, errors.New("primary: it names none of the keys")
	}
	return s, nil
}

// signingID names a key by the start of the SHA-256 of its public half: long
// enough to be unique, short enough to type.
func signingID(key ed25519.PrivateKey) string {
	sum := sha256.Sum256(key[ed25519.SeedSize:])
	return signingPrefix + hex.EncodeToString(sum[:8])
}

// with is the set with one key more: the next, or the primary of an empty one.
func (s signing) with() (signing, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return signing{}, fmt.Errorf("secrets: %w", err)
	}
	return signingOf(append(slices.Clone(s.keys), SigningKey{
		ID: signingID(key), Private: key, CreatedAt: time.Now().UTC().Truncate(time.Second), Primary: len(s.keys) == 0,
	}))
}

// promoted is the set with another primary.
func (s signing) promoted(id string) (signing, error) {
	keys := slices.Clone(s.keys)
	for i := range keys {
		keys[i].Primary = keys[i].ID == id
	}
	return signingOf(keys)
}

// without is the set with one key less.
func (s signing) without(id string) (signing, error) {
	return signingOf(slices.DeleteFunc(slices.Clone(s.keys), func(k SigningKey) bool { return k.ID == id }))
}

func signingOf(keys []SigningKey) (signing, error) {
	var document signingDocument
	for _, k := range keys {
		if k.Primary {
			document.Primary = k.ID
		}
		document.Keys = append(document.Keys, signingElement{
			ID: k.ID, CreatedAt: k.CreatedAt, Seed: base64.RawURLEncoding.EncodeToString(k.Private.Seed()),
		})
	}
	raw, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return signing{}, fmt.Errorf("secrets: %w", err)
	}
	return parseSigning(append(raw, '\n')) // what cannot be read back is not written
}

func (s signing) list() []KeyInfo {
	out := make([]KeyInfo, 0, len(s.keys))
	for _, k := range s.keys {
		out = append(out, KeyInfo{ID: k.ID, Kind: Signing, State: primaryIf(k.Primary), CreatedAt: k.CreatedAt})
	}
	return aroundPrimary(out)
}
