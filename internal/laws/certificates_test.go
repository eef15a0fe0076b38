package laws

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/internal/identity"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// certified is a certificate with its key.
type certified struct {
	leaf *x509.Certificate
	key  *ecdsa.PrivateKey
}

// certify makes a certificate; by nil makes a CA.
func certify(t testing.TB, name string, by *certified, lives time.Duration) *certified {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(lives),
		IsCA: by == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}, DNSNames: []string{"localhost"},
	}
	uri, err := url.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	if by != nil && uri.Scheme != "" {
		template.URIs = []*url.URL{uri}
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.leaf, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &certified{leaf, key}
}

func (c *certified) write(t testing.TB, dir, name string) (certFile, keyFile string) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(c.key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+"-key.pem")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: c.leaf.Raw}, keyFile: {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// A client's certificate lets it in by a rule, a token beside it must name the
// same actor, and no other certificate does anything.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	ca, strangeCA := certify(t, "ours", nil, time.Hour), certify(t, "theirs", nil, time.Hour)
	dir := t.TempDir()
	cert, key := certify(t, "server", ca, time.Hour).write(t, dir, "server")
	clients, _ := ca.write(t, dir, "ca")
	tokens := newIssuer(t)
	r := w.Start(t, func(c *app.Config) {
		transport, err := identity.OpenTLS(identity.TLSOptions{Cert: cert, Key: key, ClientCA: clients, Log: c.Log, Interval: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		c.Credentials, c.ClientTrusted, c.Identity = credentials.NewTLS(transport.Config()), transport.Trusted, tokens.file(t, c.Log)
	})
	pool := x509.NewCertPool()
	pool.AddCert(ca.leaf)
	list := func(ctx context.Context, certificate *certified) error {
		t.Helper()
		config := &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS12}
		if certificate != nil {
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &tls.Certificate{Certificate: [][]byte{certificate.leaf.Raw}, PrivateKey: certificate.key}, nil
			}
		}
		conn, err := grpc.NewClient(r.Address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = oncewardv1.NewActionServiceClient(conn).ListOperations(ctx, &oncewardv1.ListOperationsRequest{})
		return err
	}
	const name = "spiffe://acme.example/agents/refunds"
	agent := certify(t, name, ca, time.Hour)
	with := func(token string) context.Context { return apptest.As(t.Context(), token) }
	for what, test := range map[string]struct {
		ctx         context.Context
		certificate *certified
		want        codes.Code
	}{
		"its certificate":                 {t.Context(), agent, codes.OK},
		"its certificate and its token":   {with(tokens.token(t, "acme", name, "agent")), agent, codes.OK},
		"its certificate, another token":  {with(tokens.token(t, "acme", "other", "agent")), agent, codes.Unauthenticated},
		"its certificate, another's key":  {with(w.Agent), agent, codes.Unauthenticated},
		"its certificate and nonsense":    {with("nonsense"), agent, codes.Unauthenticated},
		"a token alone":                   {with(tokens.token(t, "acme", "other", "agent")), nil, codes.OK},
		"an API key alone":                {with(w.Agent), nil, codes.OK},
		"nothing":                         {t.Context(), nil, codes.Unauthenticated},
		"a certificate without a rule":    {t.Context(), certify(t, "spiffe://acme.example/people/rita", ca, time.Hour), codes.Unauthenticated},
		"that, and a good key":            {with(w.Agent), certify(t, "spiffe://acme.example/people/rita", ca, time.Hour), codes.Unauthenticated},
		"a certificate of another CA":     {t.Context(), certify(t, name, strangeCA, time.Hour), codes.Unavailable}, // TLS refuses it
		"that, and a good key too":        {with(w.Agent), certify(t, name, strangeCA, time.Hour), codes.Unavailable},
		"a certificate that has expired":  {t.Context(), certify(t, name, ca, -time.Minute), codes.Unavailable},
		"a tenant that the CA cannot say": {with(w.Globex), agent, codes.Unauthenticated},
	} {
		if err := list(test.ctx, test.certificate); status.Code(err) != test.want {
			t.Errorf("%s: %v, want %s", what, err, test.want)
		}
	}
	if err := w.Owner().SetTenantActive(t.Context(), "acme", false); err != nil {
		t.Fatal(err)
	}
	apptest.Eventually(t, func() bool { return status.Code(list(t.Context(), agent)) == codes.PermissionDenied }, func() string { return "a tenant that is off is let in" })
	err := list(with(tokens.token(t, "acme", "other", "agent")), nil)
	apptest.WantReason(t, err, codes.PermissionDenied, "TENANT_INACTIVE")
}
