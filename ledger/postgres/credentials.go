package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/ledger"
)

// Credential is an API key as it is stored.
type Credential struct {
	Tenant, KeyID        string
	Hash                 []byte // SHA-256 of the whole key
	Actor                string
	Roles                []string
	CreatedAt            time.Time
	ExpiresAt, RevokedAt time.Time // zero: never, not
	TenantActive         bool
	Usable               bool // neither expired nor revoked, by the database's clock
}

func scanCredential(row pgx.CollectableRow) (Credential, error) {
	var c Credential
	var expires, revoked *time.Time
	err := row.Scan(&c.Tenant, &c.KeyID, &c.Hash, &c.Actor, &c.Roles, &c.CreatedAt, &expires, &revoked, &c.TenantActive, &c.Usable)
	c.CreatedAt, c.ExpiresAt, c.RevokedAt = c.CreatedAt.UTC(), orZero(expires), orZero(revoked)
	return c, err
}

// Credential returns one API key of a tenant, or ErrNotFound.
func (s *Store) Credential(ctx context.Context, tenant, keyID string) (Credential, error) {
	rows, err := s.pool.Query(ctx, credentialSQL, pgx.NamedArgs{"tenant": tenant, "key_id": keyID})
	if err != nil {
		return Credential{}, unavailable(err)
	}
	c, err := pgx.CollectExactlyOneRow(rows, scanCredential)
	if errors.Is(err, pgx.ErrNoRows) {
		return Credential{}, ledger.ErrNotFound
	}
	return c, unavailable(err)
}

// Credentials returns a tenant's API keys, oldest first.
func (s *Store) Credentials(ctx context.Context, tenant string) ([]Credential, error) {
	rows, err := s.pool.Query(ctx, credentialsSQL, pgx.NamedArgs{"tenant": tenant})
	if err != nil {
		return nil, unavailable(err)
	}
	list, err := pgx.CollectRows(rows, scanCredential)
	return list, unavailable(err)
}

// TenantActive says whether a tenant is switched on, or fails with ErrNotFound.
func (s *Store) TenantActive(ctx context.Context, tenant string) (bool, error) {
	var active bool
	err := s.pool.QueryRow(ctx, tenantActiveSQL, pgx.NamedArgs{"tenant": tenant}).Scan(&active)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, ledger.ErrNotFound
	}
	return active, unavailable(err)
}

// Tenant is one tenant of an installation.
type Tenant struct {
	Name      string
	Active    bool
	CreatedAt time.Time
}

// Tenants lists all tenants of the installation, by name. It is for whoever runs it:
// nothing that answers a caller may use it.
func (s *Store) Tenants(ctx context.Context) ([]Tenant, error) {
	rows, err := s.pool.Query(ctx, tenantsSQL)
	if err != nil {
		return nil, unavailable(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Tenant])
	return list, unavailable(err)
}

// UseToken remembers the SHA-256 that names a token of a tenant until its time
// is over, and says whether this was its first use, on any replica. Each use
// forgets some of the tenant's tokens whose time is over, so that no more are
// kept than can still be used.
func (s *Store) UseToken(ctx context.Context, tenant string, hash [32]byte, until time.Time) (first bool, err error) {
	tag, err := s.pool.Exec(ctx, useTokenSQL, pgx.NamedArgs{"tenant": tenant, "hash": hash[:], "until": until})
	return tag.RowsAffected() == 1, unavailable(err)
}

// The methods below write what the serving role may only read: they want the
// role that owns the schema.

// CreateTenant makes a tenant, or does nothing when it exists. Names are lower
// case letters, digits, - and _, at most 63.
func (s *Store) CreateTenant(ctx context.Context, tenant string) error {
	_, err := s.pool.Exec(ctx, createTenantSQL, pgx.NamedArgs{"tenant": tenant})
	return unavailable(err)
}

// SetTenantActive switches a tenant on or off. ErrNotFound when there is none.
func (s *Store) SetTenantActive(ctx context.Context, tenant string, active bool) error {
	tag, err := s.pool.Exec(ctx, setTenantActiveSQL, pgx.NamedArgs{"tenant": tenant, "active": active})
	if err == nil && tag.RowsAffected() == 0 {
		return ledger.ErrNotFound
	}
	return unavailable(err)
}

// AddCredential stores an API key of an existing tenant. Of c it reads Tenant,
// KeyID, Hash, Actor, Roles and ExpiresAt.
func (s *Store) AddCredential(ctx context.Context, c Credential) error {
	_, err := s.pool.Exec(ctx, addCredentialSQL, pgx.NamedArgs{
		"tenant": c.Tenant, "key_id": c.KeyID, "hash": c.Hash, "actor": c.Actor, "roles": c.Roles, "expires": nullIfZero(c.ExpiresAt),
	})
	return unavailable(err)
}

// RotateCredential stores next beside an API key of the same tenant that is
// neither expired nor revoked, and lets that one expire when overlap is over, or
// sooner if it would have. Of next it reads KeyID, Hash and ExpiresAt; actor and
// roles are those of the former, and so is the length of its life where ExpiresAt
// is zero. It returns the new one, or ErrNotFound when there is none to rotate.
func (s *Store) RotateCredential(ctx context.Context, tenant, keyID string, next Credential, overlap time.Duration) (Credential, error) {
	rows, err := s.pool.Query(ctx, rotateCredentialSQL, pgx.NamedArgs{
		"tenant": tenant, "former": keyID, "key_id": next.KeyID, "hash": next.Hash, "expires": nullIfZero(next.ExpiresAt), "overlap": overlap,
	})
	if err != nil {
		return Credential{}, unavailable(err)
	}
	c, err := pgx.CollectExactlyOneRow(rows, scanCredential)
	if errors.Is(err, pgx.ErrNoRows) {
		return Credential{}, ledger.ErrNotFound
	}
	return c, unavailable(err)
}

// RevokeCredential ends an API key now. ErrNotFound when there is none; doing
// it twice is harmless.
func (s *Store) RevokeCredential(ctx context.Context, tenant, keyID string) error {
	tag, err := s.pool.Exec(ctx, revokeCredentialSQL, pgx.NamedArgs{"tenant": tenant, "key_id": keyID})
	if err == nil && tag.RowsAffected() == 0 {
		return ledger.ErrNotFound
	}
	return unavailable(err)
}

// ErrOtherSecret: this ledger was used with another secret of provider keys.
var ErrOtherSecret = errors.New("ledger: this ledger was served with another provider key secret; with this one the same operations would get other keys, and so second effects: start with the folder of secrets that it began with")

// CheckInstallation remembers the fingerprint of the provider key secret at
// first use, and fails with ErrOtherSecret when it is another one later.
func (s *Store) CheckInstallation(ctx context.Context, fingerprint [32]byte) error {
	args := pgx.NamedArgs{"fingerprint": fingerprint[:]}
	if _, err := s.pool.Exec(ctx, rememberInstallationSQL, args); err != nil {
		return unavailable(err)
	}
	var same bool
	err := s.pool.QueryRow(ctx, checkInstallationSQL, args).Scan(&same)
	switch {
	case err != nil:
		return unavailable(err)
	case !same:
		return ErrOtherSecret
	}
	return nil
}

// MayChangeRecord reports whether this login may change or remove what is in the
// audit record (L11): the owner may, and a member of onceward_serve may not.
func (s *Store) MayChangeRecord(ctx context.Context) (may bool, err error) {
	err = s.pool.QueryRow(ctx, mayChangeRecordSQL).Scan(&may)
	return may, unavailable(err)
}
