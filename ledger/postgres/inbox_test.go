package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

const fakepay = "fakepay"

// inbox is a ledger with a tenant, which alone events are taken in for.
func inbox(t *testing.T) (*postgres.Store, ledgertest.Database) {
	t.Helper()
	store, db := ledgertest.NewStore(t)
	db.Tenant(t, acme)
	return store, db
}

// applied is an event that says that an effect is there.
func applied(id, reference string) ledger.InboxEvent {
	return ledger.InboxEvent{ID: id, Reference: reference, Outcome: "applied", Receipt: []byte(ledgertest.Receipt), Detail: "refund.created"}
}

func store(t *testing.T, s *postgres.Store, want int, events ...ledger.InboxEvent) {
	t.Helper()
	if stored, err := s.StoreEvents(t.Context(), acme, fakepay, events); err != nil || stored != want {
		t.Errorf("stored %d, %v; want %d", stored, err, want)
	}
}

func lease(t *testing.T, s *postgres.Store, limit int) []ledger.InboxEvent {
	t.Helper()
	events, err := s.LeaseEvents(t.Context(), limit, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(events, func(a, b ledger.InboxEvent) int { return strings.Compare(a.ID, b.ID) })
	return events
}

func TestEventsComeBackAsTheyWent(t *testing.T) {
	t.Parallel()
	s, _ := inbox(t)
	operation := ledgertest.ID()
	failure := &ledger.Failure{Code: "card_declined", Message: "Declined.", Correctable: true}
	store(t, s, 2, applied("evt_1", "re_1"), ledger.InboxEvent{ID: "evt_2", OperationID: operation, Outcome: "rejected", Failure: failure})
	got := lease(t, s, 10)
	if len(got) != 2 {
		t.Fatalf("leased %+v", got)
	}
	first, second := got[0], got[1]
	if first.Tenant != acme || first.Provider != fakepay || first.Reference != "re_1" || first.OperationID != "" || first.Outcome != "applied" ||
		string(first.Receipt) != ledgertest.Receipt || first.Failure != nil || first.Detail != "refund.created" || first.Looks != 1 || first.Age <= 0 || first.Age > time.Minute {
		t.Errorf("leased %+v", first)
	}
	if second.OperationID != operation || second.Reference != "" || second.Receipt != nil || second.Failure.Code != "card_declined" || !second.Failure.Correctable {
		t.Errorf("leased %+v", second)
	}
}

// What Postgres does not take never loses an event.
func TestHostileEventsAreStorable(t *testing.T) {
	t.Parallel()
	s, _ := inbox(t)
	e := applied("evt_1", "re_\x00\xff")
	e.Receipt, e.Detail = []byte("{\"a\":\"\xff\"}"), strings.Repeat("\x00", 5000)
	store(t, s, 1, e)
	if got := lease(t, s, 1); len(got) != 1 || !strings.Contains(string(got[0].Receipt), "receipt_unreadable") || len(got[0].Detail) > ledger.MaxTextBytes {
		t.Errorf("leased %+v", got)
	}
}

func TestEventsAreKnownByTheirIDs(t *testing.T) {
	t.Parallel()
	s, db := inbox(t)
	store(t, s, 1, applied("evt_1", "re_1"), applied("evt_1", "re_other"))
	store(t, s, 0, applied("evt_1", "re_other"))
	store(t, s, 1, applied("evt_1", "re_other"), applied("evt_2", "re_2"))
	// Of another provider, and of another tenant, it is another event.
	if stored, err := s.StoreEvents(t.Context(), acme, "otherpay", []ledger.InboxEvent{applied("evt_1", "re_1")}); err != nil || stored != 1 {
		t.Errorf("another provider's: %d, %v", stored, err)
	}
	db.Tenant(t, "globex")
	if stored, err := s.StoreEvents(t.Context(), "globex", fakepay, []ledger.InboxEvent{applied("evt_1", "re_1")}); err != nil || stored != 1 {
		t.Errorf("another tenant's: %d, %v", stored, err)
	}
	if _, err := s.StoreEvents(t.Context(), "nobody", fakepay, []ledger.InboxEvent{applied("evt_1", "re_1")}); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("nobody's: %v", err)
	}
	if n := db.Count(t, `SELECT count(*) FROM webhook_inbox WHERE reference = 're_other'`); n != 0 {
		t.Errorf("%d events were changed by one that was sent again", n)
	}
}

