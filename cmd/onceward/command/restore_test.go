package command

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// TestRestore goes through a recovery as docs/backup-restore.md does.
func TestRestore(t *testing.T) {
	db := ledgertest.NewDatabase(t)
	db.Tenant(t, "acme")
	store, err := postgres.Open(t.Context(), db.ServeURL)
	if err != nil {
		t.Fatal(err)
	}
	ledgertest.InState(t, store, "acme", ledger.Pending)
	restore := func(wantCode int, want string, args ...string) string {
		t.Helper()
		code, stdout, stderr := run(t, append(append([]string{"restore"}, args...), "--database-url="+db.OwnerURL)...)
		if code != wantCode || !strings.Contains(stdout+stderr, want) {
			t.Fatalf("onceward restore %v: exit code %d, output %q, errors %q; want %d and %q", args, code, stdout, stderr, wantCode, want)
		}
		return stdout
	}
	begin := []string{"begin", "--lost-from=" + time.Now().Add(-time.Hour).Format(time.RFC3339), "--lost-until=" + time.Now().Format(time.RFC3339)}

	restore(0, "never restored", "status")
	restore(exitError, "no recovery is under way", "end", "--reason=x")
	restore(exitError, "no recovery is under way", "clear", "--tenant=acme", "--reason=x")
	restore(exitError, "stop every replica", begin...)
	store.Close()
	for deadline := time.Now().Add(20 * time.Second); ; {
		_, stdout, stderr := run(t, append(append([]string{"restore"}, begin...), "--database-url="+db.OwnerURL)...)
		if strings.Contains(stdout, "The recovery has begun") && strings.Contains(stdout, "1 that were pending") && strings.Contains(stdout, "onceward stops") {
			break
		}
		// Connections that were closed may be there for a moment.
		if !strings.Contains(stderr, "stop every replica") || time.Now().After(deadline) {
			t.Fatalf("begin: output %q, errors %q", stdout, stderr)
		}
	}
	restore(0, "In force", "status")
	restore(0, "Cleared: tenant globex", "clear", "--tenant=globex", "--reason=its agents were off")
	restore(0, "Cleared: action type a.b of all tenants", "clear", "--action-type=a.b", "--reason=does no harm")
	restore(0, "Cleared: action type a.b of tenant acme", "clear", "--tenant=acme", "--action-type=a.b", "--reason=does no harm")
	var state restoreJSON
	if err := json.Unmarshal([]byte(restore(0, "in_force", "status", "--json")), &state); err != nil {
		t.Fatal(err)
	}
	if !state.InForce || len(state.Cleared) != 3 || state.InDoubt != 1 || state.BegunBy == "" || state.EndedAt != nil {
		t.Errorf("status is %+v", state)
	}
	restore(0, "its agents were off", "status")
	restore(0, "has ended", "end", "--reason=queues are drained")
	restore(0, "Ended", "status")
	restore(0, "Still looked into: 1", "status")
}
