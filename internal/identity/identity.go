package identity

import (
	"context"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/apikey"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
	"github.com/onceward/onceward/server"
)

// Store is what the ledger knows of credentials. Its methods fail with
// ledger.ErrUnavailable, and the first two with ledger.ErrNotFound. It must be
// safe for concurrent use.
type Store interface {
	// Key returns an API key by its tenant and id.
	Key(ctx context.Context, tenant, id string) (StoredKey, error)
	// TenantActive says whether a tenant is switched on.
	TenantActive(ctx context.Context, tenant string) (bool, error)
	// UseToken says whether this is the first use of a token, on any replica, that
	// is told of it until its time is over.
	UseToken(ctx context.Context, tenant string, hash [32]byte, until time.Time) (first bool, err error)
}

// Options configure an Authenticator.
type Options struct {
	Store Store // required
	// File holds issuers and rules; nil: API keys are the only credentials.
	File *File
	// Trusted says whether a chain that was verified when its connection began is
	// trusted now; nil: it is.
	Trusted func(chain []*x509.Certificate) bool
	// Now is the clock that tokens and certificates are judged by; nil: time.Now.
	Now func() time.Time
}

// Authenticator says who asks. It is safe for concurrent use.
type Authenticator struct {
	Options
	keys    keys
	tenants recent[bool]
}

var _ server.Authenticator = (*Authenticator)(nil)

// New makes an authenticator.
func New(o Options) *Authenticator {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Authenticator{Options: o, keys: keys{store: o.Store}}
}

// Authenticate implements server.Authenticator. Of a request with a token and a
// certificate both must be good and name the same tenant and actor; it has the
// roles that both give.
func (a *Authenticator) Authenticate(ctx context.Context, c server.Credential) (policy.Principal, error) {
	rules := a.File.current()
	if len(c.Certificates) == 0 {
		return a.token(ctx, rules, c)
	}
	// First the certificate, which costs nothing to check again: a token for one
	// use is not used up by a request that is refused for its certificate.
	byCertificate, err := a.certificate(rules, c.Certificates)
	if err != nil {
		return policy.Principal{}, err
	}
	if c.Token == "" {
		return byCertificate, a.checkTenant(ctx, byCertificate)
	}
	byToken, err := a.token(ctx, rules, c)
	switch {
	case err != nil:
		return policy.Principal{}, err
	case byToken.Tenant != byCertificate.Tenant, byToken.Actor != byCertificate.Actor:
		return policy.Principal{}, refuse("token and certificate name different tenants or actors")
	}
	byToken.Roles = slices.DeleteFunc(slices.Clone(byToken.Roles), func(r policy.Role) bool { return !byCertificate.Has(r) })
	return byToken, nil
}

func (a *Authenticator) token(ctx context.Context, rules *rules, c server.Credential) (policy.Principal, error) {
	// Names of API keys begin so, and no token does: a token begins with the
	// base64 of "{".
	if strings.HasPrefix(c.Token, apikey.Prefix) || len(rules.issuers) == 0 {
		if rules.noKeys {
			return policy.Principal{}, refuse("API keys are switched off")
		}
		return a.keys.authenticate(ctx, c.Token)
	}
	return a.jwt(ctx, rules, c)
}

func (a *Authenticator) certificate(rules *rules, chain []*x509.Certificate) (policy.Principal, error) {
	if a.Trusted != nil && !a.Trusted(chain) {
		return policy.Principal{}, refuse("the certificate's CA is no longer trusted")
	}
	return principalOfCertificate(rules.certificates, chain, a.Now())
}

func (a *Authenticator) jwt(ctx context.Context, rules *rules, c server.Credential) (policy.Principal, error) {
	now := a.Now()
	by, err := issuerOf(rules.issuers, c.Token)
	if err != nil {
		return policy.Principal{}, err
	}
	verified, err := by.verify(ctx, c.Token, now)
	if err != nil {
		return policy.Principal{}, err
	}
	if err := a.checkTenant(ctx, verified.principal); err != nil {
		return policy.Principal{}, err
	}
	if !by.OneTime || c.Again {
		return verified.principal, nil
	}
	// Last of all, so that only a token that lets its bearer in is used up.
	first, err := a.Store.UseToken(ctx, verified.principal.Tenant, verified.id, verified.usableUntil)
	switch {
	case err != nil:
		return policy.Principal{}, err
	case !first:
		return policy.Principal{}, refuseProven(verified.principal, "the token is for one use and was used before")
	}
	return verified.principal, nil
}

// checkTenant refuses a principal whose tenant the ledger does not have, or has
// switched off.
func (a *Authenticator) checkTenant(ctx context.Context, p policy.Principal) error {
	arrived := time.Now()
	known := a.tenants.remembered(p.Tenant, arrived)
	if known == nil {
		var err error
		known, err = a.tenants.read(ctx, p.Tenant, arrived, func(ctx context.Context) (bool, bool, error) {
			active, err := a.Store.TenantActive(ctx, p.Tenant)
			if errors.Is(err, ledger.ErrNotFound) {
				return false, false, nil
			}
			return active, true, err
		})
		if err != nil {
			return err
		}
	}
	switch {
	case !known.found:
		return refuse("the ledger has no tenant %q", p.Tenant)
	case !known.value:
		return inactive(p)
	}
	return nil
}
