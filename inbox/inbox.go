package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/internal/panics"
	"github.com/onceward/onceward/ledger"
)

// Ledger is what the inbox needs of the store. ledger.ErrNotFound: there is no
// such tenant. After every other error the events may be stored or not; to store
// them again is harmless.
type Ledger interface {
	StoreEvents(ctx context.Context, tenant, provider string, events []ledger.InboxEvent) (stored int, err error)
}

// Limits of a message.
const (
	MaxBodyBytes   = 1 << 20
	maxHeaderBytes = 64 << 10
)

// storeTimeout is how long a provider waits for the ledger; they give up after
// some 15 s themselves.
const storeTimeout = 8 * time.Second

// retryAfter is what a provider is told where a message was not stored.
const retryAfter = "30"

// Options configure an Inbox.
type Options struct {
	Ledger Ledger
	// Source returns what understands a provider's messages to a tenant, or nil
	// where the tenant has no such provider. It is asked for each message, so that
	// sources can be replaced while others are in use.
	Source func(tenant, provider string) actions.Source
	// Sensitive returns the fields of receipts that nobody may see, of all action
	// types of a provider ([actions.Spec.SensitiveReceipt]): which one an event is
	// about is not known before it is weighed.
	Sensitive func(provider string) []string
	Log       *slog.Logger

	// PublicURL is scheme and host of the address that providers were given, for
	// those that sign it: "https://hooks.example.com". Without it the request's
	// own are taken, which are others behind a proxy.
	PublicURL string
	// MaxInFlight bounds the messages that are read and stored at once, and so
	// the memory for them (MaxBodyBytes each); default 128.
	MaxInFlight int
	// ReadTimeout is how long a message may take to come in; default 10 s.
	ReadTimeout time.Duration
	// Metrics is told of each message; nil: nobody is.
	Metrics Metrics
	// Now is the time that timestamps are compared with; default time.Now.
	Now func() time.Time
}

// Inbox is the handler. It is safe for concurrent use.
type Inbox struct {
	Options
	mux    *http.ServeMux
	places chan struct{}
}

var _ http.Handler = (*Inbox)(nil)

// New makes an inbox, or says what is wrong with the options.
func New(o Options) (*Inbox, error) {
	if o.Ledger == nil || o.Source == nil || o.Sensitive == nil || o.Log == nil {
		return nil, errors.New("inbox: ledger, source, sensitive and log are required")
	}
	if o.PublicURL != "" {
		u, err := url.Parse(o.PublicURL)
		if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("inbox: public url %q: want scheme and host, such as https://hooks.example.com", o.PublicURL)
		}
		o.PublicURL = strings.TrimSuffix(o.PublicURL, "/")
	}
	if o.MaxInFlight < 0 || o.ReadTimeout < 0 {
		return nil, errors.New("inbox: messages in flight and read timeout cannot be negative")
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight = 128
	}
	if o.ReadTimeout == 0 {
		o.ReadTimeout = 10 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Metrics == nil {
		o.Metrics = unmeasured{}
	}
	b := &Inbox{Options: o, mux: http.NewServeMux(), places: make(chan struct{}, o.MaxInFlight)}
	b.mux.HandleFunc("POST /v1/webhooks/{tenant}/{provider}", b.receive)
	b.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { notFound(w) })
	return b, nil
}

// NewServer makes a server for a handler whose callers are strangers: every
// phase of a request has a time limit, and headers have a size limit.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       20 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    maxHeaderBytes,
		// Strangers' broken connections are nothing to wake anybody for.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelInfo),
	}
}

// ServeHTTP implements http.Handler.
func (b *Inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) { b.mux.ServeHTTP(w, r) }

// receive handles one message.
func (b *Inbox) receive(w http.ResponseWriter, r *http.Request) {
	tenant, provider := r.PathValue("tenant"), r.PathValue("provider")
	result := b.take(w, r, tenant, provider)
	b.Metrics.Received(tenant, provider, result, result == resultStored)
}

