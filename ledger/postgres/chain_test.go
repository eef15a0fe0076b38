package postgres_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/auditchain"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// verified reads the whole record of a ledger and returns what is wrong with it.
func verified(t *testing.T, store *postgres.Store) (problems []auditchain.Problem, events int64) {
	t.Helper()
	v := &auditchain.Verifier{Found: func(p auditchain.Problem) { problems = append(problems, p) }}
	if err := store.AuditRecord(t.Context(), "", time.Time{}, func(line []byte) error {
		e, err := auditchain.Parse(line)
		v.Add(e)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	v.End()
	return problems, v.Events
}

// Every event that any statement writes follows from the one before it, and the
// operation has the last one's chain.
func TestLaw11_EveryEventIsChained(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	moves := 0
	for _, m := range ledger.Moves() {
		move, _ := mover(t, store, m)
		if _, err := move(); err != nil {
			t.Fatalf("%q by %s: %v", m.From, m.Event, err)
		}
		moves++
	}
	o := ledgertest.Opening(acme)
	o.Start.Lease = 0
	ledgertest.Open(t, store, o)
	if _, _, err := store.ExpireLeases(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	e := ledger.Evidence{Operation: inState(t, store, ledger.Unknown), Attempt: 1, Actor: "worker", Detail: "odd:4:\tü🦊\x00\xff", ProviderReference: "re_9"}
	if _, err := store.AddEvidence(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	problems, events := verified(t, store)
	if len(problems) > 0 || events < int64(2*moves) {
		t.Errorf("%d events, problems %v", events, problems)
	}
	if n := db.Count(t, `SELECT count(*) FROM operations o WHERE audit_chain IS DISTINCT FROM (
		SELECT chain FROM audit_events e WHERE e.tenant_id = o.tenant_id AND e.operation_id = o.id ORDER BY sequence DESC LIMIT 1)`); n != 0 {
		t.Errorf("%d operations have another chain than their last event", n)
	}
	if n := db.Count(t, `SELECT count(*) FROM audit_events WHERE reference = 're_9' AND event = 'evidence'`); n != 1 {
		t.Errorf("%d events have the reference of the evidence, want 1", n)
	}
}

// Whatever an owner of the tables does to the record, it shows, and it is said
// where.
func TestLaw11_TamperingShows(t *testing.T) {
	t.Parallel()
	const of = ` FROM operations o WHERE o.id = e.operation_id AND o.idempotency_key = 'target'`
	set := func(what, where string) string { return `UPDATE audit_events e SET ` + what + of + ` AND ` + where }
	for name, tt := range map[string]struct {
		do   string
		want []int64 // sequences of events at which it shows; 0: the operation has no record
		says string
	}{
		"nothing":                 {do: `SELECT 1`},
		"the actor":               {set(`actor = 'somebody else'`, `sequence = 2`), []int64{2}, "was changed"},
		"the first event's actor": {set(`actor = 'somebody else'`, `sequence = 1`), []int64{1}, "was changed"},
		"the time":                {set(`at = at + interval '1 microsecond'`, `sequence = 3`), []int64{3}, "was changed"},
		"the detail":              {set(`detail = detail || ' '`, `sequence = 2`), []int64{2}, "was changed"},
		"the hash":                {set(`args_hash = sha256('x')`, `sequence = 2`), []int64{2}, "was changed"},
		"an outcome for none":     {set(`outcome = ''`, `sequence = 3`), []int64{3}, "was changed"},
		"the context":             {set(`context = replace(context::text, 'run-1', 'run-2')::json`, `sequence = 1`), []int64{1}, "was changed"},
		"the reference":           {set(`reference = 're_2'`, `sequence = 4`), []int64{4}, "was changed"},
		"with its own chain anew": {`UPDATE audit_events e SET actor = 'x', chain = audit_event_chain(p.chain, e.tenant_id, e.operation_id, e.sequence, e.at, e.event,
				e.from_status, e.to_status, e.attempt, e.epoch, e.args_hash, 'x', e.detail, e.outcome, e.idempotency_key, e.context::text, e.reference)
			FROM audit_events p, operations o WHERE o.id = e.operation_id AND o.idempotency_key = 'target' AND p.operation_id = o.id
				AND p.sequence = 1 AND e.sequence = 2`, []int64{3}, "does not follow from event 2"},
		"one from the middle": {`DELETE FROM audit_events e USING operations o WHERE o.id = e.operation_id AND o.idempotency_key = 'target' AND sequence = 2`,
			[]int64{3}, `ends in state "running" and this one begins in "unknown"`},
		"the first": {`DELETE FROM audit_events e USING operations o WHERE o.id = e.operation_id AND o.idempotency_key = 'target' AND sequence = 1`,
			[]int64{2}, "before it were removed"},
		"the last": {`DELETE FROM audit_events e USING operations o WHERE o.id = e.operation_id AND o.idempotency_key = 'target' AND sequence = 4`,
			[]int64{3}, "after it were removed"},
		"all": {`DELETE FROM audit_events e USING operations o WHERE o.id = e.operation_id AND o.idempotency_key = 'target'`, []int64{0}, ""},
		"two swapped": {`UPDATE audit_events e SET sequence = 99` + of + ` AND sequence = 2; UPDATE audit_events e SET sequence = 2` + of + ` AND sequence = 3;
			UPDATE audit_events e SET sequence = 3` + of + ` AND sequence = 99`, []int64{2, 3, 4}, ""},
		"one added": {`INSERT INTO audit_events SELECT e.tenant_id, e.operation_id, 9, e.at, e.event, e.from_status, e.to_status, e.attempt, e.epoch, e.args_hash,
			e.actor, e.detail, e.outcome, e.idempotency_key, e.context, e.reference, e.chain FROM audit_events e, operations o
			WHERE o.id = e.operation_id AND o.idempotency_key = 'target' AND sequence = 4`, []int64{9}, ""},
		"moved to another tenant": {`UPDATE audit_events e SET tenant_id = 'zeta'` + of, []int64{0, 1, 2, 3, 4}, ""},
		"the operation, while it waits for a person": {`SET session_replication_role = replica; DELETE FROM operations WHERE idempotency_key = 'target'`,
			[]int64{4}, "a needs_review one does not leave the ledger"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, db := ledgertest.NewStore(t)
			o := ledgertest.Opening(acme)
			o.Operation.Key = "target"
			op := ledgertest.Open(t, store, o)
			op = ledgertest.Moved(t, store, op, ledger.Doubt)
			if op, err := store.AddEvidence(t.Context(), ledger.Evidence{Operation: op, Attempt: 1, Actor: "worker", Detail: "late"}); err != nil || op.Revision != 3 {
				t.Fatalf("revision %d, %v", op.Revision, err)
			}
			ledgertest.Moved(t, store, op, ledger.Escalate)
			for range 2 { // others are not blamed
				inState(t, store, ledger.Succeeded)
			}
			db.Exec(t, tt.do)
			problems, _ := verified(t, store)
			lost, err := store.Unrecorded(t.Context(), "", time.Time{}, 10)
			if err != nil {
				t.Fatal(err)
			}
			var got []int64
			for range lost {
				got = append(got, 0)
			}
			for _, p := range problems {
				if p.OperationID != op.ID {
					t.Errorf("blamed another operation: %s", p)
				}
				if !slices.Contains(got, p.Sequence) {
					got = append(got, p.Sequence)
				}
			}
			if !slices.Equal(got, tt.want) || !strings.Contains(fmt.Sprint(problems), tt.says) {
				t.Errorf("found %v at %v, want %v and %q", problems, got, tt.want, tt.says)
			}
		})
	}
}

// What is verified can be of one tenant, and of a time.
func TestAuditRecordIsOfATenantAndATime(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	inState(t, store, ledger.Succeeded)
	ledgertest.InState(t, store, "other", ledger.Succeeded)
	for _, tt := range []struct {
		tenant string
		since  time.Time
		want   int
	}{{"", time.Time{}, 4}, {acme, time.Time{}, 2}, {"nobody", time.Time{}, 0}, {"", time.Now().Add(-time.Hour), 4}, {"", time.Now().Add(time.Hour), 0}} {
		n := 0
		err := store.AuditRecord(t.Context(), tt.tenant, tt.since, func([]byte) error { n++; return nil })
		if err != nil || n != tt.want {
			t.Errorf("tenant %q since %v: %d events, %v; want %d", tt.tenant, tt.since, n, err, tt.want)
		}
	}
}

// No statement forgets the chain.
func TestStatementsThatWriteEventsChainThem(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("sql/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	insert := regexp.MustCompile(`(?i)INSERT\s+INTO\s+audit_events\s*\(([^)]*)\)`)
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		inserts := insert.FindAllStringSubmatch(string(text), -1)
		for _, columns := range inserts {
			found++
			if !slices.Contains(strings.Split(columns[1], ", "), "chain") {
				t.Errorf("%s writes an event without its chain: %s", file, columns[1])
			}
		}
		if all := regexp.MustCompile(`(?i)INTO\s+audit_events`).FindAllString(string(text), -1); len(all) != len(inserts) {
			t.Errorf("%s writes events without naming their columns", file)
		}
	}
	if found < 8 {
		t.Errorf("found %d statements that write events", found)
	}
}
