package httpaction

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Defaults of Options.
const (
	DefaultConnectTimeout   = 10 * time.Second
	DefaultTimeout          = 30 * time.Second
	DefaultMaxResponseBytes = 1 << 20
)

// Options configure a Sender. Only Origins has no default.
type Options struct {
	// Origins are the only targets: "https://api.example.com" or
	// "http://127.0.0.1:8080". Plain text is spoken only where it is named.
	Origins []string
	// PrivateNetworks may be dialled although they are not public. The rule is
	// applied to the addresses that a name resolves to. See Loopback.
	PrivateNetworks []netip.Prefix

	// Credential returns the headers that prove who we are, for one request.
	// It is called once an attempt, with the final request, so that it may
	// sign; it must not change it. Its error must not hold the secret. A
	// failure means that nothing was sent.
	Credential func(ctx context.Context, r Request) (http.Header, error)
	// Authorize does the same for providers that want more than headers. At
	// most one of the two is set.
	Authorize func(ctx context.Context, r Request) (Credential, error)
	// TLS holds roots and client certificates. Verification cannot be off.
	TLS *tls.Config

	ConnectTimeout   time.Duration // resolve, dial and TLS; default 10 s
	Timeout          time.Duration // the whole exchange, within the context's; default 30 s
	MaxResponseBytes int64         // the rest is not read; default 1 MiB
	UserAgent        string        // default "onceward"

	// Resolver looks up names; nil is Go's own.
	Resolver *net.Resolver
	// Dial replaces resolving and connecting, in tests or for a tunnel. Whoever
	// sets it answers for the address: PrivateNetworks is not applied. An error
	// means that nothing was sent.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Now is the clock of Exchange.ReceivedAt; default time.Now.
	Now func() time.Time

	// Tracer gets one client span for each Send and Read; nil: that of the span in
	// the context, so that an attempt's calls are below it. Spans have
	// method, host, status and phase, never a path, a query or a body. Nothing of
	// a trace is sent to the provider.
	Tracer trace.Tracer
}

// Sender sends requests to one provider. It is safe for concurrent use.
type Sender struct {
	o      Options
	egress *egress
	reads  *http.Transport
}

// NewSender checks the options. A sender without an origin is not made.
func NewSender(o Options) (*Sender, error) {
	e, err := newEgress(o)
	if err != nil {
		return nil, fmt.Errorf("http sender: %w", err)
	}
	if o.ConnectTimeout < 0 || o.Timeout < 0 || o.MaxResponseBytes < 0 {
		return nil, errors.New("http sender: a limit is negative")
	}
	if o.Credential != nil && o.Authorize != nil {
		return nil, errors.New("http sender: both Credential and Authorize are set")
	}
	if headers := o.Credential; headers != nil {
		o.Authorize = func(ctx context.Context, r Request) (Credential, error) {
			h, err := headers(ctx, r)
			return Credential{Header: h}, err
		}
	}
	o.ConnectTimeout = orDefault(o.ConnectTimeout, DefaultConnectTimeout)
	o.Timeout = orDefault(o.Timeout, DefaultTimeout)
	o.MaxResponseBytes = orDefault(o.MaxResponseBytes, DefaultMaxResponseBytes)
	o.UserAgent = orDefault(o.UserAgent, "onceward")
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Sender{o: o, egress: e}
	s.reads = newTransport(nil)
	s.reads.DialContext = s.dialRead("http")
	s.reads.DialTLSContext = s.dialRead("https")
	return s, nil
}

// Close lets go of idle connections of look-ups. The sender stays usable.
func (s *Sender) Close() { s.reads.CloseIdleConnections() }

// Send makes exactly one attempt of a write on a connection of its own. It
// returns when the whole answer was read or can no longer come; the context and
// Options.Timeout bound it. It never sends twice, whatever happens.
func (s *Sender) Send(ctx context.Context, r Request) Exchange {
	ctx, span := s.startSpan(ctx, r)
	x := s.send(ctx, r)
	endSpan(span, x, true)
	return x
}

