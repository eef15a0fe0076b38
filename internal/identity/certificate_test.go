package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/policy"
	"github.com/onceward/onceward/server"
)

// authority is a CA of a test.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t testing.TB, name string) authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: start, NotAfter: start.AddDate(100, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a := authority{}
	a.certificate, a.key = issue(t, template, nil, nil)
	return a
}

// issue makes a certificate of a template, signed by a parent or by itself.
func issue(t testing.TB, template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made, key
}

// client makes a certificate for a client; change alters its template.
func (a authority) client(t testing.TB, change func(*x509.Certificate), uris ...string) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "refunds", OrganizationalUnit: []string{"agents"}, Organization: []string{"Acme"}},
		NotBefore: start, NotAfter: start.AddDate(100, 0, 0), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, text := range uris {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, u)
	}
	if change != nil {
		change(template)
	}
	made, key := issue(t, template, a.certificate, a.key)
	return tls.Certificate{Certificate: [][]byte{made.Raw}, PrivateKey: key, Leaf: made}
}

// chain is what TLS verifies of a client's certificate.
func (a authority) chain(c tls.Certificate) []*x509.Certificate {
	return []*x509.Certificate{c.Leaf, a.certificate}
}

func certificateRules() []certificateRule {
	agent := []policy.Role{policy.Agent}
	return []certificateRule{
		{URI: "spiffe://acme.example/agents/refunds", Tenant: "acme", Actor: "refunds", Roles: agent},
		{URI: "spiffe://acme.example/agents/*", Tenant: "acme", Roles: agent},
		{URI: "spiffe://globex.example/*", Tenant: "globex", Roles: []policy.Role{policy.Auditor}},
		{Subject: "CN=refunds,OU=agents,O=Acme", Tenant: "acme", Actor: "by-subject", Roles: agent},
	}
}

func TestCertificatesAreMapped(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	now := start.Add(time.Minute)
	named := func(n pkix.Name) func(*x509.Certificate) { return func(c *x509.Certificate) { c.Subject = n } }
	other := named(pkix.Name{CommonName: "somebody"})
	for name, test := range map[string]struct {
		uris   []string
		change func(*x509.Certificate)
		actor  string // empty: refused
		why    string
	}{
		"a URI":                        {[]string{"spiffe://acme.example/agents/refunds"}, other, "refunds", ""},
		"a URI below":                  {[]string{"spiffe://acme.example/agents/eu/mail-1"}, other, "spiffe://acme.example/agents/eu/mail-1", ""},
		"a subject":                    {nil, nil, "by-subject", ""},
		"another domain":               {[]string{"spiffe://acme.example.org/agents/refunds"}, other, "", "no rule"},
		"a longer name":                {[]string{"spiffe://acme.example/agents-x/refunds"}, other, "", "no rule"},
		"nothing below":                {[]string{"spiffe://acme.example/agents/"}, other, "", "no rule"},
		"up and down again":            {[]string{"spiffe://acme.example/agents/../admins/a"}, other, "", "no rule"},
		"up, escaped":                  {[]string{"spiffe://acme.example/agents/%2e%2e/admins"}, other, "", "no rule"},
		"a query":                      {[]string{"spiffe://acme.example/agents/a?b"}, other, "", "no rule"},
		"two URIs":                     {[]string{"spiffe://acme.example/agents/refunds", "spiffe://globex.example/a"}, other, "", "no rule"},
		"no name that a rule has":      {nil, other, "", "no rule"},
		"a subject with more":          {nil, named(pkix.Name{CommonName: "refunds", OrganizationalUnit: []string{"agents", "x"}, Organization: []string{"Acme"}}), "", "no rule"},
		"a subject in one name":        {nil, named(pkix.Name{CommonName: "refunds,OU=agents,O=Acme"}), "", "no rule"},
		"expired":                      {nil, func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Second) }, "", "expired"},
		"not valid yet":                {nil, func(c *x509.Certificate) { c.NotBefore = now.Add(time.Second) }, "", "not valid yet"},
		"a URI and a subject of rules": {[]string{"spiffe://globex.example/a"}, nil, "spiffe://globex.example/a", ""}, // the first rule
	} {
		p, err := principalOfCertificate(certificateRules(), ca.chain(ca.client(t, test.change, test.uris...)), now)
		switch {
		case test.actor == "":
			wantRefused(t, err, test.why)
		case err != nil || p.Actor != test.actor:
			t.Errorf("%s: %+v, %v, want %s", name, p, err, test.actor)
		}
		if test.actor == "" && len(p.Roles) > 0 {
			t.Errorf("%s: has the roles %v", name, p.Roles)
		}
	}
}

