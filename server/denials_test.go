package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
)

// denied collects what is recorded.
type denied struct {
	mu   sync.Mutex
	list []ledger.Denial
}

func (d *denied) record(_ context.Context, denial ledger.Denial) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, denial)
	return nil
}

func (d *denied) all() []ledger.Denial {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]ledger.Denial(nil), d.list...)
}

// denialTest runs a test on denials that are passed on until it ends.
func denialTest(t *testing.T, f func(t *testing.T, d *denials, told *denied)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var told denied
		d := newDenials(told.record, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go d.run(ctx)
		f(t, d, &told)
	})
}

const aMethod = "/onceward.v1.ActionService/RequestAction"

func TestRefusedCredentialsArePassedOn(t *testing.T) {
	denialTest(t, func(t *testing.T, d *denials, told *denied) {
		d.credential(t.Context(), aMethod, &CredentialError{Err: ErrBadCredential, Why: "expired"})
		d.credential(t.Context(), aMethod, &CredentialError{Err: ErrTenantInactive, Why: "off", Tenant: "acme", Actor: "planner"})
		d.credential(t.Context(), aMethod, ErrBadCredential)
		ctx := &caller{Context: t.Context(), principal: policy.Principal{Tenant: "acme", Actor: "rita"}}
		d.role(ctx, aMethod, want(policy.Principal{}, policy.Agent))
		d.role(ctx, aMethod, refuse(codes.NotFound, reasonOperationNotFound, "no such operation")) // is no question of roles
		d.role(ctx, aMethod, nil)
		synctest.Wait()
		got := told.all()
		wanted := []struct{ tenant, actor, reason, detail string }{
			{ledger.AllTenants, "", "UNAUTHENTICATED", "onceward.v1.ActionService/RequestAction: expired"},
			{"acme", "planner", "TENANT_INACTIVE", "onceward.v1.ActionService/RequestAction: off"},
			{ledger.AllTenants, "", "UNAUTHENTICATED", "onceward.v1.ActionService/RequestAction: it is unknown"},
			{"acme", "rita", "ROLE_REQUIRED", "onceward.v1.ActionService/RequestAction: this call wants the role agent"},
		}
		if len(got) != len(wanted) {
			t.Fatalf("told of %+v", got)
		}
		ids := map[string]bool{}
		for i, want := range wanted {
			if g := got[i]; g.Tenant != want.tenant || g.Actor != want.actor || g.Reason != want.reason || g.Detail != want.detail || g.Decision != "deny" || len(g.ID) != 36 || ids[g.ID] {
				t.Errorf("%d: %+v, want %+v", i, g, want)
			}
			ids[got[i].ID] = true
		}
	})
}

// A flood is recorded by its number, and only its own tenant's record is.
func TestAFloodOfRefusalsIsCounted(t *testing.T) {
	denialTest(t, func(t *testing.T, d *denials, told *denied) {
		const flood = 10_000
		for range flood {
			d.credential(t.Context(), aMethod, ErrBadCredential)
		}
		d.credential(t.Context(), aMethod, &CredentialError{Err: ErrTenantInactive, Why: "off", Tenant: "acme"})
		synctest.Wait()
		got := told.all()
		if len(got) != denialsAtOnce+1 || got[denialsAtOnce].Tenant != "acme" || strings.Contains(got[denialsAtOnce].Detail, "more") {
			t.Fatalf("told of %d, the last %+v", len(got), got[len(got)-1])
		}
		time.Sleep(time.Second)
		d.credential(t.Context(), aMethod, ErrBadCredential)
		d.credential(t.Context(), aMethod, ErrBadCredential)
		synctest.Wait()
		got = told.all()[denialsAtOnce+1:]
		if len(got) != 2 || !strings.Contains(got[0].Detail, "; 9980 more were refused") || strings.Contains(got[1].Detail, "more") {
			t.Errorf("then told of %+v", got)
		}
	})
}

// A count does not wait for ever for a next refusal, nor for the end.
func TestCountsOfRefusalsArePassedOnAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told denied
		d := newDenials(told.record, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { d.run(ctx); close(ended) }()
		flood := func() {
			for range denialsAtOnce + 7 {
				d.credential(t.Context(), aMethod, ErrBadCredential)
			}
			synctest.Wait()
		}
		flood()
		time.Sleep(denialFlush)
		synctest.Wait()
		got := told.all()
		if last := got[len(got)-1]; len(got) != denialsAtOnce+1 || last.Detail != notOneByOne(7) || last.Tenant != ledger.AllTenants {
			t.Errorf("told of %d, the last %+v", len(got), last)
		}
		flood()
		stop()
		<-ended
		got = told.all()
		if last := got[len(got)-1]; last.Detail != notOneByOne(7) {
			t.Errorf("at the end: %+v", last)
		}
	})
}

