package apikey

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"regexp"
	"strings"
)

// Prefix is what every key begins with, so that leaked ones are found by it.
const Prefix = "ow_"

// ErrMalformed says that a text is no API key.
var ErrMalformed = errors.New("apikey: not an API key (they look like ow_TENANT.ID.SECRET)")

var parts = regexp.MustCompile(`^([a-z0-9][a-z0-9_-]{0,62})\.([a-z0-9]{1,32})\.([a-z0-9]{16,64})$`)

// encoding is base32hex in lower case without padding.
var encoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// Key is a credential in its parts.
type Key struct {
	Tenant, ID string
	secret     string
}

// New makes a key for a tenant with a random id (80 bits) and secret (160
// bits).
func New(tenant string) Key {
	return Key{Tenant: tenant, ID: random(10), secret: random(20)}
}

func random(bytes int) string {
	b := make([]byte, bytes)
	// crypto/rand.Read never fails: it ends the program instead.
	_, _ = rand.Read(b)
	return encoding.EncodeToString(b)
}

// Parse reads a key. It fails with ErrMalformed.
func Parse(text string) (Key, error) {
	rest, ok := strings.CutPrefix(text, Prefix)
	if !ok {
		return Key{}, ErrMalformed
	}
	m := parts.FindStringSubmatch(rest)
	if m == nil {
		return Key{}, ErrMalformed
	}
	return Key{Tenant: m[1], ID: m[2], secret: m[3]}, nil
}

// Text returns the whole key, secret included: shown once, when it is made.
func (k Key) Text() string { return Prefix + k.Tenant + "." + k.ID + "." + k.secret }

// String names the key without its secret.
func (k Key) String() string { return Prefix + k.Tenant + "." + k.ID }

// Hash is what is stored. A plain SHA-256 is enough for a secret of 160 random
// bits: there is nothing to guess.
func (k Key) Hash() [32]byte { return sha256.Sum256([]byte(k.Text())) }

// Matches compares with a stored hash in constant time.
func (k Key) Matches(hash []byte) bool {
	own := k.Hash()
	return subtle.ConstantTimeCompare(own[:], hash) == 1
}