// With a token and a certificate, both are wanted to be good and to agree.
func TestTokenAndCertificateTogether(t *testing.T) {
	t.Parallel()
	ca, key := newAuthority(t, "ca"), ed(t, "k")
	p := newProvider(t, key)
	s := newStore()
	a := authenticator(t, s, []certificateRule{
		{URI: "spiffe://x/planner", Tenant: "acme", Actor: "corp:planner-7", Roles: []policy.Role{policy.Agent, policy.Auditor}},
		{URI: "spiffe://x/other", Tenant: "acme", Actor: "other", Roles: []policy.Role{policy.Agent}},
		{URI: "spiffe://x/globex", Tenant: "globex", Actor: "corp:planner-7", Roles: []policy.Role{policy.Agent}},
		{URI: "spiffe://x/auditor", Tenant: "acme", Actor: "corp:planner-7", Roles: []policy.Role{policy.Auditor}},
	}, config(t, p, func(c *issuerConfig) { c.OneTime = true }))
	token := key.token(t, standard(p))
	chain := func(name string) []*x509.Certificate { return ca.chain(ca.client(t, nil, "spiffe://x/"+name)) }
	for _, name := range []string{"other", "globex"} {
		_, err := a.Authenticate(t.Context(), server.Credential{Token: key.token(t, with(standard(p), "jti", name)), Certificates: chain(name)})
		wantRefused(t, err, "different tenants or actors")
	}
	_, err := a.Authenticate(t.Context(), server.Credential{Token: token, Certificates: chain("nobody")})
	wantRefused(t, err, "no rule")
	_, err = a.Authenticate(t.Context(), server.Credential{Token: token + "x", Certificates: chain("planner")})
	wantRefused(t, err, "signature")
	for name, roles := range map[string][]policy.Role{"planner": {policy.Agent}, "auditor": {}} {
		got, err := a.Authenticate(t.Context(), server.Credential{Token: key.token(t, with(standard(p), "jti", "with "+name)), Certificates: chain(name)})
		if err != nil || got.Actor != "corp:planner-7" || !slices.Equal(got.Roles, roles) {
			t.Errorf("%s: %+v, %v, want %v", name, got, err, roles)
		}
	}
	if got, err := a.Authenticate(t.Context(), server.Credential{Certificates: chain("planner")}); err != nil || len(got.Roles) != 2 {
		t.Errorf("the certificate alone: %+v, %v", got, err)
	}
	s.set(func() { s.tenants["globex"] = false })
	if _, err := a.Authenticate(t.Context(), server.Credential{Certificates: chain("globex")}); !errors.Is(err, server.ErrTenantInactive) {
		t.Errorf("a tenant that is off: %v", err)
	}
	a.Trusted = func([]*x509.Certificate) bool { return false }
	_, err = a.Authenticate(t.Context(), server.Credential{Certificates: chain("planner")})
	wantRefused(t, err, "no longer trusted")
}

// files writes PEM files of a TLS server into a folder.
type files struct{ dir string }

func (f files) path(name string) string { return filepath.Join(f.dir, name) }

