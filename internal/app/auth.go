package app

import (
	"context"
	"errors"

	"github.com/onceward/onceward/internal/apikey"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/postgres"
	"github.com/onceward/onceward/policy"
	"github.com/onceward/onceward/server"
)

// apiKeys authenticates requests by API keys in the ledger. Each request reads
// the key, so that a revoked one stops at once.
type apiKeys struct {
	store *postgres.Store
}

var _ server.Authenticator = apiKeys{}

// Authenticate implements server.Authenticator.
func (a apiKeys) Authenticate(ctx context.Context, token string) (policy.Principal, error) {
	key, err := apikey.Parse(token)
	if err != nil {
		return policy.Principal{}, server.ErrBadCredential
	}
	stored, err := a.store.Credential(ctx, key.Tenant, key.ID)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return policy.Principal{}, server.ErrBadCredential
	case err != nil:
		return policy.Principal{}, err
	case !key.Matches(stored.Hash), !stored.Usable:
		return policy.Principal{}, server.ErrBadCredential
	case !stored.TenantActive:
		return policy.Principal{}, server.ErrTenantInactive
	}
	p := policy.Principal{Tenant: stored.Tenant, Actor: stored.Actor}
	for _, role := range stored.Roles {
		p.Roles = append(p.Roles, policy.Role(role))
	}
	return p, nil
}
