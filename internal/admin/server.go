package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Check is one thing that must hold for a process to be ready. Whoever can reach the
// listener reads it: neither name nor reason holds an address, a tenant or the text of
// an error.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"` // in words, where there is something to say
}

// Options say what is served.
type Options struct {
	Log *slog.Logger // required
	// Metrics are what /metrics shows; nil: there is no such page.
	Metrics prometheus.Gatherer
	// Ready says how each check stands now. It is called for every request and must
	// not wait for anybody. Nil: always ready.
	Ready func() []Check
	// Token is wanted for /metrics and profiles, as a bearer token; empty: none is.
	Token string
	// Profiles serves /debug/pprof. It wants a Token.
	Profiles bool
}

// MinToken is the length of the shortest token, in bytes.
const MinToken = 16

// Faults of options.
var (
	ErrShortToken     = errors.New("admin: the token is too short: want 16 characters at least, such as those of: openssl rand -hex 32")
	ErrProfilesNoLock = errors.New("admin: profiles show memory: they want a token")
)

// Limits of the listener. Those who ask are few and known, and send no body.
const (
	readTimeout    = 5 * time.Second
	writeTimeout   = 30 * time.Second // a profile has its own time on top
	idleTimeout    = 2 * time.Minute  // longer than between two scrapes
	maxHeaderBytes = 16 << 10
	maxScrapes     = 4 // at once; they share what is gathered
	scrapeTimeout  = 10 * time.Second
)

// New makes the server, for any listener. There are no other pages than those of this
// package.
func New(o Options) (*http.Server, error) {
	switch {
	case o.Token != "" && len(o.Token) < MinToken:
		return nil, ErrShortToken
	case o.Profiles && o.Token == "":
		return nil, ErrProfilesNoLock
	}
	errorLog := slog.NewLogLogger(o.Log.Handler(), slog.LevelInfo)
	pages := http.NewServeMux()
	pages.HandleFunc("GET /healthz", healthz)
	pages.Handle("GET /readyz", readyz{o.Ready})
	if o.Metrics != nil {
		pages.Handle("GET /metrics", locked(o.Token, promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{
			ErrorLog: errorLog, ErrorHandling: promhttp.ContinueOnError, // a part that fails takes no other with it
			MaxRequestsInFlight: maxScrapes, CoalesceGather: true, Timeout: scrapeTimeout,
		})))
	}
	if o.Profiles {
		// Not the command line, which may hold the database's password.
		for _, name := range []string{"allocs", "block", "goroutine", "heap", "mutex", "threadcreate"} {
			pages.Handle("GET /debug/pprof/"+name, locked(o.Token, pprof.Handler(name)))
		}
		pages.Handle("GET /debug/pprof/profile", locked(o.Token, http.HandlerFunc(pprof.Profile)))
		pages.Handle("GET /debug/pprof/trace", locked(o.Token, http.HandlerFunc(pprof.Trace)))
	}
	return &http.Server{
		Handler: closed(pages), ErrorLog: errorLog,
		ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
	}, nil
}

// closed is for all pages: nothing of them is kept, guessed or shown in a frame.
func closed(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		pages.ServeHTTP(w, r)
	})
}

// healthz answers while the process can answer at all. It asks nobody: a process is
// not restarted because its ledger is away.
func healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n")) // who asked may have left
}

// readyz says whether requests may be sent here.
type readyz struct{ ready func() []Check }

// ServeHTTP answers 200 when all checks hold, else 503, and how each stands.
func (h readyz) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	answer := struct {
		Ready  bool    `json:"ready"`
		Checks []Check `json:"checks"`
	}{Ready: true, Checks: []Check{}}
	if h.ready != nil {
		answer.Checks = h.ready()
	}
	for _, c := range answer.Checks {
		answer.Ready = answer.Ready && c.OK
	}
	w.Header().Set("Content-Type", "application/json")
	if !answer.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(answer) // who asked may have left
}

// unrelayed lets in who asks for this machine by name. A page without a token is served
// on loopback alone, and a browser there can be made to ask for it by a site whose name
// leads to loopback (DNS rebinding): that request has the site's name in its Host.
func unrelayed(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		address, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if host != "localhost" && (err != nil || !address.IsLoopback()) {
			http.Error(w, "without a token this page answers to localhost, 127.0.0.1 and [::1] only", http.StatusMisdirectedRequest)
			return
		}
		page.ServeHTTP(w, r)
	})
}

// locked lets in who has the token. The comparison takes the same time however much
// of it is right.
func locked(token string, page http.Handler) http.Handler {
	if token == "" {
		return unrelayed(page)
	}
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(strings.TrimSpace(given)))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="onceward admin"`)
			http.Error(w, "this page wants the token of --admin-token-file, as: Authorization: Bearer TOKEN", http.StatusUnauthorized)
			return
		}
		page.ServeHTTP(w, r)
	})
}
