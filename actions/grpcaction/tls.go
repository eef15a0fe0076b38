package grpcaction

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// TLSFiles name what a TLS connection needs, as PEM files.
type TLSFiles struct {
	// CA holds the authorities that the adapter's certificate may come from;
	// empty means those of the system.
	CA string
	// Certificate and Key are the client's, for mutual TLS: both or neither.
	// They are read anew for each connection, so that they can be rotated.
	Certificate, Key string
	// ServerName is what the adapter's certificate is for; empty means the host
	// of the address.
	ServerName string
}

// Config returns the configuration, or what is wrong with which file.
func (f TLSFiles) Config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("grpcaction: CA: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("grpcaction: CA: no certificate in %s", f.CA)
		}
	}
	if (f.Certificate == "") != (f.Key == "") {
		return nil, errors.New("grpcaction: a client certificate needs its key, and a key its certificate")
	}
	if f.Certificate == "" {
		return config, nil
	}
	load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		return &pair, nil
	}
	if _, err := load(nil); err != nil { // now, not at the first attempt
		return nil, fmt.Errorf("grpcaction: %w", err)
	}
	config.GetClientCertificate = load
	return config, nil
}

func transportCredentials(o Options) (credentials.TransportCredentials, error) {
	if o.TLS == nil {
		if !mayBeLoopback(o.Address) {
			return nil, fmt.Errorf("address %q is not on this machine: configure TLS (plain text is for loopback only)", o.Address)
		}
		return insecure.NewCredentials(), nil
	}
	if o.TLS.InsecureSkipVerify {
		return nil, errors.New("TLS without verification would hand arguments and provider keys to anybody")
	}
	config := o.TLS.Clone()
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	return credentials.NewTLS(config), nil
}

// mayBeLoopback refuses at once what is certainly elsewhere. What a name
// resolves to is judged by loopbackOnly.
func mayBeLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		host = strings.ToLower(strings.TrimSuffix(host, "."))
		return host == "localhost" || strings.HasSuffix(host, ".localhost")
	}
	return ip.Unmap().IsLoopback()
}
