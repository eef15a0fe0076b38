package server

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/onceward/onceward/internal/panics"
	"github.com/onceward/onceward/policy"
)

var (
	// ErrBadCredential: the credential is malformed, unknown, wrong, expired
	// or revoked; callers are not told which.
	ErrBadCredential = errors.New("server: bad credential")
	// ErrTenantInactive: the credential is good, but its tenant is switched off.
	ErrTenantInactive = errors.New("server: tenant is inactive")
	// ErrCannotAuthenticate: what is needed to check the credential, such as the
	// keys of its issuer, does not answer. Nobody is let in on a guess.
	ErrCannotAuthenticate = errors.New("server: the credential cannot be checked now")
)

// Credential is what a request brings to say who asks. The zero value is a
// request without one.
type Credential struct {
	// Token is the bearer token; empty where there is none.
	Token string
	// Certificates are the chain of the client's certificate as TLS has verified
	// it, leaf first and the root last; nil without one.
	Certificates []*x509.Certificate
	// Again: the credential was good when the call began, which still goes on. It
	// is looked at once more, and is no further use of a token for one use.
	Again bool
}

// CredentialError is a credential that is refused, with what the log and the
// audit record may know. Callers are told no more than Err.
type CredentialError struct {
	Err error  // ErrBadCredential or ErrTenantInactive
	Why string // one line, without the credential or a part of it
	// Tenant and Actor are set only where the credential has proved them: it is
	// genuine, and refused for something else.
	Tenant, Actor string
}

func (e *CredentialError) Error() string { return e.Err.Error() + ": " + e.Why }

// Unwrap returns Err.
func (e *CredentialError) Unwrap() error { return e.Err }

// Authenticator turns the credential of a request, which has a token or a
// certificate or both, into who asks. It fails with a CredentialError,
// ErrBadCredential, ErrTenantInactive, ErrCannotAuthenticate or
// ledger.ErrUnavailable. It must be safe for concurrent use.
type Authenticator interface {
	Authenticate(ctx context.Context, c Credential) (policy.Principal, error)
}

// Kinds of ErrBadCredential that metrics tell apart.
var (
	errNoCredential = fmt.Errorf("%w: none", ErrBadCredential)
	errUntrusted    = fmt.Errorf("%w: certificate", ErrBadCredential)
)

type principalKey struct{}

// caller is the context of a call, with who asks.
type caller struct {
	context.Context
	principal policy.Principal
	// encoded is how the answer is encoded ([encodedAnswer]), where the handler
	// knows it; written before it returns, and read after.
	encoded mem.Buffer
}

// Value implements context.Context.
func (c *caller) Value(key any) any {
	if key == (principalKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// principalOf returns who asks. Interceptors have put it there; without one the
// zero Principal is denied everything.
func principalOf(ctx context.Context) policy.Principal {
	if c, ok := ctx.Value(principalKey{}).(*caller); ok {
		return c.principal
	}
	return policy.Principal{}
}

// open says which methods want no credential: health checks, and reflection,
// which tells the contract and nothing of any tenant.
func open(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.v1.Health/") || strings.HasPrefix(method, "/grpc.reflection.")
}

func (s *Server) authenticate(ctx context.Context, method string) (context.Context, error) {
	if open(method) {
		return ctx, nil
	}
	p, err := s.identify(ctx, method, false)
	if err != nil {
		return nil, err
	}
	return &caller{Context: ctx, principal: p}, nil
}

// identify says who asks. again: once more, in the middle of a call.
func (s *Server) identify(ctx context.Context, method string, again bool) (policy.Principal, error) {
	var nobody policy.Principal
	credential, ok := credentialOf(ctx)
	credential.Again = again
	if !ok {
		s.denials.credential(ctx, method, &CredentialError{Err: errNoCredential, Why: "no credential"})
		return nobody, refuse(codes.Unauthenticated, reasonUnauthenticated, `no credential: send the metadata "authorization: Bearer TOKEN", once, or a client certificate`)
	}
	p, err := s.Authenticator.Authenticate(ctx, credential)
	if err == nil {
		err = checkNamedTenant(ctx, p)
	}
	switch {
	case errors.Is(err, ErrBadCredential):
		s.denials.credential(ctx, method, err)
		return nobody, refuse(codes.Unauthenticated, reasonUnauthenticated, "the credential is unknown, expired or revoked")
	case errors.Is(err, ErrTenantInactive):
		s.denials.credential(ctx, method, err)
		return nobody, refuse(codes.PermissionDenied, reasonTenantInactive, "the tenant is inactive; nothing is sent for it")
	case err != nil:
		return nobody, err
	}
	return p, nil
}

// tenantKey is the metadata in which a request may name the tenant that it means.
// Planners that serve several tenants send it, so that a mix-up of credentials is
// no write for the wrong one.
const tenantKey = "onceward-tenant"

// checkNamedTenant refuses a request that names another tenant than its
// credential's. The name decides nothing: it only has to be the same, each time
// that it is there. Callers are told what they are told of a bad credential, so
// that nobody finds out which tenants there are.
func checkNamedTenant(ctx context.Context, p policy.Principal) error {
	for _, named := range metadata.ValueFromIncomingContext(ctx, tenantKey) {
		if named != p.Tenant {
			return &CredentialError{Err: ErrBadCredential, Why: "the request names another tenant than its credential's", Tenant: p.Tenant, Actor: p.Actor}
		}
	}
	return nil
}

// credentialOf reads the credential of a request. Metadata that is there and is
// no bearer token is no credential, whatever the certificate says: somebody
// meant to send one.
func credentialOf(ctx context.Context) (Credential, bool) {
	var c Credential
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(info.State.VerifiedChains) > 0 {
			c.Certificates = info.State.VerifiedChains[0]
		}
	}
	switch values := metadata.ValueFromIncomingContext(ctx, "authorization"); len(values) {
	case 0:
		return c, c.Certificates != nil
	case 1:
		scheme, token, ok := strings.Cut(values[0], " ")
		c.Token = strings.TrimSpace(token)
		return c, ok && strings.EqualFold(scheme, "bearer") && c.Token != ""
	default:
		return c, false
	}
}

// unary authenticates, keeps panics from callers, and turns errors into
// statuses.
func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	arrived(ctx)
	defer func() {
		if r := recover(); r != nil {
			s.Log.Error("handler panicked", "method", info.FullMethod, panics.Attr(r))
			resp, err = nil, toStatus(ctx, s.Log, errPanic)
		}
	}()
	authenticated, err := s.authenticate(ctx, info.FullMethod)
	if err != nil {
		return nil, toStatus(ctx, s.Log, err)
	}
	if err := checkReadable(req); err != nil {
		return nil, toStatus(ctx, s.Log, err)
	}
	resp, err = handler(authenticated, req)
	if open(info.FullMethod) {
		return resp, err
	}
	s.denials.role(authenticated, info.FullMethod, err)
	return encodedAnswerOf(authenticated, resp), toStatus(ctx, s.Log, err)
}