func (f files) write(t testing.TB, name, kind string, parts ...[]byte) {
	t.Helper()
	var text []byte
	for _, der := range parts {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})...)
	}
	if err := os.WriteFile(f.path(name), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// serverOf writes a server's certificate and key.
func (f files) serverOf(t testing.TB, a authority) {
	t.Helper()
	c := a.client(t, func(c *x509.Certificate) {
		c.DNSNames, c.ExtKeyUsage = []string{"onceward.test"}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	f.write(t, "cert.pem", "CERTIFICATE", c.Certificate...)
	f.write(t, "key.pem", "PRIVATE KEY", key)
}

// handshake connects a client to a server with the configuration, and returns
// what the server has verified and what it failed with.
func handshake(t *testing.T, serving *tls.Config, roots authority, certificate *tls.Certificate, maxVersion uint16) (tls.ConnectionState, error) {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(roots.certificate)
	client := &tls.Config{RootCAs: pool, ServerName: "onceward.test", NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS10, MaxVersion: maxVersion}
	if certificate != nil {
		// Sent whatever CAs the server names.
		client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate, nil }
	}
	near, far := net.Pipe()
	t.Cleanup(func() { _ = near.Close(); _ = far.Close() })
	for _, c := range []net.Conn{near, far} {
		if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		c := tls.Client(near, client)
		if err := c.HandshakeContext(t.Context()); err == nil {
			_, _ = c.Read(make([]byte, 1)) // with TLS 1.3 the server's refusal comes then
		}
		_ = near.Close()
	}()
	s := tls.Server(far, serving)
	err := s.HandshakeContext(t.Context())
	return s.ConnectionState(), err
}

func TestTLSOfClients(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	f := files{t.TempDir()}
	f.serverOf(t, ours)
	f.write(t, "ca.pem", "CERTIFICATE", ours.certificate.Raw)
	transport, err := OpenTLS(TLSOptions{Cert: f.path("cert.pem"), Key: f.path("key.pem"), ClientCA: f.path("ca.pem"), Log: quiet(t), Interval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	good, past := ours.client(t, nil, "spiffe://x/a"), ours.client(t, func(c *x509.Certificate) { c.NotAfter = c.NotBefore.Add(time.Hour) })
	foreign, server := theirs.client(t, nil, "spiffe://x/a"), ours.client(t, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	own, _ := issue(t, &x509.Certificate{SerialNumber: big.NewInt(3), NotAfter: start.AddDate(100, 0, 0)}, nil, nil)
	for name, test := range map[string]struct {
		certificate *tls.Certificate
		version     uint16
		good        bool
		chains      int
	}{
		"none":                        {nil, 0, true, 0},
		"of our CA":                   {&good, 0, true, 1},
		"TLS 1.2":                     {&good, tls.VersionTLS12, true, 1},
		"TLS 1.1":                     {&good, tls.VersionTLS11, false, 0},
		"of another CA":               {&foreign, 0, false, 0},
		"expired":                     {&past, 0, false, 0},
		"for servers":                 {&server, 0, false, 0},
		"signed by itself":            {&tls.Certificate{Certificate: [][]byte{own.Raw}, PrivateKey: good.PrivateKey}, 0, false, 0},
		"another's, without its key":  {&tls.Certificate{Certificate: good.Certificate, PrivateKey: foreign.PrivateKey}, 0, false, 0},
		"of our CA's, for its issuer": {&tls.Certificate{Certificate: [][]byte{ours.certificate.Raw}, PrivateKey: good.PrivateKey}, 0, false, 0},
	} {
		state, err := handshake(t, transport.Config(), ours, test.certificate, test.version)
		if (err == nil) != test.good || len(state.VerifiedChains) != test.chains && test.good {
			t.Errorf("%s: %v, %d chains", name, err, len(state.VerifiedChains))
		}
		if test.good && state.NegotiatedProtocol != "h2" {
			t.Errorf("%s: the protocol is %q", name, state.NegotiatedProtocol)
		}
	}
	if state, err := handshake(t, transport.PlainConfig(), ours, &foreign, 0); err != nil || state.PeerCertificates != nil {
		t.Errorf("webhooks: %v, asked for certificates %v", err, state.PeerCertificates != nil)
	}
	if !transport.Trusted(ours.chain(good)) || transport.Trusted(theirs.chain(foreign)) || transport.Trusted(nil) {
		t.Error("Trusted is wrong")
	}
}

// Files change while it serves: new connections get the new ones, a CA that was
// taken out ends at once, and what is broken is not taken.
func TestTLSFilesAreTakenOver(t *testing.T) {
	t.Parallel()
	first, second := newAuthority(t, "first"), newAuthority(t, "second")
	f := files{t.TempDir()}
	f.serverOf(t, first)
	f.write(t, "ca.pem", "CERTIFICATE", first.certificate.Raw, second.certificate.Raw)
	log, logged := recorded()
	transport, err := OpenTLS(TLSOptions{Cert: f.path("cert.pem"), Key: f.path("key.pem"), ClientCA: f.path("ca.pem"), Log: log, Interval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	watching(t, transport.Watch)
	f.write(t, "ca.pem", "NO CERTIFICATE", first.certificate.Raw)
	eventually(t, "the broken file to be refused", func() bool { return strings.Contains(logged(), "refused") })
	old := first.client(t, nil, "spiffe://x/a")
	if !transport.Trusted(first.chain(old)) {
		t.Error("a broken file was taken over")
	}
	f.serverOf(t, second)
	f.write(t, "ca.pem", "CERTIFICATE", second.certificate.Raw)
	eventually(t, "the new files to be taken over", func() bool {
		_, err := handshake(t, transport.Config(), second, nil, 0)
		return err == nil && !transport.Trusted(first.chain(old))
	})
	if _, err := handshake(t, transport.Config(), second, &old, 0); err == nil {
		t.Error("a certificate of the former CA was taken")
	}
}

func TestTLSFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	f := files{t.TempDir()}
	f.serverOf(t, ca)
	leaf := ca.client(t, nil)
	for name, write := range map[string]func(){
		"no certificate": func() { f.write(t, "ca.pem", "X", ca.certificate.Raw) },
		"a client's":     func() { f.write(t, "ca.pem", "CERTIFICATE", leaf.Certificate[0]) },
		"rubbish":        func() { f.write(t, "ca.pem", "CERTIFICATE", []byte("rubbish")) },
		"not there":      func() { _ = os.Remove(f.path("ca.pem")) },
	} {
		write()
		if _, err := OpenTLS(TLSOptions{Cert: f.path("cert.pem"), Key: f.path("key.pem"), ClientCA: f.path("ca.pem")}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := OpenTLS(TLSOptions{Cert: f.path("cert.pem"), Key: f.path("cert.pem")}); err == nil {
		t.Error("a certificate was taken for a key")
	}
}
