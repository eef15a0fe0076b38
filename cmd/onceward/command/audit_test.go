package command

import (
	"regexp"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
)

// TestAudit exports and drops days of a ledger that has a day whose operations
// are gone, and one with an unresolved operation.
func TestAudit(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	const ago = 24 * time.Hour * 90
	old := time.Now().UTC().Add(-ago)
	held := old.Add(24 * time.Hour)
	days := map[string]string{
		"OLD": old.Format(time.DateOnly), "HELD": held.Format(time.DateOnly), "AFTER": held.Add(24 * time.Hour).Format(time.DateOnly),
		"TODAY": time.Now().UTC().Format(time.DateOnly), "YESTERDAY": time.Now().UTC().Add(-24 * time.Hour).Format(time.DateOnly),
	}
	db.Exec(t, `SELECT audit_events_prepare('`+days["OLD"]+`', '`+days["HELD"]+`')`)
	record := func(at time.Time, state ledger.State) ledger.Operation {
		o := ledgertest.Opening("acme")
		id := uuid.Must(uuid.NewV7())
		for i := range 6 {
			id[i] = byte(at.UnixMilli() >> (8 * (5 - i)))
		}
		o.Operation.ID, o.ExpiredKeyReuse = id.String(), true
		op := ledgertest.Brought(t, store, ledgertest.Open(t, store, o), state)
		db.Age(t, op, ago)
		return op
	}
	record(old, ledger.Succeeded)
	record(old, ledger.Failed)
	unknown := record(held, ledger.Unknown)
	if _, swept, _, err := store.Sweep(t.Context(), 10); err != nil || swept != 2 {
		t.Fatalf("swept %d, %v", swept, err)
	}
	runScript(t, "audit", func(e *testscript.Env) error {
		e.Setenv("OWNER_URL", db.OwnerURL)
		e.Setenv("SERVE_URL", db.ServeURL)
		e.Setenv("UNKNOWN", unknown.ID)
		for name, day := range days {
			e.Setenv(name, day)
		}
		return nil
	})
}

func TestWrongUsageOfAudit(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"export", "--out=x"}, `--day.*--before`},
		{[]string{"export", "--out=x", "--day=2026-10-01", "--before=2026-10-01"}, `--day and --before can't be used together`},
		{[]string{"export", "--out=x", "--day=yesterday"}, `"yesterday" is not a day: want one such as 2026-10-01`},
		{[]string{"export", "--out=x", "--before=default"}, `"default" is not a day`},
		{[]string{"export", "--day=2026-10-01"}, `missing flags: --out`},
		{[]string{"verify", "--since=-1h"}, `"-1h" is no time: want one such as 36h or 7d`},
		{[]string{"verify", "--day=2026-10-01"}, `--day is for --exported`},
		{[]string{"verify", "--exported=x", "--tenant=acme"}, `--tenant and --since are for the database`},
		{[]string{"drop", "--exported=x"}, `missing flags: --day`},
		{[]string{"drop", "--exported=x", "--day=2026-02-30"}, `"2026-02-30" is not a day`},
		{[]string{"drop", "--exported=x", "--day=2026-02-03", "--wait=-1s"}, `--wait cannot be negative`},
	} {
		code, stdout, stderr := run(t, append(append([]string{"audit"}, tt.args...), "--database-url=postgres://x")...)
		if code != exitUsage {
			t.Errorf("%v: exit code %d, want %d", tt.args, code, exitUsage)
		}
		checkErrorLine(t.Fatalf, stdout, stderr, regexp.MustCompile(tt.want))
	}
}
