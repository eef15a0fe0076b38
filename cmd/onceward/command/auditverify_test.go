package command

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
)

// TestAuditVerify finds what was done to a record: in the ledger, and in files.
func TestAuditVerify(t *testing.T) {
	store, db := ledgertest.NewStore(t)
	old := time.Now().UTC().Add(-90 * 24 * time.Hour)
	day, dir := old.Format(time.DateOnly), t.TempDir()
	db.Exec(t, `SELECT audit_events_prepare('`+day+`', '`+day+`')`)
	var ids []string
	for i := range 3 {
		o := ledgertest.Opening("acme")
		id := uuid.Must(uuid.NewV7())
		for i := range 6 {
			id[i] = byte(old.UnixMilli() >> (8 * (5 - i)))
		}
		o.Operation.ID, o.Operation.Key = id.String(), fmt.Sprint("key-", i)
		ids = append(ids, o.Operation.ID)
		ledgertest.Brought(t, store, ledgertest.Open(t, store, o), ledger.NeedsReview)
	}
	slices.Sort(ids) // as an export has them; what makes ids grow was replaced
	ledgertest.InState(t, store, "other", ledger.Succeeded)
	verify := func(want int, wanted string, args ...string) {
		t.Helper()
		code, stdout, stderr := run(t, append([]string{"audit", "verify"}, args...)...)
		if code != want || !strings.Contains(stdout+stderr, wanted) {
			t.Errorf("audit verify %v: exit code %d, output %q, errors %q; want %d and %q", args, code, stdout, stderr, want, wanted)
		}
	}
	inLedger, exported := "--database-url="+db.OwnerURL, "--exported="+dir
	verify(exitError, "has no exported files", exported)
	if code, _, stderr := run(t, "audit", "export", "--day="+day, "--out="+dir, inLedger); code != exitOK {
		t.Fatal(stderr)
	}
	verify(exitOK, "is whole: 11 events of 4 operations", inLedger)
	verify(exitOK, "is whole: 2 events of 1 operations", inLedger, "--tenant=other")
	verify(exitError, "nothing is recorded of a tenant", inLedger, "--tenant=othr")
	verify(exitOK, "is whole: 2 events of 1 operations", inLedger, "--since=24h")
	verify(exitOK, "is whole: 9 events of 3 operations", exported)
	verify(exitOK, "is whole: 9 events of 3 operations", exported, "--day="+day)

	db.Exec(t, `DELETE FROM audit_events WHERE operation_id = '`+ids[0]+`' AND sequence = 3`)
	verify(exitError, "operation "+ids[0]+" of acme, event 2: the events after it were removed", inLedger)
	verify(exitOK, "is whole", inLedger, "--tenant=other")
	db.Exec(t, `DELETE FROM audit_events WHERE operation_id = '`+ids[1]+`'`)
	verify(exitError, "operation "+ids[1]+" of acme, event 0: it is in the ledger (needs_review), and its whole record was removed", inLedger)
	verify(exitError, "2 problems in 7 events", inLedger)

	// Files: a line less, a word changed, damage.
	path := filepath.Join(dir, "audit_events_"+day+".jsonl.gz")
	whole := unpacked(t, path)
	lines := strings.SplitAfter(strings.TrimSuffix(whole, "\n"), "\n")
	for what, tt := range map[string]struct{ text, want string }{
		"the last event": {strings.Join(lines[:8], ""), "operation " + ids[2] + " of acme, event 2: the events after it were removed"},
		"one between":    {strings.Join(append(append([]string{}, lines[:4]...), lines[5:]...), ""), "operation " + ids[1] + " of acme, event 3: an event between"},
		"a word":         {strings.Replace(whole, "because of doubt", "because of doubts", 1), "operation " + ids[0] + " of acme, event 2: it does not follow"},
		"a new column":   {strings.Replace(whole, `"epoch":0`, `"epoch":0,"x":1`, 1), "has another SHA-256"},
		"no order":       {strings.Join(lines[3:], "") + "\n" + strings.Join(lines[:3], ""), "not in the order"},
	} {
		if err := os.WriteFile(path, packed(t, tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Log(what)
		verify(exitError, tt.want, exported)
		verify(exitError, "damaged or was changed", exported)
	}
}

func unpacked(t *testing.T, path string) string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestOperatorsStopTenants: directly in the ledger, with nobody serving.
func TestOperatorsStopTenants(t *testing.T) {
	_, db := ledgertest.NewStore(t)
	db.Tenant(t, "acme")
	url := "--database-url=" + db.OwnerURL
	for _, step := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"stop", "--tenant=acmee", "--reason=x", url}, exitError, `no tenant "acmee"`},
		{[]string{"stop", "--tenant=acme", "--provider=fakepay", "--reason=it broke", url}, exitOK, "provider fakepay"},
		{[]string{"stop", "--all-tenants", "--reason=all of it", url}, exitOK, "everything"},
		{[]string{"stops", "--tenant=acme", url}, exitOK, "all of it"},
		{[]string{"stops", "--tenant=acme", "--json", url}, exitOK, `"all_tenants": true`},
		{[]string{"resume", "--tenant=acme", url}, exitError, "that is not stopped"},
		{[]string{"resume", "--all-tenants", url}, exitOK, "Nothing is stopped."},
		{[]string{"resume", "--tenant=acme", "--provider=fakepay", url}, exitOK, "Nothing is stopped."},
	} {
		code, stdout, stderr := run(t, step.args...)
		if code != step.code || !strings.Contains(stdout+stderr, step.want) {
			t.Errorf("%v: exit code %d, output %q, errors %q; want %d and %q", step.args[:len(step.args)-1], code, stdout, stderr, step.code, step.want)
		}
	}
	if n := db.Count(t, `SELECT count(*) FROM audit_events WHERE event IN ('stop', 'resume') AND actor LIKE 'operator%'`); n != 4 {
		t.Errorf("%d events, want one for each switch that was turned", n)
	}
}
