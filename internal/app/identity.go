package app

import (
	"context"

	"github.com/onceward/onceward/internal/identity"
	"github.com/onceward/onceward/ledger/postgres"
	"github.com/onceward/onceward/policy"
)

// credentialStore is the ledger as identity sees it.
type credentialStore struct{ *postgres.Store }

var _ identity.Store = credentialStore{}

// Key implements identity.Store.
func (s credentialStore) Key(ctx context.Context, tenant, id string) (identity.StoredKey, error) {
	c, err := s.Credential(ctx, tenant, id)
	if err != nil {
		return identity.StoredKey{}, err
	}
	key := identity.StoredKey{Tenant: c.Tenant, Actor: c.Actor, Hash: c.Hash, Usable: c.Usable, TenantActive: c.TenantActive}
	for _, role := range c.Roles {
		key.Roles = append(key.Roles, policy.Role(role))
	}
	return key, nil
}
