package webhook

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // some providers sign with HMAC-SHA1, which is not broken by collisions
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/actions"
)

var (
	// ErrUnverified: nothing proves that the provider sent the message. What it
	// says beyond that is for the log, not for the sender.
	ErrUnverified = errors.New("webhook: not verified")
	// ErrSecrets: there is no secret, or one that cannot be used: nothing can be
	// verified until the configuration is mended.
	ErrSecrets = errors.New("webhook: unusable secret")
)

// maxSignatures bounds what one message makes us compute and compare. Rotations
// need two.
const maxSignatures = 16

// Verifier verifies messages by one set of rules. It never changes and is safe
// for concurrent use.
type Verifier struct {
	rules Rules
}

// New makes a verifier, or says what is wrong with the rules.
func New(r Rules) (*Verifier, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if r.Tolerance == 0 {
		r.Tolerance = DefaultTolerance
	}
	if r.Scheme == GitHub {
		r.Header, r.Prefix = "X-Hub-Signature-256", "sha256="
	}
	if len(r.Content) == 0 {
		r.Content = []Part{{Kind: Body}}
	}
	r.Content = slices.Clone(r.Content)
	return &Verifier{rules: r}, nil
}

// envelope is what a message says of itself.
type envelope struct {
	signatures [][]byte // those that could be read
	content    []byte   // that is signed
	timestamp  string   // as it came; empty where the scheme has none
}

// Verify reports whether one of the secrets signed a message, and whether its
// time is within the tolerance of now. Its errors are ErrUnverified and
// ErrSecrets, wrapped; neither holds a secret or anything of the body.
func (v *Verifier) Verify(secrets [][]byte, m actions.Message, now time.Time) error {
	keys, err := v.keys(secrets)
	if err != nil {
		return err
	}
	e, err := v.open(m)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnverified, err)
	}
	if !v.signed(keys, e) {
		return fmt.Errorf("%w: no signature fits", ErrUnverified)
	}
	if e.timestamp == "" {
		return nil
	}
	at, err := v.time(e.timestamp)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnverified, err)
	}
	if away := now.Sub(at); away > v.rules.Tolerance || away < -v.rules.Tolerance {
		return fmt.Errorf("%w: its time is %s from ours, more than %s", ErrUnverified, away.Round(time.Second), v.rules.Tolerance)
	}
	return nil
}

// keys are what is computed with.
func (v *Verifier) keys(secrets [][]byte) ([][]byte, error) {
	if len(secrets) == 0 {
		return nil, fmt.Errorf("%w: there is none", ErrSecrets)
	}
	keys := make([][]byte, len(secrets))
	for i, secret := range secrets {
		keys[i] = secret
		if v.rules.Scheme == Standard {
			text := strings.TrimPrefix(string(secret), "whsec_")
			key, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return nil, fmt.Errorf("%w: number %d is not base64 with whsec_ before", ErrSecrets, i+1)
			}
			keys[i] = key
		}
		if len(keys[i]) == 0 {
			// Anybody can sign with an empty key.
			return nil, fmt.Errorf("%w: number %d is empty", ErrSecrets, i+1)
		}
	}
	return keys, nil
}

// open reads a message by the scheme.
func (v *Verifier) open(m actions.Message) (envelope, error) {
	switch v.rules.Scheme {
	case Standard:
		return openStandard(m)
	case Stripe:
		return openStripe(m)
	default:
		return v.openHMAC(m)
	}
}

// signed reports whether one of the keys made one of the signatures. Which of
// them does not show in the time that it takes.
func (v *Verifier) signed(keys [][]byte, e envelope) bool {
	fits := false
	for _, key := range keys {
		mac := hmac.New(v.hash(), key)
		mac.Write(e.content)
		want := mac.Sum(nil)
		for _, signature := range e.signatures {
			fits = hmac.Equal(want, signature) || fits
		}
	}
	return fits
}

func (v *Verifier) hash() func() hash.Hash {
	switch v.rules.Algorithm {
	case SHA512:
		return sha512.New
	case SHA1:
		return sha1.New
	default:
		return sha256.New
	}
}

// time reads a timestamp. Standard Webhooks and Stripe have seconds only.
func (v *Verifier) time(text string) (time.Time, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	switch {
	case err == nil && n < firstMillis:
		return time.Unix(int64(n), 0), nil
	case v.rules.Scheme != HMAC:
	case err == nil && n < 1000*firstMillis:
		return time.UnixMilli(int64(n)), nil
	default:
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, errors.New("its time cannot be read")
}

// firstMillis tells seconds from milliseconds: as seconds it is in the year
// 5138, as milliseconds in 1973.
const firstMillis = 100_000_000_000

// decode reads a signature, or returns nil.
func decode(encoding Encoding, text string) []byte {
	var signature []byte
	var err error
	if encoding == Base64 {
		signature, err = base64.StdEncoding.DecodeString(text)
	} else {
		signature, err = hex.DecodeString(text)
	}
	if err != nil {
		return nil
	}
	return signature
}