func (s *Sender) send(ctx context.Context, r Request) Exchange {
	x := Exchange{Phase: PhasePrepare, Sent: NotSent}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	req, secrets, err := s.prepare(ctx, r)
	if err != nil {
		return s.end(ctx, x, secrets, err)
	}
	conn, phase, err := s.connect(ctx, req.URL)
	if err != nil {
		x.Phase = phase
		return s.end(ctx, x, secrets, err)
	}
	w := &wire{Conn: conn}
	w.until, _ = ctx.Deadline() // there is one: Options.Timeout
	defer w.Close()

	resp, err := w.roundTrip(req)
	if err == nil {
		err = s.receive(&x, resp)
	}
	offered, failed := w.seal()
	x.BytesOffered = offered
	if offered > 0 {
		x.Sent = MaybeSent
	}
	if x.Status == 0 {
		x.Phase = PhaseHeaders
		if offered == 0 || failed {
			x.Phase = PhaseWrite
		}
	}
	return s.end(ctx, x, secrets, err)
}

// Read makes one look-up: a GET or HEAD, which asks and changes nothing. It
// goes to the same targets under the same limits as Send, but may reuse a
// connection and may be repeated by the library on a fresh one. Sent and
// BytesOffered say nothing about a look-up.
func (s *Sender) Read(ctx context.Context, r Request) Exchange {
	ctx, span := s.startSpan(ctx, r)
	x := s.read(ctx, r)
	endSpan(span, x, false)
	return x
}

func (s *Sender) read(ctx context.Context, r Request) Exchange {
	x := Exchange{Phase: PhasePrepare}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return s.end(ctx, x, nil, notSendable("%s is not a look-up", r.Method))
	}
	req, secrets, err := s.prepare(ctx, r)
	if err != nil {
		return s.end(ctx, x, secrets, err)
	}
	x.Phase = PhaseHeaders
	resp, err := s.reads.RoundTrip(req)
	if err == nil {
		err = s.receive(&x, resp)
	}
	return s.end(ctx, x, secrets, err)
}

// prepare checks everything that can be checked before a connection is opened,
// and returns the secrets that the request carries.
func (s *Sender) prepare(ctx context.Context, r Request) (*http.Request, []string, error) {
	u, err := r.check()
	if err != nil {
		return nil, nil, err
	}
	if err := s.egress.allows(u); err != nil {
		return nil, nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, nil, err
	}
	header := wireHeader(r.Header)
	var secrets []string
	if s.o.Authorize != nil {
		credential, err := s.o.Authorize(ctx, r)
		if err != nil {
			return nil, nil, fmt.Errorf("credential: %w", err)
		}
		if err := credential.addTo(header, u); err != nil {
			return nil, nil, err
		}
		secrets = credential.secrets()
	}
	if header.Get("User-Agent") == "" {
		header.Set("User-Agent", s.o.UserAgent)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, u.String(), bytes.NewReader(r.Body))
	if err != nil {
		return nil, nil, notSendable("the request is malformed")
	}
	req.Header = header
	req.GetBody = nil // with it, the transport could send the body again
	return req, secrets, nil
}

// connect opens the attempt's connection within ConnectTimeout.
func (s *Sender) connect(ctx context.Context, u *url.URL) (net.Conn, Phase, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.ConnectTimeout)
	defer cancel()
	return s.egress.open(ctx, u)
}

// dialRead is the dial function of look-ups for a scheme.
func (s *Sender) dialRead(scheme string) dialFunc {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		conn, _, err := s.connect(ctx, &url.URL{Scheme: scheme, Host: address})
		return conn, err
	}
}

// receive reads an answer into x, up to the limit.
func (s *Sender) receive(x *Exchange, resp *http.Response) error {
	defer resp.Body.Close()
	x.Phase, x.Status, x.Header = PhaseBody, resp.StatusCode, resp.Header
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return errors.New("the provider switched protocols")
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, s.o.MaxResponseBytes+1))
	x.Body = body
	if err != nil {
		return err
	}
	if int64(len(body)) > s.o.MaxResponseBytes {
		x.Body = body[:s.o.MaxResponseBytes]
		return fmt.Errorf("the body is longer than %d bytes", s.o.MaxResponseBytes)
	}
	x.Complete, x.Phase = true, PhaseDone
	return nil
}

// end completes an exchange: its error, with the context's cause when that is
// why, its time, its evidence, and nothing of our secrets.
func (s *Sender) end(ctx context.Context, x Exchange, secrets []string, err error) Exchange {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	x.Err = err
	x.ReceivedAt = s.o.Now()
	x.Evidence = x.seen()
	redact(&x, secrets)
	// Cut afterwards: of a secret that is cut, a part would be left.
	x.Evidence = oneLine(x.Evidence)
	return x
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
