package httpaction_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/actions/httpaction"
)

// Each of these must be told from doubt: no byte was offered.
func TestSendSaysNotSent(t *testing.T) {
	p := serve(t, say(created))
	closed := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return "http://" + l.Addr().String()
	}()
	_, port, err := net.SplitHostPort(p.url[len("http://"):])
	if err != nil {
		t.Fatal(err)
	}
	secure := func(config *tls.Config) string {
		srv := httptest.NewUnstartedServer(http.NotFoundHandler())
		srv.Config.ErrorLog = quiet()
		srv.TLS = config
		srv.StartTLS()
		t.Cleanup(srv.Close)
		return srv.URL
	}
	refuse := errors.New("refused")

	tests := []struct {
		name      string
		url       string
		options   func(*httpaction.Options)
		request   func(*httpaction.Request)
		ctx       func(context.Context) context.Context
		phase     httpaction.Phase
		permanent bool
	}{
		{name: "refused connection", url: closed, phase: httpaction.PhaseDial},
		{name: "no such name", url: "http://provider.invalid", phase: httpaction.PhaseDial, options: func(o *httpaction.Options) {
			o.Resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, refuse }}
		}},
		{name: "tunnel refused", url: p.url, phase: httpaction.PhaseDial, options: func(o *httpaction.Options) {
			o.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, refuse }
		}},
		{name: "dial time-out", url: p.url, phase: httpaction.PhaseDial, options: func(o *httpaction.Options) {
			o.ConnectTimeout = time.Millisecond
			o.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
		}},
		{name: "unknown authority", url: secure(nil), phase: httpaction.PhaseTLS},
		{name: "HTTP/2 only", url: secure(&tls.Config{NextProtos: []string{"h2"}}), phase: httpaction.PhaseTLS},
		{name: "no TLS there", url: "https" + p.url[len("http"):], phase: httpaction.PhaseTLS},
		{name: "cancelled before", url: p.url, phase: httpaction.PhasePrepare, ctx: func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx
		}},
		{name: "no credential", url: p.url, phase: httpaction.PhasePrepare, options: func(o *httpaction.Options) {
			o.Credential = func(context.Context, httpaction.Request) (http.Header, error) { return nil, refuse }
		}},
		{name: "line break in a credential", url: p.url, phase: httpaction.PhasePrepare, permanent: true, options: func(o *httpaction.Options) {
			o.Credential = func(context.Context, httpaction.Request) (http.Header, error) {
				return http.Header{"Authorization": {"x\r\nX: y"}}, nil
			}
		}},
		{name: "credential replaces the key", url: p.url, phase: httpaction.PhasePrepare, permanent: true, options: func(o *httpaction.Options) {
			o.Credential = func(context.Context, httpaction.Request) (http.Header, error) {
				return http.Header{"idempotency-key": {"other"}}, nil
			}
		}},
		{name: "line break in a header", url: p.url, phase: httpaction.PhasePrepare, permanent: true, request: func(r *httpaction.Request) {
			r.Header.Set("X-Note", "a\r\nX-Admin: 1")
		}},
		{name: "other origin", url: p.url, phase: httpaction.PhasePrepare, permanent: true, request: func(r *httpaction.Request) {
			r.URL = "http://127.0.0.1:1/v1/refunds"
		}},
		{name: "private address", url: p.url, phase: httpaction.PhaseDial, permanent: true, options: func(o *httpaction.Options) {
			o.PrivateNetworks = nil
		}},
		{name: "name of a private address", url: "http://localhost:" + port, phase: httpaction.PhaseDial, permanent: true, options: func(o *httpaction.Options) {
			o.PrivateNetworks = nil
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newSender(t, test.url, test.options)
			r, ctx := keyed(test.url), t.Context()
			if test.request != nil {
				test.request(&r)
			}
			if test.ctx != nil {
				ctx = test.ctx(ctx)
			}
			x := s.Send(ctx, r)
			wantSent(t, x, httpaction.NotSent)
			if x.Phase != test.phase || x.Status != 0 || x.Err == nil || x.Evidence == "" || x.ReceivedAt.IsZero() {
				t.Errorf("got %+v", x)
			}
			if got := errors.Is(x.Err, httpaction.ErrNotSendable); got != test.permanent {
				t.Errorf("not sendable: %t, want %t (%v)", got, test.permanent, x.Err)
			}
			if n := p.effects(); n != 0 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

// Time can be up between the connection and the first byte.
func TestSendCancelledAfterDial(t *testing.T) {
	p := serve(t, say(created))
	ctx, cancel := context.WithCancel(t.Context())
	x := p.sender(t, func(o *httpaction.Options) {
		o.Dial = func(_ context.Context, network, address string) (net.Conn, error) {
			defer cancel()
			return new(net.Dialer).DialContext(t.Context(), network, address)
		}
	}).Send(ctx, keyed(p.url))
	wantSent(t, x, httpaction.NotSent)
	if x.Phase != httpaction.PhaseWrite || !errors.Is(x.Err, context.Canceled) {
		t.Errorf("got %+v", x)
	}
	if n := p.effects(); n != 0 {
		t.Errorf("%d effects", n)
	}
}

// A connection that takes no byte was offered some all the same: whether the
// peer got any of them is the kernel's secret.
func TestSendFailedWriteIsDoubt(t *testing.T) {
	p := serve(t, say(created))
	x := p.sender(t, func(o *httpaction.Options) {
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			return mute{c}, err
		}
	}).Send(t.Context(), keyed(p.url))
	wantSent(t, x, httpaction.MaybeSent)
	if x.Phase != httpaction.PhaseWrite {
		t.Errorf("got %+v", x)
	}
}

type mute struct{ net.Conn }

func (mute) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// Report R3: the sender offers HTTP/1.1 alone, so that no reset of a stream can
// be answered by the library with a second request.
func TestSendSpeaksHTTP1Only(t *testing.T) {
	var protocols []string
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocols = append(protocols, r.Proto)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"id":"r1"}`))
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	s := newSender(t, srv.URL, func(o *httpaction.Options) {
		o.TLS = &tls.Config{RootCAs: roots, NextProtos: []string{"h2"}}
	})
	x := s.Send(t.Context(), keyed(srv.URL))
	wantSent(t, x, httpaction.MaybeSent)
	if x.Status != 201 || !x.Complete {
		t.Fatalf("got %+v", x)
	}
	if read := s.Read(t.Context(), httpaction.Request{Method: "GET", URL: srv.URL + "/v1/refunds"}); read.Status != 201 {
		t.Fatalf("look-up: %+v", read)
	}
	if len(protocols) != 2 || protocols[0] != "HTTP/1.1" || protocols[1] != "HTTP/1.1" {
		t.Errorf("the server saw %q", protocols)
	}
	s.Close()
}

// A write has a connection of its own, and resumes the TLS session of an earlier
// one.
func TestSendResumesTLS(t *testing.T) {
	var connections []string
	var resumed []bool
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connections, resumed = append(connections, r.RemoteAddr), append(resumed, r.TLS.DidResume)
		w.WriteHeader(http.StatusCreated)
	}))
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	s := newSender(t, srv.URL, func(o *httpaction.Options) { o.TLS = &tls.Config{RootCAs: roots} })
	for range 2 {
		if x := s.Send(t.Context(), keyed(srv.URL)); x.Status != http.StatusCreated {
			t.Fatalf("got %+v", x)
		}
	}
	if len(connections) != 2 || connections[0] == connections[1] {
		t.Errorf("two writes on the connections %q", connections)
	}
	if !slices.Equal(resumed, []bool{false, true}) {
		t.Errorf("resumed: %t", resumed)
	}
}

// In TLS 1.3 a server that misses our certificate says so after we wrote.
func TestSendMissingClientCertificate(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.Config.ErrorLog = quiet()
	srv.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13}
	srv.StartTLS()
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	s := newSender(t, srv.URL, func(o *httpaction.Options) { o.TLS = &tls.Config{RootCAs: roots} })
	x := s.Send(t.Context(), keyed(srv.URL))
	if x.Err == nil || x.Status != 0 || (x.Sent == httpaction.NotSent) != (x.BytesOffered == 0) {
		t.Errorf("got %+v", x)
	}
}

func TestNewSenderRefuses(t *testing.T) {
	for name, o := range map[string]httpaction.Options{
		"no origin":         {},
		"origin with path":  {Origins: []string{"https://api.example.com/v1"}},
		"origin with query": {Origins: []string{"https://api.example.com?x=1"}},
		"bare host":         {Origins: []string{"api.example.com"}},
		"other scheme":      {Origins: []string{"ftp://api.example.com"}},
		"user":              {Origins: []string{"https://u:p@api.example.com"}},
		"no verification":   {Origins: []string{"https://api.example.com"}, TLS: &tls.Config{InsecureSkipVerify: true}},
		"negative time-out": {Origins: []string{"https://api.example.com"}, Timeout: -1},
	} {
		if _, err := httpaction.NewSender(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
