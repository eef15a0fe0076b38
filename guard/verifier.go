package guard

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/jws"
)

const (
	// DefaultLeeway is how far the clocks of Onceward and the service may
	// differ. Tokens expire well before the lease of their attempt, so that one
	// is not accepted after Onceward gave the attempt up.
	DefaultLeeway = 5 * time.Second
	// maxLife is the longest from iat to exp, which are in whole seconds.
	maxLife = MaxTokenLife + time.Second
)

// Keys are the public keys of Onceward. Implementations are safe for concurrent
// use.
type Keys interface {
	// Key returns the key of that id. It fails with ErrUnknownKey when there
	// certainly is none, and with ErrKeysUnavailable when that cannot be told.
	Key(ctx context.Context, id string) (ed25519.PublicKey, error)
}

var (
	// ErrUnknownKey: Onceward has no key of this id.
	ErrUnknownKey = errors.New("guard: unknown key")
	// ErrKeysUnavailable: the keys cannot be had now.
	ErrKeysUnavailable = errors.New("guard: keys are not available")
)

// VerifierOptions say whom to believe. Issuer, Audience and Keys are required.
type VerifierOptions struct {
	Issuer   string        // of the installation, as `onceward serve` logs it
	Audience string        // this service: token_audience of its action types
	Keys     Keys          // RemoteKeys or StaticKeys
	Leeway   time.Duration // of clocks; default DefaultLeeway
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// Verifier decides whether a token is to be believed. It is safe for concurrent
// use.
type Verifier struct{ o VerifierOptions }

// NewVerifier makes a verifier. It fails where one that accepts anything would
// be the result.
func NewVerifier(o VerifierOptions) (*Verifier, error) {
	if o.Issuer == "" || o.Audience == "" || o.Keys == nil {
		return nil, errors.New("guard: a verifier needs Issuer, Audience and Keys")
	}
	if o.Leeway < 0 {
		return nil, errors.New("guard: leeway cannot be negative")
	}
	if o.Leeway == 0 {
		o.Leeway = DefaultLeeway
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Verifier{o}, nil
}

// Verify returns what a token says. The error is a *RefusedError:
// ReasonTokenRequired, ReasonTokenInvalid or ReasonUnavailable.
func (v *Verifier) Verify(ctx context.Context, token string) (Claims, error) {
	if token == "" {
		return Claims{}, refuse(ReasonTokenRequired, nil)
	}
	claims, err := v.verify(ctx, token)
	switch {
	case err == nil:
		return claims, nil
	case errors.Is(err, ErrKeysUnavailable), ctx.Err() != nil:
		return Claims{}, refuse(ReasonUnavailable, err)
	default:
		return Claims{}, refuse(ReasonTokenInvalid, err)
	}
}

// Allow is Verify, and refuses tokens of any other action type with
// ReasonForbidden. Without types nothing is allowed.
func (v *Verifier) Allow(ctx context.Context, token string, actionTypes ...string) (Claims, error) {
	claims, err := v.Verify(ctx, token)
	if err != nil {
		return Claims{}, err
	}
	if !slices.Contains(actionTypes, claims.ActionType) {
		return Claims{}, refuse(ReasonForbidden, fmt.Errorf("token of operation %s is for %s", claims.OperationID, claims.ActionType))
	}
	return claims, nil
}

func (v *Verifier) verify(ctx context.Context, token string) (Claims, error) {
	if len(token) > maxTokenBytes {
		return Claims{}, errors.New("token is too long")
	}
	statement, err := jws.Parse(token, TokenType)
	if err != nil {
		return Claims{}, err
	}
	key, err := v.o.Keys.Key(ctx, statement.KeyID)
	if err != nil {
		return Claims{}, err
	}
	payload, err := statement.Verify(key)
	if err != nil {
		return Claims{}, err
	}
	var claims Claims
	if err := json.Unmarshal(payload, &claims); err != nil {
		return Claims{}, errors.New("the claims cannot be read")
	}
	return claims, v.judge(claims)
}

// judge says what is wrong with claims that Onceward signed.
func (v *Verifier) judge(c Claims) error {
	now := v.o.Now()
	issued, expires := time.Unix(c.IssuedAt, 0), time.Unix(c.ExpiresAt, 0)
	switch {
	case c.Issuer != v.o.Issuer:
		return fmt.Errorf("issuer %q is another installation", c.Issuer)
	case c.Audience != v.o.Audience:
		return fmt.Errorf("audience %q is another service", c.Audience)
	case c.IssuedAt <= 0 || !expires.After(issued) || expires.Sub(issued) > maxLife:
		return errors.New("iat and exp make no life of a token")
	case issued.After(now.Add(v.o.Leeway)):
		return errors.New("it is from the future")
	case !now.Before(expires.Add(v.o.Leeway)):
		return errors.New("it has expired")
	default:
		return c.check()
	}
}
