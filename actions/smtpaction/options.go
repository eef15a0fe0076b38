package smtpaction

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"time"

	"github.com/onceward/onceward/actions"
)

const (
	// DefaultTimeout is that of an attempt where the spec gives none: the ten
	// minutes that RFC 5321 (4.5.3.2.6) grants a server to answer the final dot,
	// and one for what comes before. A shorter one makes doubt of mails that a
	// slow server has taken; a longer one keeps the operations of a process that
	// died waiting.
	DefaultTimeout = 11 * time.Minute
	// DefaultReplyTimeout bounds the wait for every other reply. Giving up there
	// is harmless, because nothing was sent.
	DefaultReplyTimeout = time.Minute

	submissionPort = 587
	tlsPort        = 465
)

// Security says how a connection is protected.
type Security int

const (
	// StartTLS wants STARTTLS and goes no further without it.
	StartTLS Security = iota
	// ImplicitTLS begins with TLS (RFC 8314).
	ImplicitTLS
	// PlainText is without TLS, for a server on this machine only.
	PlainText
)

// Credential is a user's name and password.
type Credential struct{ User, Password string }

// Options describe a mail action.
type Options struct {
	// Spec is the action type. Its contract can promise neither keys nor
	// look-ups.
	Spec actions.Spec
	// Check is Adapter.Validate, and may be nil.
	Check func(actions.Arguments) error
	// Message returns the mail of a call, and must depend on nothing but the
	// call. Its error is shown to the caller as a refusal of the arguments.
	Message func(actions.Call) (Message, error)

	Host     string
	Port     int // default 587, with ImplicitTLS 465
	Security Security
	// TLS holds roots and client certificates; nil for the system's roots.
	// Verification cannot be switched off.
	TLS *tls.Config
	// Credential is asked for each attempt, for AUTH PLAIN or LOGIN; nil for a
	// server that wants none.
	Credential func(context.Context) (Credential, error)
	// Hello is how the client introduces itself, Domain the right side of the
	// Message-ID; both default to the domain of the sender.
	Hello, Domain string
	// Dial opens the connection, and refuses addresses that must not be reached.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// ReplyTimeout bounds the wait for each reply but the last; default
	// DefaultReplyTimeout. The last one has the rest of the attempt's time.
	ReplyTimeout time.Duration
}

// Action sends mails. It is immutable and safe for concurrent use.
type Action struct {
	o   Options
	tls *tls.Config
}

var (
	_ actions.Adapter  = (*Action)(nil)
	_ actions.Renderer = (*Action)(nil)
)

var domainPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`)

// New checks the options. It contacts nobody.
func New(o Options) (*Action, error) {
	a := &Action{o: o, tls: &tls.Config{}}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("smtpaction: %s: %w", o.Spec.Type, err)
	}
	if o.Check == nil {
		a.o.Check = func(actions.Arguments) error { return nil }
	}
	if o.Port == 0 {
		a.o.Port = submissionPort
		if o.Security == ImplicitTLS {
			a.o.Port = tlsPort
		}
	}
	if o.Spec.Timeout == 0 {
		a.o.Spec.Timeout = DefaultTimeout
	}
	if o.ReplyTimeout == 0 {
		a.o.ReplyTimeout = DefaultReplyTimeout
	}
	if o.TLS != nil {
		a.tls = o.TLS.Clone()
	}
	if a.tls.ServerName == "" {
		a.tls.ServerName = o.Host
	}
	a.tls.MinVersion = max(a.tls.MinVersion, tls.VersionTLS12)
	return a, nil
}

func (o *Options) check() error {
	contract := o.Spec.Contract
	switch {
	case o.Message == nil:
		return errors.New("no message")
	case o.Dial == nil:
		return errors.New("no dialer: it decides which addresses may be reached")
	case o.Host == "" || len(o.Host) > 255 || !domainPattern.MatchString(o.Host) && !isAddress(o.Host):
		return fmt.Errorf("host %.80q: want a name or an IP address", o.Host)
	case o.Port < 0 || o.Port > 65535:
		return fmt.Errorf("port %d: want 1 to 65535", o.Port)
	case o.Security < StartTLS || o.Security > PlainText:
		return fmt.Errorf("security %d is not known", o.Security)
	case o.Security == PlainText && !onThisMachine(o.Host):
		return fmt.Errorf("host %s: plain text is for a server on this machine (localhost, 127.0.0.1, ::1)", o.Host)
	case o.TLS != nil && o.TLS.InsecureSkipVerify:
		return errors.New("TLS without verification would hand the credentials to anybody")
	case o.Hello != "" && !domainPattern.MatchString(o.Hello):
		return fmt.Errorf("hello %.80q: want a domain", o.Hello)
	case o.Domain != "" && !domainPattern.MatchString(o.Domain):
		return fmt.Errorf("domain %.80q: want a domain", o.Domain)
	case o.ReplyTimeout < 0:
		return errors.New("the reply timeout is negative")
	case contract.Keys.Honoured || contract.Lookup.Authoritative:
		return errors.New("contract: SMTP honours no keys and has no look-up")
	}
	return nil
}

// Spec describes the action type.
func (a *Action) Spec() actions.Spec { return a.o.Spec }

// Validate runs the check.
func (a *Action) Validate(args actions.Arguments) error { return a.o.Check(args) }

func (a *Action) address() string { return net.JoinHostPort(a.o.Host, strconv.Itoa(a.o.Port)) }

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

func onThisMachine(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
