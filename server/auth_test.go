package server

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// asker is an authenticator that says what a test wants.
type asker func(Credential) (policy.Principal, error)

func (a asker) Authenticate(_ context.Context, c Credential) (policy.Principal, error) { return a(c) }

// A request may name its tenant. Another one than its credential's is refused as
// a bad credential is, whoever it is, and is on record with who sent it.
func TestANamedTenantMustBeTheCredentials(t *testing.T) {
	denialTest(t, func(t *testing.T, d *denials, told *denied) {
		good := asker(func(c Credential) (policy.Principal, error) {
			if c.Token != "acme" {
				return policy.Principal{}, &CredentialError{Err: ErrBadCredential, Why: "it is not known"}
			}
			return policy.Principal{Tenant: "acme", Actor: "planner"}, nil
		})
		s := &Server{Options: Options{Authenticator: good, Log: slog.New(slog.DiscardHandler)}, denials: d}
		enter := func(token string, named ...string) error {
			md := metadata.Pairs("authorization", "Bearer "+token)
			md["onceward-tenant"] = named
			ctx, err := s.authenticate(metadata.NewIncomingContext(t.Context(), md), aMethod)
			if err == nil && principalOf(ctx).Tenant != "acme" {
				t.Errorf("%v: let in as %+v", named, principalOf(ctx))
			}
			return toStatus(t.Context(), s.Log, err)
		}
		for _, named := range [][]string{nil, {"acme"}, {"acme", "acme"}} {
			if err := enter("acme", named...); err != nil {
				t.Errorf("%v: %v", named, err)
			}
		}
		unknown := enter("nobody")
		others := [][]string{{"globex"}, {"nobody"}, {""}, {"Acme"}, {"acme "}, {"acme,acme"}, {"*"}, {"acme", "globex"}, {"globex", "acme"}}
		for _, named := range others {
			if err := enter("acme", named...); !proto.Equal(status.Convert(err).Proto(), status.Convert(unknown).Proto()) {
				t.Errorf("%v: %v, and an unknown credential gets %v", named, err, unknown)
			}
		}
		if err := enter("nobody", "acme"); !proto.Equal(status.Convert(err).Proto(), status.Convert(unknown).Proto()) {
			t.Errorf("an unknown credential that names a tenant: %v", err)
		}
		synctest.Wait()
		got := told.all()
		if len(got) != len(others)+2 {
			t.Fatalf("told of %+v", got)
		}
		for _, g := range got[1 : len(got)-1] {
			if g.Tenant != "acme" || g.Actor != "planner" || g.Reason != reasonUnauthenticated || !strings.HasSuffix(g.Detail, ": the request names another tenant than its credential's") {
				t.Errorf("on record: %+v", g)
			}
		}
	})
}

// sent counts what a stream sends.
type sent struct {
	grpc.ServerStream
	ctx context.Context
	n   int
}

func (s *sent) Context() context.Context { return s.ctx }
func (s *sent) SendMsg(any) error        { s.n++; return nil }

// A stream ends with its credential: nothing is sent to who would not be let in
// any more, and a token for one use is not used again.
func TestAStreamEndsWithItsCredential(t *testing.T) {
	denialTest(t, func(t *testing.T, d *denials, told *denied) {
		revoked, asked := false, []bool(nil)
		s := &Server{Options: Options{Log: slog.New(slog.DiscardHandler), Authenticator: asker(func(c Credential) (policy.Principal, error) {
			asked = append(asked, c.Again)
			if revoked {
				return policy.Principal{}, &CredentialError{Err: ErrBadCredential, Why: "revoked", Tenant: "acme", Actor: "planner"}
			}
			return policy.Principal{Tenant: "acme", Actor: "planner"}, nil
		})}, denials: d}
		out := &sent{ctx: metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer acme"))}
		info := &grpc.StreamServerInfo{FullMethod: oncewardv1.ActionService_WatchOperation_FullMethodName}
		err := s.stream(nil, out, info, func(_ any, stream grpc.ServerStream) error {
			send := func() error { return stream.SendMsg(nil) }
			for _, wait := range []time.Duration{0, recheckAfter - 1, 1, recheckAfter - 1} {
				time.Sleep(wait)
				if err := send(); err != nil {
					return err
				}
			}
			revoked = true
			if err := send(); err != nil {
				return err // it was good less than a second ago
			}
			time.Sleep(time.Nanosecond)
			return send()
		})
		if status.Code(err) != codes.Unauthenticated || out.n != 5 {
			t.Errorf("%d were sent, then %v", out.n, err)
		}
		if len(asked) != 3 || asked[0] || !asked[1] || !asked[2] {
			t.Errorf("the authenticator was asked %v", asked)
		}
		synctest.Wait()
		if got := told.all(); len(got) != 1 || got[0].Actor != "planner" || !strings.HasSuffix(got[0].Detail, "WatchOperation: revoked") {
			t.Errorf("on record: %+v", got)
		}
	})
}
