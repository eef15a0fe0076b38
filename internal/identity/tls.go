package identity

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// TLSOptions configure a TLS. Cert and Key are files in PEM.
type TLSOptions struct {
	Cert, Key string
	// ClientCA is a file with the CAs of clients' certificates, in PEM; empty: no
	// certificates are asked for.
	ClientCA string
	Log      *slog.Logger
	Interval time.Duration // between two looks at the files
}

// TLS is the server's side of TLS: its certificate and the CAs of its clients,
// from files that can change. It is safe for concurrent use.
type TLS struct {
	TLSOptions
	using atomic.Pointer[material]
	begun [sha256.Size]byte
}

// material is what was read. It is not changed.
type material struct {
	certificate tls.Certificate
	clients     *x509.CertPool
	roots       map[[sha256.Size]byte]bool // of clients, by their hash
}

// OpenTLS reads the files.
func OpenTLS(o TLSOptions) (*TLS, error) {
	t := &TLS{TLSOptions: o}
	t.begun = looked(t.files())
	return t, t.take()
}

func (t *TLS) files() []string {
	files := []string{t.Cert, t.Key}
	if t.ClientCA != "" {
		files = append(files, t.ClientCA)
	}
	return files
}

// Watch takes changes over until ctx ends. New connections get what is new;
// those that are there stay, but see Trusted.
func (t *TLS) Watch(ctx context.Context) {
	w := watcher{what: "TLS files", files: t.files, take: t.take, log: t.Log, interval: t.Interval}
	w.run(ctx, t.begun)
}

func (t *TLS) take() error {
	certificate, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return fmt.Errorf("TLS: %w", err)
	}
	m := &material{certificate: certificate}
	if t.ClientCA != "" {
		if m.clients, m.roots, err = clientCAs(t.ClientCA); err != nil {
			return fmt.Errorf("client CA: %w", err)
		}
	}
	t.using.Store(m)
	return nil
}

func clientCAs(file string) (*x509.CertPool, map[[sha256.Size]byte]bool, error) {
	data, err := readBounded(file)
	if err != nil {
		return nil, nil, err
	}
	pool, roots := x509.NewCertPool(), map[[sha256.Size]byte]bool{}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
		if !ca.IsCA {
			return nil, nil, fmt.Errorf("%s: the certificate of %s is no CA's", file, ca.Subject)
		}
		pool.AddCert(ca)
		roots[sha256.Sum256(ca.Raw)] = true
	}
	if len(roots) == 0 {
		return nil, nil, fmt.Errorf("%s: %w", file, errors.New("no certificate in PEM"))
	}
	return pool, roots, nil
}

// Config is for the API: HTTP/2, and client certificates where there are CAs for
// them. A client may come without one, with a token instead.
func (t *TLS) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		m := t.using.Load()
		c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{m.certificate}, NextProtos: []string{"h2"}}
		if m.clients != nil {
			c.ClientCAs, c.ClientAuth = m.clients, tls.VerifyClientCertIfGiven
			// A resumed session would take over what was verified under CAs that may
			// have changed since.
			c.SessionTicketsDisabled = true
		}
		return c, nil
	}}
}

// PlainConfig is for listeners that ask for no client certificates.
func (t *TLS) PlainConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return &t.using.Load().certificate, nil
	}}
}

// Trusted says whether a chain that was verified when its connection began ends
// in a CA that is trusted now: connections live long.
func (t *TLS) Trusted(chain []*x509.Certificate) bool {
	return len(chain) > 0 && t.using.Load().roots[sha256.Sum256(chain[len(chain)-1].Raw)]
}
