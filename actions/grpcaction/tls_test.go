package grpcaction

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/onceward/onceward/actions"
)

// authority makes certificates for one test.
type authority struct {
	dir  string
	name string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	a := &authority{dir: dir, name: name}
	a.cert, a.key = a.sign(t, name, &x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: name},
	})
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, a.name+"-"+name+".pem") }

// issue makes name-cert.pem and name-key.pem.
func (a *authority) issue(t *testing.T, name string, hosts ...string) (certificate, key string) {
	t.Helper()
	a.sign(t, name, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: hosts, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	return a.file(name + "-cert"), a.file(name + "-key")
}

func (a *authority) sign(t *testing.T, name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, a.file(name+"-cert"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, a.file(name+"-key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
	return cert, key
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestMutualTLS: both sides are sure of each other, or nothing is sent.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ours, theirs := newAuthority(t, dir, "ours"), newAuthority(t, dir, "theirs")
	serverCert, serverKey := ours.issue(t, "server", "adapter.test")
	clientCert, clientKey := ours.issue(t, "client")
	foreignCert, foreignKey := theirs.issue(t, "client")

	pair, err := tls.LoadX509KeyPair(serverCert, serverKey)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(ours.cert)
	p := &peer{}
	address := serve(t, p, grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
	})))
	ca := ours.file("ours-cert")
	if err := connectTLS(t, address, TLSFiles{CA: ca, Certificate: clientCert, Key: clientKey, ServerName: "adapter.test"}, actions.Applied); err != nil {
		t.Error(err)
	}
	arrived := p.executes()
	for name, files := range map[string]TLSFiles{
		"the server's authority is not ours":  {CA: theirs.file("theirs-cert"), Certificate: clientCert, Key: clientKey, ServerName: "adapter.test"},
		"the authorities of the system":       {Certificate: clientCert, Key: clientKey, ServerName: "adapter.test"},
		"the certificate is for another host": {CA: ca, Certificate: clientCert, Key: clientKey},
		"no client certificate":               {CA: ca, ServerName: "adapter.test"},
		"a client certificate of another CA":  {CA: ca, Certificate: foreignCert, Key: foreignKey, ServerName: "adapter.test"},
	} {
		if err := connectTLS(t, address, files, actions.NotApplied); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantUnsent(t, adapterAt(t, Options{Address: address}).Execute(t.Context(), callOf(t, `{}`))) // plain text
	if arrived != 1 || p.executes() != 1 {
		t.Errorf("%d calls arrived, %d of them wanted", p.executes(), arrived)
	}
}

// connectTLS makes one attempt and wants its kind.
func connectTLS(t *testing.T, address string, files TLSFiles, want actions.Kind) error {
	t.Helper()
	config, err := files.Config()
	if err != nil {
		return err
	}
	o := adapterAt(t, Options{Address: address, TLS: config}).Execute(t.Context(), callOf(t, `{}`))
	if o.Kind != want {
		t.Errorf("got %s, want %s", shownOutcome(o), want)
	}
	return nil
}

// TestRotation: a new client certificate counts from the next connection on.
func TestRotation(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t, t.TempDir(), "ours")
	cert, key := ours.issue(t, "client")
	config, err := TLSFiles{Certificate: cert, Key: key}.Config()
	if err != nil {
		t.Fatal(err)
	}
	first, err := config.GetClientCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	ours.issue(t, "client")
	if second, err := config.GetClientCertificate(nil); err != nil || second.Leaf.Equal(first.Leaf) {
		t.Errorf("the old certificate is still in use (%v)", err)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if _, err := config.GetClientCertificate(nil); err == nil {
		t.Error("a key that is gone is no error")
	}
}

func TestTLSFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ours := newAuthority(t, dir, "ours")
	cert, key := ours.issue(t, "client")
	empty := filepath.Join(dir, "empty.pem")
	write(t, empty, nil)
	for want, files := range map[string]TLSFiles{
		"no such file":             {CA: filepath.Join(dir, "missing.pem")},
		"no certificate in " + dir: {CA: empty},
		"needs its key":            {Certificate: cert},
		"a key its certificate":    {Key: key},
		"client certificate":       {Certificate: cert, Key: empty},
	} {
		if _, err := files.Config(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestOptionsThatAreRefused(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		"want host:port":              {Address: "adapter"},
		`":7000": want host:port`:     {Address: ":7000"},
		`"a:http": want host:port`:    {Address: "a:http"},
		"unix:/run/a.sock":            {Address: "unix:/run/a.sock"},
		"10.0.0.7:7000":               {Address: "10.0.0.7:7000"},
		"adapter.example:7000":        {Address: "adapter.example:7000"},
		"0.0.0.0:7000":                {Address: "0.0.0.0:7000"},
		"without verification":        {Address: "a:1", TLS: &tls.Config{InsecureSkipVerify: true}},
		"cannot hold the largest":     {Address: "127.0.0.1:1", MaxMessageBytes: 1000},
		"timeouts and circuit cannot": {Address: "127.0.0.1:1", ConnectTimeout: -1},
		"circuit cannot be negative":  {Address: "127.0.0.1:1", Circuit: Circuit{Failures: -1}},
	} {
		if c, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
			if c != nil {
				_ = c.Close()
			}
		}
	}
	for _, address := range []string{"127.0.0.1:1", "[::1]:1", "localhost:1", "LOCALHOST.:1", "[::ffff:127.0.0.1]:1"} {
		connect(t, Options{Address: address})
	}
}

// TestPlainTextStaysHere: a name is judged by what it resolves to.
func TestPlainTextStaysHere(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "10.0.0.7:1": false, "[2001:db8::1]:1": false, "x": false} {
		if err := loopbackOnly(t.Context(), "tcp", address, nil); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
}