// Many who bring the same events at once, in any order, store each once.
func TestEventsAreStoredOnce(t *testing.T) {
	t.Parallel()
	s, _ := inbox(t)
	var events []ledger.InboxEvent
	for i := range 20 {
		events = append(events, applied(fmt.Sprint("evt_", i), "re_1"))
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for i := range 6 {
		mine := slices.Clone(events)
		if i%2 == 0 {
			slices.Reverse(mine)
		}
		all.Go(func() {
			stored, err := s.StoreEvents(t.Context(), acme, fakepay, mine)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			total += stored
		})
	}
	all.Wait()
	if total != len(events) {
		t.Errorf("stored %d, want %d", total, len(events))
	}
}

func TestEventsAreLeasedOnce(t *testing.T) {
	t.Parallel()
	s, db := inbox(t)
	for i := range 12 {
		store(t, s, 1, applied(fmt.Sprint("evt_", i), "re_1"))
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	leased := map[string]int{}
	for range 4 {
		all.Go(func() {
			for {
				events, err := s.LeaseEvents(t.Context(), 2, time.Minute)
				if err != nil || len(events) > 2 {
					t.Errorf("leased %d, %v", len(events), err)
				}
				mu.Lock()
				for _, e := range events {
					leased[e.ID]++
				}
				done := len(leased) == 12
				mu.Unlock()
				if done || t.Failed() {
					return
				}
			}
		})
	}
	all.Wait()
	for id, n := range leased {
		if n != 1 {
			t.Errorf("%s was leased %d times", id, n)
		}
	}
	// What another replica holds is skipped, not waited for.
	db.Exec(t, `UPDATE webhook_inbox SET next_look_at = now() - interval '1 second'`)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := db.Owner(t).Exec(ctx, `BEGIN; SELECT FROM webhook_inbox FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if got, err := s.LeaseEvents(ctx, 100, time.Minute); err != nil || len(got) != 0 {
		t.Errorf("leased %v, %v of what is held", got, err)
	}
}

// A lease that ran out is somebody else's; who had it changes nothing.
func TestLateLesseeOfAnEventChangesNothing(t *testing.T) {
	t.Parallel()
	s, db := inbox(t)
	store(t, s, 1, applied("evt_1", "re_1"))
	late := lease(t, s, 1)[0]
	db.Exec(t, `UPDATE webhook_inbox SET next_look_at = now()`)
	current := lease(t, s, 1)[0]
	if current.Looks != 2 {
		t.Errorf("leased again as %+v", current)
	}
	if err := errors.Join(s.CloseEvent(t.Context(), late, "late"), s.PostponeEvent(t.Context(), late, time.Hour)); err != nil {
		t.Error(err)
	}
	if n := db.Count(t, `SELECT count(*) FROM webhook_inbox WHERE processed_at IS NULL AND next_look_at < now() + interval '2 minutes'`); n != 1 {
		t.Error("a late lessee closed or postponed an event")
	}
	if err := s.PostponeEvent(t.Context(), current, 0); err != nil {
		t.Error(err)
	}
	again := lease(t, s, 1)
	if len(again) != 1 || again[0].Looks != 3 {
		t.Errorf("after a postponement: %+v", again)
	}
	if err := s.CloseEvent(t.Context(), again[0], "confirmed"); err != nil {
		t.Error(err)
	}
	db.Exec(t, `UPDATE webhook_inbox SET received_at = received_at - interval '1 hour'`)
	if got := lease(t, s, 10); len(got) != 0 {
		t.Errorf("leased what was closed: %+v", got)
	}
	if err := s.CloseEvent(t.Context(), again[0], "twice"); err != nil {
		t.Error(err)
	}
	// What it said is gone; that it was said is not.
	if n := db.Count(t, `SELECT count(*) FROM webhook_inbox WHERE note = 'confirmed' AND receipt_json IS NULL AND processed_at IS NOT NULL`); n != 1 {
		t.Error("a closed event is not as it should be")
	}
	store(t, s, 0, applied("evt_1", "re_1"))
}

func TestSweepEvents(t *testing.T) {
	t.Parallel()
	s, db := inbox(t)
	for i := range 5 {
		store(t, s, 1, applied(fmt.Sprint("evt_", i), "re_1"))
	}
	for _, e := range lease(t, s, 3) {
		if err := s.CloseEvent(t.Context(), e, "seen"); err != nil {
			t.Fatal(err)
		}
	}
	db.Exec(t, `UPDATE webhook_inbox SET received_at = received_at - interval '1 year', processed_at = processed_at - interval '30 days' WHERE processed_at IS NOT NULL AND event_id <> 'evt_2'`)
	for _, want := range []int64{1, 1, 0} {
		if swept, err := s.SweepEvents(t.Context(), 1, 30*24*time.Hour); err != nil || swept != want {
			t.Errorf("swept %d, %v; want %d", swept, err, want)
		}
	}
	if n := db.Count(t, `SELECT count(*) FROM webhook_inbox`); n != 3 {
		t.Errorf("%d events are left, want the recent one and those that were not weighed", n)
	}
}

func TestReferenced(t *testing.T) {
	t.Parallel()
	s, _ := inbox(t)
	named := func(tenant string, state ledger.State, reference string, watch time.Duration) ledger.Operation {
		t.Helper()
		op := ledgertest.InState(t, s, tenant, ledger.Running)
		switch state {
		case ledger.Unknown, ledger.NeedsReview:
			c := ledgertest.Change(op, ledger.Doubt)
			c.ProviderReference, c.Delay = reference, time.Hour
			op = apply(t, s, c)
			if state == ledger.NeedsReview {
				op = ledgertest.Moved(t, s, op, ledger.Escalate)
			}
		case ledger.Succeeded:
			c := ledgertest.Change(op, ledger.Confirm)
			c.ProviderReference = reference
			op = apply(t, s, c)
		case ledger.Failed:
			c := ledgertest.Change(op, ledger.Refuse)
			c.ProviderReference, c.Watch = reference, watch
			op = apply(t, s, c)
		case ledger.Pending, ledger.Running, ledger.New:
		}
		return op
	}
	want := map[string]bool{
		named(acme, ledger.Unknown, "re_1", 0).ID:        true,
		named(acme, ledger.Unknown, "re_2", 0).ID:        true,
		named(acme, ledger.NeedsReview, "re_3", 0).ID:    true,
		named(acme, ledger.Failed, "re_4", time.Hour).ID: true,
	}
	named(acme, ledger.Unknown, "re_other", 0)
	named(acme, ledger.Unknown, "", 0)
	named(acme, ledger.Running, "", 0)
	named(acme, ledger.Succeeded, "re_5", 0)
	named(acme, ledger.Failed, "re_6", 0)
	named("globex", ledger.Unknown, "re_7", 0)
	named("globex", ledger.NeedsReview, "re_3", 0)
	// Decided: it is not before a person any more.
	ledgertest.Moved(t, s, ledgertest.Get(t, s, named(acme, ledger.NeedsReview, "re_8", 0)), ledger.Confirm)
	var events []ledger.InboxEvent
	for i := range 9 {
		e := applied("x", fmt.Sprint("re_", i))
		e.Tenant = acme
		events = append(events, e, e)
	}
	ops, err := s.Referenced(t.Context(), events)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, op := range ops {
		got[op.ID] = true
	}
	if !maps.Equal(got, want) || len(ops) != len(want) {
		t.Errorf("found %v, want %v", ids(ops), slices.Collect(maps.Keys(want)))
	}
}

// The program runs on the schema before: nothing is taken in, and it says so.
func TestSchemaWithoutInbox(t *testing.T) {
	t.Parallel()
	s, db := inbox(t)
	db.Exec(t, `DROP TABLE webhook_inbox`)
	e := ledger.InboxEvent{Tenant: acme, Provider: fakepay, ID: "evt_1"}
	_, stored := s.StoreEvents(t.Context(), acme, fakepay, []ledger.InboxEvent{applied("evt_1", "re_1")})
	_, leased := s.LeaseEvents(t.Context(), 1, time.Minute)
	_, swept := s.SweepEvents(t.Context(), 1, time.Hour)
	for what, err := range map[string]error{
		"store": stored, "lease": leased, "sweep": swept,
		"postpone": s.PostponeEvent(t.Context(), e, 0), "close": s.CloseEvent(t.Context(), e, ""),
	} {
		if !errors.Is(err, ledger.ErrNoInbox) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := s.Referenced(t.Context(), []ledger.InboxEvent{e}); err != nil {
		t.Errorf("references need no inbox: %v", err)
	}
}

// A provider's word cannot be changed through the service's own role.
func TestServingRoleCannotRewriteEvents(t *testing.T) {
	t.Parallel()
	s, db := inbox(t)
	store(t, s, 1, applied("evt_1", "re_1"))
	conn := db.Serve(t)
	for _, column := range []string{"tenant_id", "provider", "event_id", "operation_id", "reference", "outcome", "detail", "received_at"} {
		_, err := conn.Exec(t.Context(), `UPDATE webhook_inbox SET `+column+` = `+column)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "42501" {
			t.Errorf("%s: %v", column, err)
		}
	}
}

// Whatever waits or is kept, a statement reads what it is about.
func TestInboxReadsByIndex(t *testing.T) {
	t.Parallel()
	conn, op := grown(t)
	if _, err := conn.Exec(t.Context(), `INSERT INTO webhook_inbox (tenant_id, provider, event_id, reference, outcome)
		SELECT 't' || n % 50, 'fakepay', 'evt_' || n, 're_' || n, 'applied' FROM generate_series(1, 5000) n`); err != nil {
		t.Fatal(err)
	}
	args := arguments(op)
	for name, value := range map[string]any{
		"provider": fakepay, "id": "evt_1", "looks": 1, "keep_us": 1, "note": "", "operations": []string{op.ID}, "references": []string{"re_1"},
		"outcomes": []string{"applied"}, "receipts": []string{"{}"}, "failures": []string{"{}"}, "details": []string{""},
	} {
		args[name] = value
	}
	for name, sql := range postgres.InboxPath() {
		explain(t, conn, sql, args).walk(func(p plan) {
			if p.Kind == "Seq Scan" && p.Relation != "tenants" || p.Index != "" && !tenantFirst(p.Condition) {
				t.Errorf("%s: %s of %s by %s, %s", name, p.Kind, p.Relation, p.Index, p.Condition)
			}
		})
	}
	for name, want := range map[string]string{"lease events": "webhook_inbox_due: (next_look_at <= ", "sweep events": "webhook_inbox_processed: (processed_at <= "} {
		var reads []string
		explain(t, conn, postgres.InboxBackground()[name], args).walk(func(p plan) {
			if p.Index != "" {
				reads = append(reads, p.Index+": "+p.Condition)
			}
		})
		if !slices.ContainsFunc(reads, func(read string) bool { return strings.HasPrefix(read, want) }) {
			t.Errorf("%s reads by %v, want %s", name, reads, want)
		}
	}
	var reads []string
	explain(t, conn, postgres.Referenced(), args).walk(func(p plan) {
		reads = append(reads, p.Index)
		if p.Kind == "Seq Scan" {
			t.Errorf("references are looked for in all of %s", p.Relation)
		}
	})
	for _, want := range []string{"operations_next_due", "operations_watch_due", "operations_pkey"} {
		if !slices.Contains(reads, want) {
			t.Errorf("references are looked for by %v, want %s", reads, want)
		}
	}
}
