package command

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/onceward/onceward/internal/pgtest"
)

func TestDev(t *testing.T) {
	t.Parallel()
	runScript(t, "dev", nil)
}

func TestDevKilled(t *testing.T) {
	t.Parallel()
	runScript(t, "dev-killed", nil)
}

func TestReview(t *testing.T) {
	t.Parallel()
	runScript(t, "review", nil)
}

// TestDeclared adds a provider from files, and tries it on a simulated one.
func TestDeclared(t *testing.T) {
	t.Parallel()
	runScript(t, "declared", nil)
}

// TestServeConfig serves declared actions: reload, and doubt that a webhook ends.
func TestServeConfig(t *testing.T) {
	t.Parallel()
	owner, login := database(t)
	runScript(t, "serve-config", func(e *testscript.Env) error {
		e.Setenv("OWNER_URL", owner)
		e.Setenv("SERVE_URL", login)
		return nil
	})
}

// TestServePolicies runs the service with policies that change.
func TestServePolicies(t *testing.T) {
	t.Parallel()
	owner, login := database(t)
	runScript(t, "serve-policies", func(e *testscript.Env) error {
		e.Setenv("OWNER_URL", owner)
		e.Setenv("SERVE_URL", login)
		return nil
	})
}

// TestServeAdmin asks the service how it is.
func TestServeAdmin(t *testing.T) {
	t.Parallel()
	owner, login := database(t)
	runScript(t, "serve-admin", func(e *testscript.Env) error {
		e.Setenv("OWNER_URL", owner)
		e.Setenv("SERVE_URL", login)
		return nil
	})
}

// TestDevOnAGivenPostgres is what docker compose does.
func TestDevOnAGivenPostgres(t *testing.T) {
	t.Parallel()
	t.Cleanup(func() { administer(context.WithoutCancel(t.Context()), t, `DROP ROLE IF EXISTS `+serveLogin) })
	owner, _ := database(t)
	runScript(t, "dev-database", func(e *testscript.Env) error {
		e.Setenv("ONCEWARD_DATABASE_URL", owner)
		return nil
	})
}

// TestServe runs the service as an operator does: an empty database, a login
// that may only serve, two processes, TLS.
func TestServe(t *testing.T) {
	t.Parallel()
	owner, login := database(t)
	runScript(t, "serve", func(e *testscript.Env) error {
		e.Setenv("OWNER_URL", owner)
		e.Setenv("SERVE_URL", login)
		return writeCertificate(e.WorkDir)
	})
}

func runScript(t *testing.T, name string, setup func(*testscript.Env) error) {
	t.Helper()
	testscript.Run(t, testscript.Params{
		Files:       []string{filepath.Join("testdata", name+".txtar")},
		WorkdirRoot: scriptDir(t),
		Cmds:        scriptCommands(),
		Setup: func(e *testscript.Env) error {
			// The account that a private Postgres runs as must pass through.
			if err := os.Chmod(e.WorkDir, 0o711); err != nil {
				return err
			}
			// Under the race detector a program sleeps for a second when it ends,
			// and a script runs dozens.
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			if setup == nil {
				return nil
			}
			return setup(e)
		},
	})
}

// scriptDir makes a folder for scripts to work in. Not t.TempDir: that is
// private to this account, and a Postgres that root starts runs as another.
func scriptDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "onceward-script-") //nolint:usetesting // See above.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// database makes an empty database, and a login for it that is a member of
// onceward_serve once the script has migrated. It returns the URLs of both.
func database(t *testing.T) (owner, login string) {
	t.Helper()
	owner = pgtest.NewDatabase(t, pgtest.Template{})
	u, err := url.Parse(owner)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(u.Path) + "_login"
	administer(t.Context(), t,
		// As an administrator who lets no migration make roles.
		`DO $$ BEGIN CREATE ROLE onceward_serve NOLOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$`,
		`CREATE ROLE `+name+` LOGIN PASSWORD 'login' IN ROLE onceward_serve`)
	t.Cleanup(func() { administer(context.WithoutCancel(t.Context()), t, `DROP ROLE `+name) })
	u.User = url.UserPassword(name, "login")
	return owner, u.String()
}

func administer(ctx context.Context, t *testing.T, statements ...string) {
	t.Helper()
	admin, err := pgx.Connect(ctx, pgtest.AdminURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(ctx) }()
	for _, statement := range statements {
		if _, err := admin.Exec(ctx, statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

// writeCertificate makes a certificate that signs itself, for 127.0.0.1.
func writeCertificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "onceward test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true, IsCA: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: certificate},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			return err
		}
	}
	return nil
}
