package declared_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

// sign returns certificate and key as files hold them.
func (a authority) sign(t *testing.T, name string) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

// The provider is verified by the roots of the definition, and we by a certificate
// that is read at each handshake, so that it can be renewed.
//
// PROVIDERS requirement 1
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	theirs, ours := newAuthority(t), newAuthority(t)
	serverCert, serverKey := theirs.sign(t, "api.acme.test")
	pair, err := tls.X509KeyPair(serverCert, serverKey)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ours.cert)
	seen := make(chan string, 4)
	p := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.TLS.PeerCertificates[0].Subject.CommonName
		write(w, 200, nil, `{"id":"r1","amount":1}`)
	}))
	p.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots, MinVersion: tls.VersionTLS12}
	p.StartTLS()
	t.Cleanup(p.Close)

	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	renew := func(name string) (cert, key string) {
		certPEM, keyPEM := ours.sign(t, name)
		return file("c.pem", certPEM), file("k.pem", keyPEM)
	}
	cert, key := renew("first")
	ca := file("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: theirs.cert.Raw}))
	provider := func(ca string) string {
		return strings.Replace(providerHead, "https://api.acme.test/v2", p.URL, 1) +
			"  private_networks: [127.0.0.0/8]\n  tls: {ca: " + ca + ", cert: " + cert + ", key: " + key + ", server_name: api.acme.test}\n"
	}
	a := build(t, "", provider(ca), actionHead+refund, noPrivate)
	for _, name := range []string{"first", "second"} {
		renew(name)
		if o := a.Execute(t.Context(), call(t, theArgs)); o.Kind != actions.Applied {
			t.Fatalf("%+v", o)
		}
		if got := <-seen; got != name {
			t.Errorf("we are %q, want %q", got, name)
		}
	}
	stranger := file("stranger.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ours.cert.Raw}))
	if o := build(t, "", provider(stranger), actionHead+refund, noPrivate).Execute(t.Context(), call(t, theArgs)); o.Kind != actions.NotApplied {
		t.Errorf("a provider that nobody vouches for: %+v", o)
	}
}
