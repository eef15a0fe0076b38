package postgres_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// denial is a refused request of which everything is known.
func denial(tenant string) ledger.Denial {
	hash := ledgertest.Hash("arguments")
	return ledger.Denial{
		ID: ledgertest.ID(), Tenant: tenant, Actor: "agent:test", ActionType: "demo.refund.create", Key: "key-1", ArgsHash: &hash,
		Verdict: ledger.Verdict{Decision: "deny", Reason: "POLICY_DENIED", Rule: "too-much", PolicyVersion: "3-abc"},
		Run:     ledger.Run{RunID: "run-1", ToolVersion: "2"}, Stage: ledger.StageProtect, Amount: "10.50", Currency: "EUR", Detail: "more than allowed",
	}
}

func TestDenyRecordsTheRequest(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	d := denial(acme)
	for range 2 { // again is harmless
		if err := store.Deny(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	events, err := store.Events(t.Context(), acme, ledger.EventFilter{}, ledger.EventPosition{}, 10)
	if err != nil || len(events) != 1 {
		t.Fatalf("%+v, %v; want one event", events, err)
	}
	e := events[0]
	want := ledger.EventContext{ActionType: d.ActionType, KeyHash: fmt.Sprintf("%x", ledgertest.Hash("key-1")), Run: d.Run, Decision: "deny",
		Reason: "POLICY_DENIED", Rule: "too-much", PolicyVersion: "3-abc", Stage: ledger.StageProtect, Amount: "10.50", Currency: "EUR"}
	if e.Context == nil || *e.Context != want || e.OperationID != d.ID || e.Sequence != 1 || e.Event != "deny" || e.From != "" || e.To != "" ||
		e.ArgsHash != *d.ArgsHash || e.Actor != d.Actor || e.Detail != d.Detail || len(e.Chain) != 32 || time.Since(e.At) > time.Minute {
		t.Errorf("recorded %+v of %+v", e, e.Context)
	}
	if strings.Contains(fmt.Sprintf("%+v", *e.Context), "key-1") {
		t.Error("the key itself is in the record")
	}
	// It is no operation.
	if _, err := store.Get(t.Context(), acme, d.ID); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("reading it as an operation: %v", err)
	}
	if listed, err := store.List(t.Context(), acme, ledger.Filter{}, "", 10); err != nil || len(listed) != 0 {
		t.Errorf("listed %v, %v", listed, err)
	}
	problems, _ := verified(t, db.Open(t))
	if len(problems) > 0 {
		t.Error(problems)
	}
}

// Of a stranger little is known, and what he says can be anything.
func TestDenyOfAStranger(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	odd := strings.Repeat("\xff\x00ü", 5000)
	d := ledger.Denial{ID: ledgertest.ID(), Tenant: ledger.AllTenants, Verdict: ledger.Verdict{Decision: "deny", Reason: "UNAUTHENTICATED"},
		ActionType: odd, Detail: odd, Key: odd, Amount: odd, Run: ledger.Run{RunID: odd, Instance: odd}}
	if err := store.Deny(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	events, err := store.Events(t.Context(), ledger.AllTenants, ledger.EventFilter{DeniedOnly: true}, ledger.EventPosition{}, 10)
	if err != nil || len(events) != 1 || events[0].ArgsHash != (ledger.Hash{}) || len(events[0].Detail) > 3100 || len(events[0].Context.ActionType) > 800 {
		t.Errorf("%+v, %v", events, err)
	}
	if problems, n := verified(t, store); len(problems) > 0 || n != 1 {
		t.Errorf("%d events, %v", n, problems)
	}
}

func TestDenialsShareTransactions(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			if err := store.Deny(t.Context(), denial(acme)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := db.Count(t, `SELECT count(*) FROM audit_events WHERE event = 'deny'`); n != 200 {
		t.Errorf("%d denials recorded, want 200", n)
	}
	if n := db.Count(t, `SELECT count(DISTINCT xmin::text) FROM audit_events`); n > 150 {
		t.Errorf("200 denials took %d transactions", n)
	}
}

func TestFirstEventsHaveTheirContext(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	o := ledgertest.Opening(acme)
	o.Operation.Amount, o.Operation.Currency, o.Operation.Stage = "12.3400", "EUR", ledger.StageProtect
	o.Operation.PolicyVersion, o.Operation.Rule = "4-def", "small-refunds"
	o.Verdict = ledger.Verdict{Decision: "allow", Rule: "small-refunds", PolicyVersion: "4-def"}
	op := ledgertest.Open(t, store, o)
	if op.Amount != "12.3400" || op.Currency != "EUR" || op.Stage != ledger.StageProtect || op.PolicyVersion != "4-def" || op.Rule != "small-refunds" {
		t.Errorf("read %q %q %q %q %q", op.Amount, op.Currency, op.Stage, op.PolicyVersion, op.Rule)
	}
	ledgertest.Moved(t, store, op, ledger.Confirm)
	events, err := store.Events(t.Context(), acme, ledger.EventFilter{OperationID: op.ID}, ledger.EventPosition{}, 10)
	if err != nil || len(events) != 2 {
		t.Fatalf("%+v, %v", events, err)
	}
	want := ledger.EventContext{ActionType: op.ActionType, KeyHash: fmt.Sprintf("%x", ledgertest.Hash(op.Key)), Run: op.Run, Decision: "allow",
		Rule: "small-refunds", PolicyVersion: "4-def", Stage: ledger.StageProtect, Amount: "12.3400", Currency: "EUR"}
	if events[0].Context == nil || *events[0].Context != want || events[1].Context != nil || events[1].Reference != ledgertest.Reference {
		t.Errorf("contexts %+v and %+v, reference %q", events[0].Context, events[1].Context, events[1].Reference)
	}
	// A row from before there were such columns.
	db.Exec(t, `SET session_replication_role = replica; UPDATE operations SET amount = NULL, currency = NULL, stage = NULL, policy_version = NULL, rule = NULL`)
	if op = ledgertest.Get(t, store, op); op.Amount != "" || op.Currency != "" || op.Stage != ledger.StageReconcile || op.PolicyVersion != "" || op.Rule != "" {
		t.Errorf("an old row reads %q %q %q %q %q", op.Amount, op.Currency, op.Stage, op.PolicyVersion, op.Rule)
	}
}

// idOf is the id of something that is recorded at a time.
func idOf(at time.Time) string {
	id := uuid.Must(uuid.NewV7())
	for i := range 6 {
		id[i] = byte(at.UnixMilli() >> (8 * (5 - i)))
	}
	return id.String()
}

func TestEventsFilterAndPage(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	var want []string // in order
	for range 5 {
		op := inState(t, store, ledger.NeedsReview)
		for sequence := range 3 {
			want = append(want, fmt.Sprintf("%s/%d", op.ID, sequence+1))
		}
	}
	middle := strings.TrimSuffix(want[6], "/1")
	between := time.Now().Truncate(time.Millisecond).Add(5 * time.Second)
	denied := denial(acme)
	denied.ID = idOf(between)
	denied.ActionType, denied.Actor = "other.thing", "mallory"
	if err := store.Deny(t.Context(), denied); err != nil {
		t.Fatal(err)
	}
	want = append(want, denied.ID+"/1")
	if err := store.Deny(t.Context(), denial("other")); err != nil {
		t.Fatal(err)
	}
	names := func(events []ledger.AuditEvent) (all []string) {
		for _, e := range events {
			all = append(all, fmt.Sprintf("%s/%d", e.OperationID, e.Sequence))
		}
		return all
	}
	for _, limit := range []int{1, 2, 7, 100} {
		var got []string
		var after ledger.EventPosition
		for {
			page, err := store.Events(t.Context(), acme, ledger.EventFilter{}, after, limit)
			if err != nil || len(page) > limit {
				t.Fatalf("%d events, %v", len(page), err)
			}
			if len(page) == 0 {
				break
			}
			got = append(got, names(page)...)
			after = ledger.EventPosition{OperationID: page[len(page)-1].OperationID, Sequence: page[len(page)-1].Sequence}
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v, want %v", limit, got, want)
		}
	}
	for name, tt := range map[string]struct {
		f    ledger.EventFilter
		want []string
	}{
		"operation":     {ledger.EventFilter{OperationID: middle}, want[6:9]},
		"no operation":  {ledger.EventFilter{OperationID: ledgertest.ID()}, nil},
		"action type":   {ledger.EventFilter{ActionType: "demo.refund.create"}, want[:15]},
		"other actions": {ledger.EventFilter{ActionType: "other.thing"}, want[15:]},
		"actor":         {ledger.EventFilter{Actor: "mallory"}, want[15:]},
		"denied":        {ledger.EventFilter{DeniedOnly: true}, want[15:]},
		"after":         {ledger.EventFilter{RecordedAfter: between}, want[15:]},
		"before":        {ledger.EventFilter{RecordedBefore: between}, want[:15]},
		"in between":    {ledger.EventFilter{RecordedAfter: between, RecordedBefore: between}, nil},
		"tomorrow":      {ledger.EventFilter{RecordedAfter: time.Now().Add(24 * time.Hour)}, nil},
		"before time":   {ledger.EventFilter{RecordedBefore: time.Unix(-1, 0)}, nil},
		"ever":          {ledger.EventFilter{RecordedAfter: time.Unix(-1, 0), RecordedBefore: time.Now().AddDate(100, 0, 0)}, want},
		"of it, denied": {ledger.EventFilter{OperationID: middle, DeniedOnly: true}, nil},
	} {
		got, err := store.Events(t.Context(), acme, tt.f, ledger.EventPosition{}, 100)
		if err != nil || !slices.Equal(names(got), tt.want) {
			t.Errorf("%s: %v, %v; want %v", name, names(got), err, tt.want)
		}
	}
}

// A page is read by the key of the record, and from the days that were asked for.
func TestEventsReadsByIndexAndDay(t *testing.T) {
	t.Parallel()
	conn, op := grown(t)
	today := "audit_events_" + time.Now().UTC().Format("20060102")
	args := pgx.NamedArgs{
		"tenant": acme, "from": op.ID, "to": op.ID, "after": op.ID, "sequence": 0, "action_type": "", "actor": "", "limit": 100,
	}
	reads := 0
	explain(t, conn, postgres.Events(), args).walk(func(p plan) {
		if p.Relation == "" {
			return
		}
		reads++
		if !strings.HasPrefix(p.Kind, "Index") || !tenantFirst(p.Condition) || !regexp.MustCompile(`ROW\(|operation_id`).MatchString(p.Condition) {
			t.Errorf("reads %s by %s %s: %s", p.Relation, p.Kind, p.Index, p.Condition)
		}
		if p.Relation != today && p.Relation != "audit_events_default" && !strings.Contains(p.Condition, "operation_id = ") {
			t.Errorf("reads %s for an operation of today", p.Relation)
		}
	})
	if reads == 0 {
		t.Error("reads nothing")
	}
}

// Refusals are few among all events, and read as such.
func TestDenialsAreReadByTheirIndex(t *testing.T) {
	t.Parallel()
	conn, op := grown(t)
	today := "audit_events_" + time.Now().UTC().Format("20060102")
	args := pgx.NamedArgs{
		"tenant": acme, "from": idOf(time.Now().Add(-time.Hour)), "to": idOf(time.Now().Add(time.Hour)), "after": op.ID, "sequence": 0, "action_type": "", "actor": "", "limit": 100,
	}
	read := false
	explain(t, conn, postgres.Denied(), args).walk(func(p plan) {
		if p.Relation != today || strings.Contains(p.Condition, "operation_id = ") {
			return
		}
		read = true
		if !strings.Contains(p.Index, "tenant_id_operation_id_sequence_idx") || !tenantFirst(p.Condition) {
			t.Errorf("reads %s by %s %s: %s", p.Relation, p.Kind, p.Index, p.Condition)
		}
	})
	if !read {
		t.Error("reads nothing of today")
	}
}
