package server

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/onceward/onceward/policy"
)

var (
	// ErrBadCredential: the credential is malformed, unknown, wrong, expired
	// or revoked; callers are not told which.
	ErrBadCredential = errors.New("server: bad credential")
	// ErrTenantInactive: the credential is good, but its tenant is switched off.
	ErrTenantInactive = errors.New("server: tenant is inactive")
)

// Authenticator turns the token of a request into who asks. It fails with
// ErrBadCredential, ErrTenantInactive or ledger.ErrUnavailable. It must be safe
// for concurrent use.
type Authenticator interface {
	Authenticate(ctx context.Context, token string) (policy.Principal, error)
}

type principalKey struct{}

// principalOf returns who asks. Interceptors have put it there; without one the
// zero Principal is denied everything.
func principalOf(ctx context.Context) policy.Principal {
	p, _ := ctx.Value(principalKey{}).(policy.Principal)
	return p
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
	token, ok := bearer(ctx)
	if !ok {
		return nil, refuse(codes.Unauthenticated, reasonUnauthenticated, `no credential: send the metadata "authorization: Bearer KEY"`)
	}
	p, err := s.Authenticator.Authenticate(ctx, token)
	switch {
	case errors.Is(err, ErrBadCredential):
		return nil, refuse(codes.Unauthenticated, reasonUnauthenticated, "the credential is unknown, expired or revoked")
	case errors.Is(err, ErrTenantInactive):
		return nil, refuse(codes.PermissionDenied, reasonTenantInactive, "the tenant is inactive; nothing is sent for it")
	case err != nil:
		return nil, err
	}
	return context.WithValue(ctx, principalKey{}, p), nil
}

func bearer(ctx context.Context) (string, bool) {
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "bearer")
}

// unary authenticates, keeps panics from callers, and turns errors into
// statuses.
func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if r := recover(); r != nil {
			s.Log.Error("handler panicked", "method", info.FullMethod, "panic", r)
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
	return resp, toStatus(ctx, s.Log, err)
}

func (s *Server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	ctx := stream.Context()
	defer func() {
		if r := recover(); r != nil {
			s.Log.Error("handler panicked", "method", info.FullMethod, "panic", r)
			err = toStatus(ctx, s.Log, errPanic)
		}
	}()
	if open(info.FullMethod) {
		return handler(srv, stream)
	}
	authenticated, err := s.authenticate(ctx, info.FullMethod)
	if err != nil {
		return toStatus(ctx, s.Log, err)
	}
	return toStatus(ctx, s.Log, handler(srv, &authenticatedStream{stream, authenticated}))
}

var errPanic = errors.New("server: handler panicked")

type authenticatedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (a *authenticatedStream) Context() context.Context { return a.ctx }

// RecvMsg refuses a message that cannot be read.
func (a *authenticatedStream) RecvMsg(m any) error {
	if err := a.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return checkReadable(m)
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
