package signing

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/guard"
	"github.com/onceward/onceward/internal/jws"
	"github.com/onceward/onceward/ledger"
)

// ErrNoKey: the installation has no signing key, so that it signs nothing.
var ErrNoKey = errors.New("signing: there is no signing key: make one with onceward secrets rotate --signing")

// Key is one of the keys of the installation.
type Key struct {
	ID      string
	Private ed25519.PrivateKey
	Primary bool // it signs; the others are published only
}

// Options configure a Signer. Issuer and Keys are required.
type Options struct {
	// Issuer names the installation in everything that it signs.
	Issuer string
	// Keys are those in force now; none, or none that is primary: nothing is
	// signed. It is called for each statement and must be safe for concurrent
	// use.
	Keys func() []Key
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// Signer signs. It is safe for concurrent use.
type Signer struct{ o Options }

// New makes a signer.
func New(o Options) (*Signer, error) {
	if o.Issuer == "" || o.Keys == nil {
		return nil, errors.New("signing: an issuer and keys are required")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Signer{o}, nil
}

// Issuer is who signs.
func (s *Signer) Issuer() string { return s.o.Issuer }

// Ready reports whether there is a key to sign with.
func (s *Signer) Ready() bool {
	_, err := s.primary()
	return err == nil
}

func (s *Signer) primary() (Key, error) {
	for _, k := range s.o.Keys() {
		if k.Primary {
			return k, nil
		}
	}
	return Key{}, ErrNoKey
}

// sign makes a statement of a type.
func (s *Signer) sign(typ string, what any) (string, error) {
	key, err := s.primary()
	if err != nil {
		return "", err
	}
	payload, err := json.Marshal(what)
	if err != nil {
		return "", fmt.Errorf("signing: %w", err)
	}
	return jws.Sign(key.Private, key.ID, typ, payload)
}

// Mint makes the token of the current attempt of an operation for the service
// audience, valid for life from now, up to the next whole second: a shorter
// attempt than that needs one too. It fails with ErrNoKey, and for what would be
// no valid token.
func (s *Signer) Mint(op ledger.Operation, audience string, life time.Duration) (string, error) {
	now := s.o.Now()
	issued, expires := now.Unix(), now.Add(life+time.Second-1).Unix()
	if audience == "" || op.ID == "" || op.Tenant == "" || op.Attempt < 1 || life <= 0 || life > guard.MaxTokenLife {
		return "", fmt.Errorf("signing: no token for attempt %d of operation %q for %q and %s", op.Attempt, op.ID, audience, life)
	}
	return s.sign(guard.TokenType, guard.Claims{
		Issuer: s.o.Issuer, Audience: audience,
		OperationID: op.ID, Tenant: op.Tenant, ActionType: op.ActionType,
		ArgumentsHash: hex.EncodeToString(op.ArgsHash[:]),
		Attempt:       op.Attempt, Epoch: op.Epoch,
		IssuedAt: issued, ExpiresAt: expires,
		// One attempt, one token: the service's log tells it from the others.
		ID: fmt.Sprintf("%s/%d", op.ID, op.Attempt),
	})
}
