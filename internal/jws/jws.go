package jws

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

var (
	// ErrMalformed: the text is not a statement of the form and type wanted.
	ErrMalformed = errors.New("jws: not a signed statement of this type")
	// ErrSignature: the signature is not that of this key over this text.
	ErrSignature = errors.New("jws: the signature does not match")
)

// Sign makes a statement of payload. Equal payloads under one key make equal
// statements.
func Sign(key ed25519.PrivateKey, keyID, typ string, payload []byte) (string, error) {
	options := (&jose.SignerOptions{}).WithType(jose.ContentType(typ)).WithHeader("kid", keyID)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key}, options)
	if err != nil {
		return "", fmt.Errorf("jws: %w", err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("jws: %w", err)
	}
	return signed.CompactSerialize()
}

// Statement is one that was read, and is not believed yet.
type Statement struct {
	KeyID  string // of the key that is said to have signed it
	signed *jose.JSONWebSignature
}

// Parse reads a statement of a type. It fails with ErrMalformed.
func Parse(text, typ string) (Statement, error) {
	// One statement has one spelling: the bits of a last character that say
	// nothing are 0.
	for part := range strings.SplitSeq(text, ".") {
		if _, err := base64.RawURLEncoding.Strict().DecodeString(part); err != nil {
			return Statement{}, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
	}
	signed, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		return Statement{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if len(signed.Signatures) != 1 {
		return Statement{}, ErrMalformed
	}
	header := signed.Signatures[0].Protected
	switch {
	case header.ExtraHeaders[jose.HeaderType] != typ:
		return Statement{}, fmt.Errorf("%w: another type", ErrMalformed)
	case header.KeyID == "":
		return Statement{}, fmt.Errorf("%w: no key id", ErrMalformed)
	case header.JSONWebKey != nil:
		return Statement{}, fmt.Errorf("%w: it brings its own key", ErrMalformed)
	}
	return Statement{KeyID: header.KeyID, signed: signed}, nil
}

// Verify returns what the statement says if key signed it, else ErrSignature.
func (s Statement) Verify(key ed25519.PublicKey) ([]byte, error) {
	payload, err := s.signed.Verify(key)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	return payload, nil
}
