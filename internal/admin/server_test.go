package admin_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/internal/admin"
)

const token = "correct-horse-battery"

func metrics(t *testing.T) *prometheus.Registry {
	t.Helper()
	r := prometheus.NewRegistry()
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "answer", Help: "x"})
	g.Set(42)
	r.MustRegister(g)
	return r
}

func TestPages(t *testing.T) {
	t.Parallel()
	ready := []admin.Check{{Name: "ledger", OK: true}}
	away := []admin.Check{{Name: "ledger", Reason: "it does not answer"}, {Name: "policies", OK: true}}
	for _, c := range []struct {
		what, request, authorization string
		o                            admin.Options
		status                       int
		body                         string // is in it
	}{
		{"alive", "GET /healthz", "", admin.Options{}, 200, "ok\n"},
		{"alive, not ready", "GET /healthz", "", admin.Options{Ready: func() []admin.Check { return away }}, 200, "ok\n"},
		{"no checks", "GET /readyz", "", admin.Options{}, 200, `{"ready":true,"checks":[]}`},
		{"ready", "GET /readyz", "", admin.Options{Ready: func() []admin.Check { return ready }}, 200, `{"ready":true,"checks":[{"name":"ledger","ok":true}]}`},
		{"not ready", "GET /readyz", "", admin.Options{Ready: func() []admin.Check { return away }}, 503,
			`{"ready":false,"checks":[{"name":"ledger","ok":false,"reason":"it does not answer"},{"name":"policies","ok":true}]}`},
		{"ready is no secret", "GET /readyz", "", admin.Options{Token: token}, 200, "true"},
		{"only the head", "HEAD /readyz", "", admin.Options{}, 200, ""},
		{"metrics", "GET /metrics", "", admin.Options{Metrics: metrics(t)}, 200, "\nanswer 42\n"},
		{"no metrics", "GET /metrics", "", admin.Options{}, 404, ""},
		{"no token", "GET /metrics", "", admin.Options{Metrics: metrics(t), Token: token}, 401, "--admin-token-file"},
		{"the token", "GET /metrics", "Bearer " + token, admin.Options{Metrics: metrics(t), Token: token}, 200, "answer 42"},
		{"the token, with another case", "GET /metrics", "bearer " + token, admin.Options{Metrics: metrics(t), Token: token}, 200, "answer 42"},
		{"another token", "GET /metrics", "Bearer " + token + "x", admin.Options{Metrics: metrics(t), Token: token}, 401, ""},
		{"the beginning of it", "GET /metrics", "Bearer " + token[:8], admin.Options{Metrics: metrics(t), Token: token}, 401, ""},
		{"another scheme", "GET /metrics", "Basic " + token, admin.Options{Metrics: metrics(t), Token: token}, 401, ""},
		{"profiles are off", "GET /debug/pprof/heap", "Bearer " + token, admin.Options{Token: token}, 404, ""},
		{"profiles are locked", "GET /debug/pprof/heap", "", admin.Options{Token: token, Profiles: true}, 401, ""},
		{"a trace is locked", "GET /debug/pprof/trace?seconds=0.01", "", admin.Options{Token: token, Profiles: true}, 401, ""},
		{"a profile", "GET /debug/pprof/goroutine?debug=1", "Bearer " + token, admin.Options{Token: token, Profiles: true}, 200, "goroutine profile:"},
		{"the command line has a password", "GET /debug/pprof/cmdline", "Bearer " + token, admin.Options{Token: token, Profiles: true}, 404, ""},
		{"nothing else", "GET /", "", admin.Options{}, 404, ""},
		{"nothing is changed", "POST /readyz", "", admin.Options{}, 405, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			c.o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
			server, err := admin.New(c.o)
			if err != nil {
				t.Fatal(err)
			}
			method, path, _ := strings.Cut(c.request, " ")
			req := httptest.NewRequestWithContext(t.Context(), method, path, nil)
			req.Host = "localhost:7071"
			if c.authorization != "" {
				req.Header.Set("Authorization", c.authorization)
			}
			w := httptest.NewRecorder()
			server.Handler.ServeHTTP(w, req)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) {
				t.Errorf("%d %s, want %d with %s", w.Code, w.Body, c.status, c.body)
			}
			if got := w.Header().Get("Cache-Control"); got != "no-store" {
				t.Errorf("Cache-Control is %q", got)
			}
		})
	}
}

