package grpcaction

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/stats"

	"github.com/onceward/onceward/actions"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// Options configure a Client.
type Options struct {
	// Address of the adapter, "host:port". The host is looked up anew for each
	// connection.
	Address string
	// TLS secures the connection; a client certificate in it makes it mutual.
	// Nil is plain text, which is accepted to this machine only (a loopback
	// address, or a name that has no other). It is cloned. See TLSFiles.
	TLS *tls.Config

	// ConnectTimeout bounds one try to connect, TLS included; default 5 s.
	ConnectTimeout time.Duration
	// DescribeTimeout bounds Describe, which waits in it for an adapter that is
	// not up yet; default 10 s.
	DescribeTimeout time.Duration
	// LookupTimeout bounds one look-up; default 30 s. An attempt is bounded by
	// its action type's timeout.
	LookupTimeout time.Duration
	// MaxMessageBytes bounds a message in either direction; default 4 MiB. The
	// outcome of a longer answer is not known.
	MaxMessageBytes int

	Circuit Circuit

	// Protection is of the provider behind the adapter; it is shared by all action
	// types, and heeded by the dispatcher.
	Protection actions.Protection
	// TokenAudience is of operation tokens for action types that name none.
	TokenAudience string

	// StatsHandlers watch the calls, for traces and metrics.
	StatsHandlers []stats.Handler
}

// Circuit says when an adapter that does not answer is left alone: an attempt
// then ends as not applied before anything is sent. There is one circuit for
// each action type, so that a provider in trouble does not stop the others.
type Circuit struct {
	// Failures in a row (calls without an answer, and ambiguous answers) open
	// the circuit; default 5.
	Failures int
	// OpenFor is how long nothing is sent; then one attempt tries. Default 10 s.
	OpenFor time.Duration
}

// Defaults of Options.
const (
	DefaultConnectTimeout  = 5 * time.Second
	DefaultDescribeTimeout = 10 * time.Second
	DefaultLookupTimeout   = 30 * time.Second
	DefaultMaxMessageBytes = 4 << 20
	DefaultCircuitFailures = 5
	DefaultCircuitOpenFor  = 10 * time.Second
)

const (
	// minMessageBytes holds the largest request: arguments, and texts that
	// specOf bounds.
	minMessageBytes = actions.MaxArgumentsBytes + 16<<10
	// maxHeaderBytes bounds what an answer has in its headers, status included.
	maxHeaderBytes = 64 << 10
)

func (o Options) withDefaults() Options {
	o.ConnectTimeout = orDefault(o.ConnectTimeout, DefaultConnectTimeout)
	o.DescribeTimeout = orDefault(o.DescribeTimeout, DefaultDescribeTimeout)
	o.LookupTimeout = orDefault(o.LookupTimeout, DefaultLookupTimeout)
	o.MaxMessageBytes = orDefault(o.MaxMessageBytes, DefaultMaxMessageBytes)
	o.Circuit.Failures = orDefault(o.Circuit.Failures, DefaultCircuitFailures)
	o.Circuit.OpenFor = orDefault(o.Circuit.OpenFor, DefaultCircuitOpenFor)
	return o
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

func (o Options) check() error {
	if err := checkAddress(o.Address); err != nil {
		return err
	}
	if o.MaxMessageBytes < minMessageBytes {
		return fmt.Errorf("max message size of %d bytes cannot hold the largest arguments: want at least %d", o.MaxMessageBytes, minMessageBytes)
	}
	if o.ConnectTimeout < 0 || o.DescribeTimeout < 0 || o.LookupTimeout < 0 || o.Circuit.Failures < 0 || o.Circuit.OpenFor < 0 {
		return errors.New("timeouts and circuit cannot be negative")
	}
	return nil
}

func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err == nil && host == "" {
		err = errors.New("no host")
	}
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("address %q: want host:port", address)
	}
	return nil
}

// Client is a connection to one adapter process, or to several equal ones
// behind one address. It is safe for concurrent use. Close it.
type Client struct {
	options Options
	conn    *grpc.ClientConn

	mu        sync.Mutex
	described []actions.Adapter // by the last Describe that was accepted
}

// New makes a client and connects when it is first used. It fails when the
// options contradict each other or the rules of the package.
func New(o Options) (*Client, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("grpcaction: %w", err)
	}
	transport, err := transportCredentials(o)
	if err != nil {
		return nil, fmt.Errorf("grpcaction: %w", err)
	}
	dialer := &net.Dialer{}
	if o.TLS == nil {
		dialer.ControlContext = loopbackOnly
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}),
		grpc.WithNoProxy(),
		// Nobody but the ledger decides that a write is made again.
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithUserAgent("onceward"),
		grpc.WithMaxHeaderListSize(maxHeaderBytes),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(o.MaxMessageBytes),
			grpc.MaxCallSendMsgSize(o.MaxMessageBytes),
		),
		// An adapter that was restarted is found again within seconds. There is
		// no keepalive: a server with gRPC's default policy answers pings with
		// GOAWAY, and deadlines end what hangs.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: 3 * time.Second},
			MinConnectTimeout: o.ConnectTimeout,
		}),
		grpc.WithStatsHandler(watch{}),
	}
	for _, handler := range o.StatsHandlers {
		options = append(options, grpc.WithStatsHandler(handler))
	}
	// passthrough: the dialer above looks the name up.
	conn, err := grpc.NewClient("passthrough:///"+o.Address, options...)
	if err != nil {
		return nil, fmt.Errorf("grpcaction: address %q: %w", o.Address, err)
	}
	return &Client{options: o, conn: conn}, nil
}

// loopbackOnly sees every address that is dialled, after names were resolved.
func loopbackOnly(_ context.Context, _, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil || !target.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%s is not on this machine: plain text is for loopback only, configure TLS", address)
	}
	return nil
}

// Close ends the connection. The outcome of attempts under way is ambiguous.
func (c *Client) Close() error { return c.conn.Close() }

// Health asks the adapter's health service (grpc.health.v1) about
// AdapterService, and about the whole process where it does not list services.
// Nil means SERVING. It does not wait for an adapter that is not up.
func (c *Client) Health(ctx context.Context) error {
	health := healthpb.NewHealthClient(c.conn)
	var errs []error
	for _, service := range []string{oncewardv1.AdapterService_ServiceDesc.ServiceName, ""} {
		answer, err := health.Check(ctx, &healthpb.HealthCheckRequest{Service: service})
		switch {
		case notListed(err):
			errs = append(errs, err)
			continue
		case err != nil:
			return fmt.Errorf("grpcaction: health of %s: %w", c.options.Address, err)
		case answer.GetStatus() != healthpb.HealthCheckResponse_SERVING:
			return fmt.Errorf("grpcaction: %s is %s", c.options.Address, answer.GetStatus())
		}
		return nil
	}
	return fmt.Errorf("grpcaction: health of %s: %w", c.options.Address, errors.Join(errs...))
}
