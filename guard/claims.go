package guard

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/onceward/onceward/actions"
)

const (
	// TokenHeader is the HTTP header, and in lower case the gRPC metadata key,
	// that carries an operation token.
	TokenHeader = "Onceward-Operation-Token"
	// TokenType is the type of a token in its JOSE header.
	TokenType = "onceward-operation+jwt"
	// MaxTokenLife is the longest that a token may live: longer than any attempt.
	MaxTokenLife = actions.MaxTokenLife
	// maxTokenBytes is more than a token needs.
	maxTokenBytes = 8 << 10
)

// Claims are what an operation token says.
type Claims struct {
	Issuer      string `json:"iss"` // the installation of Onceward
	Audience    string `json:"aud"` // the service that may perform it
	OperationID string `json:"sub"` // UUID, the same for every attempt
	Tenant      string `json:"tenant"`
	ActionType  string `json:"action_type"`
	// ArgumentsHash is the SHA-256 of the canonical arguments without the
	// advisory ones, in hex.
	ArgumentsHash string `json:"args_sha256"`
	Attempt       int    `json:"attempt"` // from 1
	Epoch         int    `json:"epoch"`   // grows when an earlier attempt is proved not applied
	IssuedAt      int64  `json:"iat"`     // Unix time, in seconds
	ExpiresAt     int64  `json:"exp"`     // Unix time, in seconds
	ID            string `json:"jti"`     // of this token
}

// Operation names the operation among all of an installation.
func (c Claims) Operation() Operation { return Operation{Tenant: c.Tenant, ID: c.OperationID} }

// Operation is the name of an operation.
type Operation struct{ Tenant, ID string }

// CheckArguments compares arguments that the service received, a JSON object,
// with those that were allowed. advisory names the top-level ones that the
// action type calls advisory. The error is a *RefusedError with ReasonForbidden.
//
// It is for services whose request is the arguments themselves. One that gets
// them in another form has to rebuild the object first.
func (c Claims) CheckArguments(arguments []byte, advisory ...string) error {
	args, err := actions.ParseArguments(arguments)
	if err != nil {
		return refuse(ReasonForbidden, fmt.Errorf("arguments: %w", err))
	}
	hash := args.IdentityHash(advisory)
	if hex.EncodeToString(hash[:]) != c.ArgumentsHash {
		return refuse(ReasonForbidden, errors.New("the arguments are not those of the operation"))
	}
	return nil
}

// check says what is missing from claims that were signed.
func (c Claims) check() error {
	hash, err := hex.DecodeString(c.ArgumentsHash)
	switch {
	case c.OperationID == "" || c.Tenant == "" || c.ActionType == "" || c.ID == "":
		return errors.New("sub, tenant, action_type or jti is missing")
	case err != nil || len(hash) != 32:
		return errors.New("args_sha256 is no SHA-256")
	case c.Attempt < 1 || c.Epoch < 0:
		return errors.New("attempt or epoch is out of range")
	default:
		return nil
	}
}

type claimsKey struct{}

// NewContext returns a context with the claims of a token that was verified.
func NewContext(ctx context.Context, c Claims) context.Context {
	return context.WithValue(ctx, claimsKey{}, c)
}

// FromContext returns the claims of the token that came with a request, and
// false for a request that needed none.
func FromContext(ctx context.Context) (Claims, bool) {
	c, ok := ctx.Value(claimsKey{}).(Claims)
	return c, ok
}