func TestOptionsThatAreNotSafe(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	for _, c := range []struct {
		o    admin.Options
		want error
	}{
		{admin.Options{Log: log, Token: token[:admin.MinToken-1]}, admin.ErrShortToken},
		{admin.Options{Log: log, Profiles: true}, admin.ErrProfilesNoLock},
	} {
		if _, err := admin.New(c.o); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.o, err, c.want)
		}
	}
}

// broken is a collector that fails, as one does whose names clash.
type broken struct{}

func (broken) Describe(chan<- *prometheus.Desc) {}
func (broken) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.NewInvalidMetric(prometheus.NewDesc("broken", "x", nil, nil), errors.New("it broke"))
}

// A metric that cannot be told is a line in the log, and takes no other with it.
func TestBrokenMetric(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	registry := metrics(t)
	registry.MustRegister(broken{})
	server, err := admin.New(admin.Options{Log: slog.New(slog.NewTextHandler(&text, nil)), Metrics: registry})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	server.Handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/metrics", nil))
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "answer 42") || !strings.Contains(text.String(), "it broke") {
		t.Errorf("%d %s, log %s", w.Code, w.Body, &text)
	}
}

// served is a server on a listener, with short times.
func served(t *testing.T, o admin.Options, change func(*http.Server)) (address string) {
	t.Helper()
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	server, err := admin.New(o)
	if err != nil {
		t.Fatal(err)
	}
	change(server)
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		serving.Wait()
	})
	return listener.Addr().String()
}

// Who sends a request byte by byte, or a very large one, is cut off.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	address := served(t, admin.Options{}, func(s *http.Server) {
		if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.WriteTimeout <= 0 || s.IdleTimeout <= 0 {
			t.Errorf("a time is not bounded: %v %v %v %v", s.ReadHeaderTimeout, s.ReadTimeout, s.WriteTimeout, s.IdleTimeout)
		}
		s.ReadHeaderTimeout, s.ReadTimeout = 100*time.Millisecond, 100*time.Millisecond
	})
	for what, request := range map[string]string{
		"half a header": "GET /readyz HTTP/1.1\r\nHost: x\r\nX-A: ",
		"half a body":   "GET /readyz HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc",
		"a huge header": "GET /readyz HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 64<<10) + "\r\n\r\n",
	} {
		t.Run(what, func(t *testing.T) {
			var dialer net.Dialer
			conn, err := dialer.DialContext(t.Context(), "tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(conn, request) // it may be cut off in the middle
			_, err = io.ReadAll(conn)            // until the server hangs up
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Error("the server holds the connection")
			}
		})
	}
}

// A profile takes its time, and the time for a request does not end it.
func TestProfileTakesItsTime(t *testing.T) {
	t.Parallel()
	address := served(t, admin.Options{Token: token, Profiles: true}, func(s *http.Server) {
		s.ReadTimeout, s.WriteTimeout = 200*time.Millisecond, 200*time.Millisecond
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s/debug/pprof/trace?seconds=0.8", address), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	began := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	n, err := io.Copy(io.Discard, resp.Body)
	if took := time.Since(began); err != nil || resp.StatusCode != http.StatusOK || n == 0 || took < 700*time.Millisecond {
		t.Errorf("%d, %d bytes after %s: %v", resp.StatusCode, n, took, err)
	}
}

// A page without a token answers to this machine's own names: a site in a browser here
// that leads its own name to loopback asks with that name.
func TestWithoutATokenForThisMachineAlone(t *testing.T) {
	t.Parallel()
	server, err := admin.New(admin.Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Metrics: metrics(t)})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{
		"localhost:7071": 200, "127.0.0.1:7071": 200, "[::1]:7071": 200, "127.0.0.1": 200, "[::1]": 200, "localhost": 200,
		"evil.example:7071": 421, "evil.example": 421, "192.0.2.1:7071": 421, "localhost.evil.example:7071": 421, "": 421,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.Host = host
		w := httptest.NewRecorder()
		server.Handler.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("Host %q: %d, want %d", host, w.Code, want)
		}
	}
}