// Calls under way go on for a while when run has ended: who is refused then is
// on record all the same, once the server is closed.
func TestRefusalsDuringTheEndAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told denied
		d := newDenials(told.record, slog.New(slog.DiscardHandler))
		s := &Server{denials: d, tallies: newTallies(func(context.Context, string, []ledger.Tally) error { return nil }, slog.New(slog.DiscardHandler))}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		d.run(ctx)
		for range denialsAtOnce + 3 {
			d.credential(t.Context(), aMethod, &CredentialError{Err: ErrBadCredential, Why: "revoked", Tenant: "acme"})
		}
		s.Close(ctx)
		got := told.all()
		if len(got) != denialsAtOnce+1 || got[0].Tenant != "acme" || got[denialsAtOnce].Detail != notOneByOne(3) {
			t.Errorf("told of %+v", got)
		}
	})
}

// A ledger that hangs neither holds callers up nor makes the server keep more
// than so many.
func TestAHookThatHangsHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told denied
		d := newDenials(func(ctx context.Context, denial ledger.Denial) error { <-ctx.Done(); return told.record(ctx, denial) }, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { d.run(ctx); close(ended) }()
		began := time.Now()
		for range 100 {
			for range denialsPerSecond {
				d.credential(t.Context(), aMethod, ErrBadCredential)
			}
			time.Sleep(time.Second)
		}
		if waited := time.Since(began); waited != 100*time.Second {
			t.Errorf("callers waited %s", waited-100*time.Second)
		}
		if n := len(d.queue); n > maxDenialQueue {
			t.Errorf("%d are kept", n)
		}
		stop()
		<-ended
		if waited := time.Since(began); waited > 100*time.Second+2*denialTimeout {
			t.Errorf("the end took %s", waited-100*time.Second)
		}
	})
}

func TestCredentialOfARequest(t *testing.T) {
	t.Parallel()
	leaf := &x509.Certificate{Raw: []byte("leaf")}
	verified := credentials.TLSInfo{State: tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf}}}}
	// A certificate that a client shows and TLS does not verify is none.
	shown := credentials.TLSInfo{State: tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}}
	for name, test := range map[string]struct {
		auth    credentials.AuthInfo
		headers []string
		token   string
		chain   bool
		ok      bool
	}{
		"nothing":                     {nil, nil, "", false, false},
		"a token":                     {nil, []string{"Bearer abc"}, "abc", false, true},
		"in small letters":            {nil, []string{"bearer  abc "}, "abc", false, true},
		"another scheme":              {nil, []string{"Basic abc"}, "abc", false, false},
		"no token":                    {nil, []string{"Bearer "}, "", false, false},
		"two":                         {nil, []string{"Bearer a", "Bearer a"}, "", false, false},
		"a certificate":               {verified, nil, "", true, true},
		"both":                        {verified, []string{"Bearer abc"}, "abc", true, true},
		"a certificate and nonsense":  {verified, []string{"abc"}, "", true, false},
		"a certificate and an empty":  {verified, []string{""}, "", true, false},
		"a certificate and two":       {verified, []string{"Bearer a", "Bearer b"}, "", true, false},
		"a certificate nobody checks": {shown, nil, "", false, false},
	} {
		headers := metadata.MD{"authorization": test.headers}
		ctx := peer.NewContext(metadata.NewIncomingContext(t.Context(), headers), &peer.Peer{AuthInfo: test.auth})
		c, ok := credentialOf(ctx)
		if ok != test.ok || c.Token != test.token && ok || (len(c.Certificates) == 1) != test.chain {
			t.Errorf("%s: %+v, %v", name, c, ok)
		}
	}
}

// failing is a transport whose handshakes fail.
type failing struct {
	credentials.TransportCredentials
	err error
}

func (f failing) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, f.err
}

func TestCertificatesThatTLSRefusesAreNoted(t *testing.T) {
	denialTest(t, func(t *testing.T, d *denials, told *denied) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		for _, err := range []error{
			&tls.CertificateVerificationError{Err: errors.New(strings.Repeat("x", 100_000))}, errors.New("EOF"), nil,
		} {
			if _, _, got := (handshakes{failing{nil, err}, d}).ServerHandshake(near); !errors.Is(got, err) {
				t.Errorf("got %v, want %v", got, err)
			}
		}
		synctest.Wait()
		if got := told.all(); len(got) != 1 || got[0].Tenant != ledger.AllTenants || !strings.Contains(got[0].Detail, "TLS: the client certificate is not trusted") || len(got[0].Detail) > 300 {
			t.Errorf("told of %.500v", got)
		}
	})
}
