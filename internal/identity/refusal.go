package identity

import (
	"fmt"

	"github.com/onceward/onceward/policy"
	"github.com/onceward/onceward/server"
)

// refuse says why a credential is refused. What it says is never from the
// credential, unless its signature was checked before.
func refuse(format string, args ...any) error {
	return &server.CredentialError{Err: server.ErrBadCredential, Why: fmt.Sprintf(format, args...)}
}

// refuseProven refuses a credential that is genuine.
func refuseProven(p policy.Principal, format string, args ...any) error {
	return &server.CredentialError{Err: server.ErrBadCredential, Why: fmt.Sprintf(format, args...), Tenant: p.Tenant, Actor: p.Actor}
}

func inactive(p policy.Principal) error {
	return &server.CredentialError{Err: server.ErrTenantInactive, Why: "the tenant is switched off", Tenant: p.Tenant, Actor: p.Actor}
}

// cannot says that a credential cannot be judged now.
func cannot(format string, args ...any) error {
	return fmt.Errorf("%w: %w", server.ErrCannotAuthenticate, fmt.Errorf(format, args...))
}