func (s *Server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	ctx := stream.Context()
	defer func() {
		if r := recover(); r != nil {
			s.Log.Error("handler panicked", "method", info.FullMethod, panics.Attr(r))
			err = toStatus(ctx, s.Log, errPanic)
		}
	}()
	if open(info.FullMethod) {
		return toReadable(ctx, s.Log, handler(srv, arrivingStream{stream}))
	}
	authenticated, err := s.authenticate(ctx, info.FullMethod)
	if err != nil {
		return toStatus(ctx, s.Log, err)
	}
	err = handler(srv, &authenticatedStream{ServerStream: stream, ctx: authenticated, checked: time.Now(), recheck: func() error {
		_, err := s.identify(ctx, info.FullMethod, true)
		return err
	}})
	s.denials.role(authenticated, info.FullMethod, err)
	return toStatus(ctx, s.Log, err)
}

// toReadable makes a status of what was refused before an open method's own
// handler saw it. Its handler's own errors are statuses.
func toReadable(ctx context.Context, log *slog.Logger, err error) error {
	var r *refusal
	if errors.As(err, &r) {
		return toStatus(ctx, log, r)
	}
	return err
}

var errPanic = errors.New("server: handler panicked")

// recheckAfter is how long a credential that was good is taken to be, within a
// stream: as long as identity takes what the ledger said of it.
const recheckAfter = time.Second

// authenticatedStream is a stream that ends with its credential: a watch lasts
// for days, and its caller's key, token or tenant may not. Who was let in learns
// nothing more once he would not be let in.
type authenticatedStream struct {
	grpc.ServerStream
	ctx     context.Context
	checked time.Time // only SendMsg, of which there is one at a time
	recheck func() error
}

func (a *authenticatedStream) Context() context.Context { return a.ctx }

// SendMsg sends nothing to somebody whose credential has ended.
func (a *authenticatedStream) SendMsg(m any) error {
	if now := time.Now(); now.Sub(a.checked) >= recheckAfter {
		if err := a.recheck(); err != nil {
			return err
		}
		a.checked = now
	}
	return a.ServerStream.SendMsg(m)
}

// RecvMsg refuses a message that cannot be read.
func (a *authenticatedStream) RecvMsg(m any) error {
	return arrivingStream{a.ServerStream}.RecvMsg(m)
}

// want refuses a principal that has none of the roles.
func want(p policy.Principal, roles ...policy.Role) error {
	if p.Has(roles...) {
		return nil
	}
	return refuse(codes.PermissionDenied, reasonRoleRequired, "this call wants the role %s", names(roles))
}

func names(roles []policy.Role) string {
	texts := make([]string, len(roles))
	for i, r := range roles {
		texts[i] = string(r)
	}
	return strings.Join(texts, " or ")
}