// take answers one message, and says what became of it.
func (b *Inbox) take(w http.ResponseWriter, r *http.Request, tenant, provider string) (result string) {
	if !tenantName(tenant) {
		notFound(w)
		return resultUnknown
	}
	source := b.Source(tenant, provider)
	if source == nil {
		notFound(w)
		return resultUnknown
	}
	select {
	case b.places <- struct{}{}:
		defer func() { <-b.places }()
	default:
		tryAgain(w)
		return resultUnavailable
	}
	log := b.Log.With("tenant", tenant, "provider", provider)
	body, err := b.read(w, r)
	if err != nil {
		log.Info("webhook not read", "error", err)
		refuseBody(w, err)
		return resultUnreadable
	}
	sum := sha256.Sum256(body)
	log = log.With("bytes", len(body), "sha256", hex.EncodeToString(sum[:]))
	events, err := eventsOf(source, tenant, b.message(r, body), b.Now())
	var panicked *panicError
	switch {
	case errors.As(err, &panicked):
		log.Error("webhook source panicked", panicked.what)
		tryAgain(w)
		return resultUnreadable
	case errors.Is(err, actions.ErrMalformed):
		log.Warn("webhook is verified and cannot be read", "error", err)
		answer(w, http.StatusBadRequest, problem{"malformed"})
		return resultUnreadable
	case err != nil:
		log.Warn("webhook is not verified", "error", err)
		answer(w, http.StatusUnauthorized, problem{"not verified"})
		return resultUnverified
	}
	kept := storable(events, sum, b.Sensitive(source.Provider()))
	stored := 0
	if len(kept) > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
		defer cancel()
		stored, err = b.Ledger.StoreEvents(ctx, tenant, source.Provider(), kept)
	}
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		notFound(w)
		return resultUnknown
	case err != nil:
		log.Error("webhook not stored", "error", err)
		tryAgain(w)
		return resultUnavailable
	default:
		log.Info("webhook", "events", len(events), "evidence", len(kept), "stored", stored)
		answer(w, http.StatusOK, acknowledged{stored})
		return resultStored
	}
}

// read takes the body in, within its size and time.
func (b *Inbox) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(b.ReadTimeout))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	return io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBodyBytes))
}

// message is what a source sees of a request.
func (b *Inbox) message(r *http.Request, body []byte) actions.Message {
	base := b.PublicURL
	if base == "" {
		base = "http://" + r.Host
		if r.TLS != nil {
			base = "https://" + r.Host
		}
	}
	return actions.Message{Method: r.Method, URL: base + r.URL.RequestURI(), Header: r.Header, Body: body}
}

// panicError is a source that panicked.
type panicError struct{ what slog.Attr }

func (e *panicError) Error() string { return "the source panicked" }

// eventsOf asks the source, behind a recover: what it reads comes from
// strangers.
func eventsOf(s actions.Source, tenant string, m actions.Message, now time.Time) (events []actions.Event, err error) {
	defer func() {
		if p := recover(); p != nil {
			events, err = nil, &panicError{panics.Attr(p)}
		}
	}()
	return s.Events(tenant, m, now)
}

// tenantName reports whether a text can be a tenant's name, as the schema has
// it.
func tenantName(s string) bool {
	if s == "" || len(s) > 63 || strings.IndexAny(s[:1], "_-") == 0 {
		return false
	}
	return strings.IndexFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-'
	}) < 0
}

// acknowledged and problem are what is answered.
type acknowledged struct {
	Stored int `json:"stored"`
}

type problem struct {
	Error string `json:"error"`
}

// notFound is the same whatever is not there, so that nobody learns who is a
// tenant.
func notFound(w http.ResponseWriter) { answer(w, http.StatusNotFound, problem{"not found"}) }

// tryAgain asks the provider to send the message again.
func tryAgain(w http.ResponseWriter) {
	w.Header().Set("Retry-After", retryAfter)
	answer(w, http.StatusServiceUnavailable, problem{"not stored, send it again"})
}

func refuseBody(w http.ResponseWriter, err error) {
	var large *http.MaxBytesError
	w.Header().Set("Connection", "close") // the rest of it is not read
	switch {
	case errors.As(err, &large):
		answer(w, http.StatusRequestEntityTooLarge, problem{"too large"})
	case errors.Is(err, os.ErrDeadlineExceeded):
		answer(w, http.StatusRequestTimeout, problem{"too slow"})
	default:
		answer(w, http.StatusBadRequest, problem{"incomplete"})
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// A provider that does not read the answer sends its message again.
	_ = json.NewEncoder(w).Encode(body)
}
