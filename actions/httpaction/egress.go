package httpaction

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
)

// egress opens connections to the targets that were named, and to no others.
type egress struct {
	origins []string // scheme://host:port, sorted
	tls     *tls.Config
	dial    dialFunc
}

// Loopback returns the networks of this machine, for Options.PrivateNetworks.
func Loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

func newEgress(o Options) (*egress, error) {
	e := &egress{tls: &tls.Config{}}
	for _, raw := range o.Origins {
		u, err := checkURL(raw)
		if err != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			return nil, fmt.Errorf("origin %q: want scheme://host or scheme://host:port", raw)
		}
		e.origins = append(e.origins, originOf(u))
	}
	if len(e.origins) == 0 {
		return nil, errors.New("no origins: a sender may contact only those that are named")
	}
	if o.TLS != nil {
		e.tls = o.TLS.Clone()
	}
	if e.tls.InsecureSkipVerify {
		return nil, errors.New("TLS without verification would hand the credentials to anybody")
	}
	// Only HTTP/1.1 is offered: a server without it fails the handshake, when
	// nothing was sent.
	e.tls.NextProtos = []string{"http/1.1"}
	// Each write has a connection of its own; what can be reused is the handshake
	// (RFC 8446, section 2.2). Nothing is sent before it is done. Not so with a
	// certificate of ours: a resumed session would be that of the certificate that
	// it began with, also after that was replaced.
	if e.tls.ClientSessionCache == nil && len(e.tls.Certificates) == 0 && e.tls.GetClientCertificate == nil {
		e.tls.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	}
	e.dial = o.Dial
	if e.dial == nil {
		e.dial = GuardedDial(o.PrivateNetworks, o.Resolver)
	}
	return e, nil
}

// allows refuses a URL whose origin was not named.
func (e *egress) allows(u *url.URL) error {
	if origin := originOf(u); !slices.Contains(e.origins, origin) {
		return notSendable("%s is not one of the allowed origins", origin)
	}
	return nil
}

// GuardedDial returns a dial function that reaches public addresses and those in
// the named private networks, and refuses all others. The resolver may be nil.
func GuardedDial(private []netip.Prefix, resolver *net.Resolver) func(ctx context.Context, network, address string) (net.Conn, error) {
	// Every address that is tried passes the guard, after resolution, so that a
	// name that changes its address in between gains nothing.
	dialer := &net.Dialer{Resolver: resolver, ControlContext: guard(slices.Clone(private))}
	return dialer.DialContext
}

// guard refuses addresses that are neither public nor in a named network.
func guard(private []netip.Prefix) func(ctx context.Context, network, address string, raw syscall.RawConn) error {
	return func(_ context.Context, _, address string, _ syscall.RawConn) error {
		target, err := netip.ParseAddrPort(address)
		if err != nil {
			return notSendable("address %s is not an IP address", address)
		}
		ip := target.Addr().Unmap().WithZone("")
		if isPublic(ip) || slices.ContainsFunc(private, func(p netip.Prefix) bool { return p.Contains(ip) }) {
			return nil
		}
		return notSendable("address %s is private and not named as allowed", ip)
	}
}

// open connects to the URL's host and, for https, shakes hands. The phase is
// the one that failed.
func (e *egress) open(ctx context.Context, u *url.URL) (net.Conn, Phase, error) {
	raw, err := e.dial(ctx, "tcp", hostPort(u))
	if err != nil {
		return nil, PhaseDial, err
	}
	if u.Scheme != "https" {
		return raw, PhaseDial, nil
	}
	config := e.tls.Clone()
	if config.ServerName == "" {
		config.ServerName = u.Hostname()
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // the handshake's error is the one that counts
		return nil, PhaseTLS, err
	}
	return conn, PhaseTLS, nil
}

func originOf(u *url.URL) string { return u.Scheme + "://" + strings.ToLower(hostPort(u)) }

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// notPublic lists what the methods of netip.Addr do not cover (IANA's registries
// of special-purpose addresses): networks that are not the public Internet, and
// those that carry an IPv4 address to a translator, which may be private.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"), // shared by carriers, used by clouds
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2001::/23"),
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("fec0::/10"),
	netip.MustParsePrefix("100::/64"),
}

func isPublic(ip netip.Addr) bool {
	if !ip.IsGlobalUnicast() || ip.IsPrivate() {
		return false
	}
	return !slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(ip) })
}
