package command

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/ledger/ledgertest"
)

// A process that is told to stop waits for its attempt, and a second signal ends it
// at once. What it leaves is the row that says that an attempt is running.
func TestASecondSignalDoesNotWait(t *testing.T) {
	t.Parallel()
	const patience = 30 * time.Second
	provider := fakeprovider.New(fakeprovider.Options{})
	provider.Next(fakeprovider.Fault{Kind: fakeprovider.NeverAnswer})
	server, err := fakeprovider.Start(provider, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	database := ledgertest.NewDatabase(t)
	secrets, token := filepath.Join(t.TempDir(), "secrets"), filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(fakeprovider.DefaultToken), 0o600); err != nil {
		t.Fatal(err)
	}
	onceward := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "onceward", args...).Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	onceward("secrets", "create", secrets)
	onceward("tenants", "create", "acme", "--database-url="+database.OwnerURL)
	key := onceward("keys", "create", "acme", "--actor=planner", "--role=agent", "--database-url="+database.OwnerURL)

	serve := exec.CommandContext(context.WithoutCancel(t.Context()), "onceward", "serve", "--listen=127.0.0.1:0", "--allow-all",
		"--database-url="+database.ServeURL, "--secrets-dir="+secrets, "--demo-provider-url="+server.URL(), "--demo-provider-token-file="+token)
	stderr, err := serve.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = serve.Process.Kill() })
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			var line struct{ Msg, Address string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
				address <- line.Address
			}
		}
		ended <- serve.Wait()
	}()
	var where string
	select {
	case where = <-address:
	case err := <-ended:
		t.Fatalf("it does not serve: %v", err)
	case <-time.After(patience):
		t.Fatal("it does not serve")
	}
	onceward("request", "payments.refund.create", "--address="+where, "--api-key="+key, "--run=run_1", "--step=refund", "--wait=0s",
		`{"charge_id":"ch_1","amount":5,"currency":"usd"}`)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := provider.WaitRequests(ctx, 1); err != nil {
		t.Fatal(err)
	}
	signal := func() {
		t.Helper()
		if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	signal()
	// It takes the first one: nobody is let in any more.
	for {
		var dial net.Dialer
		conn, err := dial.DialContext(ctx, "tcp", where)
		if err != nil {
			break
		}
		_ = conn.Close()
	}
	if ctx.Err() != nil {
		t.Fatal("it still lets callers in")
	}
	select {
	case err := <-ended:
		t.Fatalf("it did not wait for its attempt: %v", err)
	default:
	}
	signal()
	select {
	case <-ended: //nolint:errcheck // it is killed or says an error; that it ended is what counts
	case <-time.After(patience / 3): // less than the grace of a shutdown, and than the attempt may take
		t.Fatal("the second signal changed nothing")
	}
	if n := database.Count(t, `SELECT count(*) FROM operations WHERE status = 'running'`); n != 1 {
		t.Errorf("%d operations are running on record, want the one", n)
	}
}
