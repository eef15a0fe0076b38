package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/internal/secrets"
	"github.com/onceward/onceward/ledger/postgres"
	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// A replica with other secrets would give the same operation another provider
// key: it does not start.
func TestLaw12_OtherSecretsRefuseToStart(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	dir := filepath.Join(t.TempDir(), "other")
	if err := secrets.Create(dir); err != nil {
		t.Fatal(err)
	}
	config := configOf(t, w, dir)
	if _, err := app.New(t.Context(), config); !errors.Is(err, postgres.ErrOtherSecret) {
		t.Errorf("starting with other secrets: %v, want %v", err, postgres.ErrOtherSecret)
	}
	w.AskIn(t, r, refund().request("first"), succeeded)
	wantSound(t, w)
}

// Plain text is for loopback only.
func TestLaw12_PlainTextWhereOthersCanListen(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	config := configOf(t, w, w.SecretsDir)
	config.Listener = listen(t, "0.0.0.0:0")
	if _, err := app.New(t.Context(), config); !errors.Is(err, app.ErrPlainText) {
		t.Errorf("starting in plain text: %v, want %v", err, app.ErrPlainText)
	}
}

// With a certificate the same address is served, and plain text is not.
func TestTLS(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	certificate, roots := selfSigned(t)
	listener := listen(t, "0.0.0.0:0")
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	config := configOf(t, w, w.SecretsDir)
	config.Listener, config.Credentials = listener, credentials.NewServerTLSFromCert(&certificate)
	service, err := app.New(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- service.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("replica: %v", err)
		}
	})

	address := net.JoinHostPort("127.0.0.1", port)
	dial := func(c credentials.TransportCredentials) *apptest.Replica {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(c))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return &apptest.Replica{Actions: oncewardv1.NewActionServiceClient(conn)}
	}
	op := w.AskIn(t, dial(credentials.NewClientTLSFromCert(roots, "")), refund().request("tls"), succeeded).GetOperation()
	w.WantOneEffect(t, op.GetId())
	if _, err := w.Try(t.Context(), dial(insecure.NewCredentials()), refund().request("plain")); status.Code(err) != codes.Unavailable {
		t.Errorf("a plain text caller got %v", err)
	}
	w.WantEffects(t, 1)
	wantSound(t, w)
}

// configOf is the configuration of a replica without a listener.
func configOf(t *testing.T, w *apptest.World, secretsDir string) app.Config {
	t.Helper()
	keys, err := secrets.Load(secretsDir)
	if err != nil {
		t.Fatal(err)
	}
	adapters, err := demo.New(w.Options.Demo)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := actions.NewRegistry(adapters...)
	if err != nil {
		t.Fatal(err)
	}
	return app.Config{
		Policies:    policy.AllowAll().For,
		DatabaseURL: w.Database.ServeURL, Secrets: keys, Registry: registry,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), ShutdownGrace: apptest.Patience,
	}
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // the server may have closed it
	return listener
}

// selfSigned makes a certificate for 127.0.0.1 that its own pool trusts.
func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "onceward test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}
