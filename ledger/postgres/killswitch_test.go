package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
)

func killSwitch(tenant, actionType, provider string) ledger.KillSwitch {
	return ledger.KillSwitch{Tenant: tenant, ActionType: actionType, Provider: provider, Reason: "it runs wild", SetBy: "ops:ann"}
}

// provided is an opening of an action of a provider.
func provided(tenant, provider string) ledger.Opening {
	o := ledgertest.Opening(tenant)
	o.Provider = provider
	return o
}

func TestKillSwitchesStopWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	db.Tenant(t, acme)
	db.Tenant(t, "other")
	const action = "demo.refund.create" // as ledgertest opens it
	for name, tt := range map[string]struct {
		set   ledger.KillSwitch
		stops bool
	}{
		"everything":           {killSwitch(acme, "", ""), true},
		"the action type":      {killSwitch(acme, action, ""), true},
		"the provider":         {killSwitch(acme, "", "fakepay"), true},
		"another action type":  {killSwitch(acme, "demo.other", ""), false},
		"another provider":     {killSwitch(acme, "", "otherpay"), false},
		"another tenant":       {killSwitch("other", "", ""), false},
		"all tenants":          {killSwitch(ledger.AllTenants, "", ""), true},
		"all, the provider":    {killSwitch(ledger.AllTenants, "", "fakepay"), true},
		"all, the action type": {killSwitch(ledger.AllTenants, action, ""), true},
		"all, another":         {killSwitch(ledger.AllTenants, "demo.other", ""), false},
	} {
		pending := ledgertest.Open(t, store, ledgertest.Recorded(acme))
		unknown := ledgertest.Leased(t, store, inState(t, store, ledger.Unknown))
		existing := inState(t, store, ledger.Running)
		if err := store.SetKillSwitch(t.Context(), tt.set); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		check := func(what string, err error) {
			t.Helper()
			var stopped *ledger.StoppedError
			if errors.As(err, &stopped) != tt.stops || err != nil && !tt.stops {
				t.Errorf("%s, %s: %v", name, what, err)
			} else if tt.stops && (stopped.Switch.Reason != "it runs wild" || stopped.Switch.SetBy != "ops:ann" || stopped.Switch.SetAt.IsZero() || stopped.Switch.Tenant != tt.set.Tenant) {
				t.Errorf("%s, %s: stopped by %+v", name, what, stopped.Switch)
			}
		}
		for _, o := range []ledger.Opening{provided(acme, "fakepay"), ledgertest.Recorded(acme), ledgertest.Asked(acme)} {
			o.Provider = "fakepay"
			_, created, err := store.Open(t.Context(), o)
			check("opening by "+string(o.Event), err)
			if created == tt.stops {
				t.Errorf("%s: created %v", name, created)
			}
		}
		again := provided(acme, "fakepay")
		again.Operation.Key = existing.Key
		if op, created, err := store.Open(t.Context(), again); err != nil || created || op.ID != existing.ID {
			t.Errorf("%s: a duplicate got %s, created %v, %v", name, op.ID, created, err)
		}
		for what, op := range map[string]ledger.Operation{"a claim": pending, "a replay": unknown} {
			c := ledgertest.Claiming(op)
			c.Provider = "fakepay"
			unchangedIf(t, db, op, tt.stops, func() {
				_, err := store.Start(t.Context(), c)
				check(what, err)
			})
		}
		// What is under way ends.
		apply(t, store, ledgertest.Change(existing, ledger.Confirm))
		if err := store.ClearKillSwitch(t.Context(), tt.set); err != nil {
			t.Fatal(err)
		}
		if tt.stops {
			c := ledgertest.Claiming(pending)
			c.Provider = "fakepay"
			if _, err := store.Start(t.Context(), c); err != nil {
				t.Errorf("%s: after it was cleared: %v", name, err)
			}
		}
	}
	if problems, _ := verified(t, store); len(problems) > 0 {
		t.Error(problems)
	}
}

func unchangedIf(t *testing.T, db ledgertest.Database, op ledger.Operation, sure bool, do func()) {
	t.Helper()
	if !sure {
		do()
		return
	}
	unchanged(t, db, op, "a stopped start", do)
}

// Somebody else's move is told as such, whether a switch is set or not; a stopped
// one is told as stopped.
func TestKillSwitchesAreKeptAndRecorded(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	db.Tenant(t, acme)
	db.Tenant(t, "other")
	all, own, theirs := killSwitch(ledger.AllTenants, "", "fakepay"), killSwitch(acme, "demo.x", ""), killSwitch("other", "", "")
	for _, k := range []ledger.KillSwitch{own, all, theirs} {
		if err := store.SetKillSwitch(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	// Who looks into the record of this tenant is not refused for a byte of it.
	own.Reason = "nul \x00"
	if err := store.SetKillSwitch(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	if events, err := store.Events(t.Context(), acme, ledger.EventFilter{ActionType: "demo.x"}, ledger.EventPosition{}, 10); err != nil || len(events) != 2 {
		t.Errorf("%d events, %v", len(events), err)
	}
	own.Reason, own.SetBy = "still", "ops:bob"
	if err := store.SetKillSwitch(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	got, err := store.KillSwitches(t.Context(), acme)
	for i := range got {
		if time.Since(got[i].SetAt) > time.Minute {
			t.Errorf("set at %v", got[i].SetAt)
		}
		got[i].SetAt = time.Time{}
	}
	if err != nil || !slices.Equal(got, []ledger.KillSwitch{all, own}) {
		t.Errorf("acme's are %+v, %v", got, err)
	}
	wantError(t, "switch of no tenant", store.SetKillSwitch(t.Context(), killSwitch("acmee", "", "")), ledger.ErrNotFound)
	wantError(t, "clearing what is not set", store.ClearKillSwitch(t.Context(), killSwitch(acme, "", "")), ledger.ErrNotFound)
	for _, k := range []ledger.KillSwitch{{Tenant: acme, ActionType: "a", Provider: "b", Reason: "x"}, {Tenant: acme}} {
		if err := store.SetKillSwitch(t.Context(), k); err == nil {
			t.Errorf("set %+v", k)
		}
	}
	own.Reason = "it is over"
	if err := store.ClearKillSwitch(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	events, err := store.Events(t.Context(), acme, ledger.EventFilter{}, ledger.EventPosition{}, 10)
	var said []string
	for _, e := range events {
		said = append(said, e.Event+" by "+e.Actor+": "+e.Detail)
	}
	want := []string{"stop by ops:ann: action type demo.x: it runs wild",
		"stop by ops:ann: action type demo.x: nul \ufffd", "stop by ops:bob: action type demo.x: still", "resume by ops:bob: action type demo.x: it is over"}
	if err != nil || !slices.Equal(said, want) {
		t.Errorf("recorded %q, %v; want %q", said, err, want)
	}
	// A switch without its event is not set.
	db.Exec(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no room'; END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON audit_events FOR EACH ROW EXECUTE FUNCTION refuse()`)
	if err := store.SetKillSwitch(t.Context(), killSwitch(acme, "", "")); err == nil || db.Count(t, `SELECT count(*) FROM kill_switches`) != 2 {
		t.Errorf("set without an event: %v", err)
	}
}

// Two replicas claim in a loop. After a switch was set no claim is committed any
// more, whenever it began.
func TestNoClaimCommitsAfterASwitchWasSet(t *testing.T) {
	t.Parallel()
	replica, db := ledgertest.NewStore(t)
	stores := []interface {
		Open(context.Context, ledger.Opening) (ledger.Operation, bool, error)
		Start(context.Context, ledger.Claiming) (ledger.Operation, error)
	}{replica, db.Open(t)}
	admin := db.Open(t)
	db.Tenant(t, acme)
	for range 15 {
		ctx, stop := context.WithCancel(t.Context())
		var opened, stopped atomic.Int64
		var claiming sync.WaitGroup
		for i := range 8 {
			claiming.Go(func() {
				for ctx.Err() == nil {
					o := provided(acme, "fakepay")
					if i%2 == 0 {
						o = ledgertest.Recorded(acme)
						o.Provider = "fakepay"
					}
					op, _, err := stores[i/4].Open(t.Context(), o)
					if err == nil && i%2 == 0 {
						c := ledgertest.Claiming(op)
						c.Provider = "fakepay"
						_, err = stores[i/4].Start(t.Context(), c)
					}
					var refused *ledger.StoppedError
					switch {
					case err == nil:
						opened.Add(1)
					case errors.As(err, &refused):
						stopped.Add(1)
					default:
						t.Error(err)
					}
				}
			})
		}
		await(t, func() bool { return opened.Load() >= 20 })
		if err := admin.SetKillSwitch(t.Context(), killSwitch(acme, "", "fakepay")); err != nil {
			t.Error(err)
		}
		// What is visible now was committed before.
		const claims = `SELECT count(*) FROM audit_events WHERE event IN ('claim', 'replay', 'record')`
		before := db.Count(t, claims)
		since := stopped.Load()
		await(t, func() bool { return stopped.Load() >= since+50 })
		if after := db.Count(t, claims); after != before {
			t.Errorf("%d claims were committed after the switch was set", after-before)
		}
		stop()
		claiming.Wait()
		if err := admin.ClearKillSwitch(t.Context(), killSwitch(acme, "", "fakepay")); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			return
		}
	}
}

// await polls until something is so.
func await(t *testing.T, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never came to be")
		}
	}
}

// A claim whose commit takes long keeps the switch waiting, and others serving; who
// only reads (a dump) does not.
func TestSetKillSwitchWaitsForClaimsUnderWay(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	db.Tenant(t, acme)
	reader, claim := db.Owner(t), db.Owner(t)
	for _, sql := range []string{`BEGIN`, `SELECT * FROM kill_switches`, `LOCK TABLE kill_switches IN ACCESS SHARE MODE`} {
		if _, err := reader.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.SetKillSwitch(t.Context(), killSwitch(acme, "demo.first", "")); err != nil {
		t.Fatalf("beside a reader: %v", err)
	}
	tx, err := claim.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM kill_switches WHERE false FOR KEY SHARE`); err != nil {
		t.Fatal(err)
	}
	set := make(chan error, 1)
	go func() { set <- store.SetKillSwitch(t.Context(), killSwitch(acme, "demo.second", "")) }()
	awaitCount(t, db.Owner(t), 1, `SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'kill_switches'::regclass`)
	// It holds already for whoever begins now, and nobody waits for long.
	var stopped *ledger.StoppedError
	o := ledgertest.Opening(acme)
	o.Operation.ActionType = "demo.second"
	if _, _, err := store.Open(t.Context(), o); !errors.As(err, &stopped) {
		t.Errorf("a claim that begins meanwhile: %v", err)
	}
	inState(t, store, ledger.Running)
	select {
	case err := <-set:
		t.Errorf("set while a claim was under way: %v", err)
	default:
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-set; err != nil {
		t.Error(err)
	}
}

// A switch is not set before the claims are committed that did not see it: of new
// operations, and of those that wait.
func TestSetKillSwitchReturnsAfterTheClaimsThatDidNotSeeIt(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	admin := db.Open(t)
	db.Tenant(t, acme)
	// A claim stays in its transaction while somebody has this lock. (It tries, since
	// the time that a batch waits for a lock is bounded.)
	db.Exec(t, `CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			WHILE NOT pg_try_advisory_xact_lock_shared(42) LOOP PERFORM pg_sleep(0.005); END LOOP; RETURN NEW; END $$;
		CREATE TRIGGER hold BEFORE INSERT ON audit_events FOR EACH ROW WHEN (NEW.event = 'claim') EXECUTE FUNCTION hold()`)
	pending := ledgertest.Open(t, store, ledgertest.Recorded(acme))
	holder, watch := db.Owner(t), db.Owner(t)
	for what, claim := range map[string]func() error{
		"open":  func() error { _, _, err := store.Open(t.Context(), ledgertest.Opening(acme)); return err },
		"start": func() error { _, err := store.Start(t.Context(), ledgertest.Claiming(pending)); return err },
	} {
		if _, err := holder.Exec(t.Context(), `SELECT pg_advisory_lock(42)`); err != nil {
			t.Fatal(err)
		}
		claimed, set := make(chan error, 1), make(chan error, 1)
		go func() { claimed <- claim() }()
		await(t, func() bool {
			return db.Count(t, `SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()`) > 0
		})
		go func() { set <- admin.SetKillSwitch(t.Context(), killSwitch(acme, "", "")) }()
		awaitCount(t, watch, 1, `SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'kill_switches'::regclass`)
		if _, err := holder.Exec(t.Context(), `SELECT pg_advisory_unlock(42)`); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(<-claimed, <-set); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if err := admin.ClearKillSwitch(t.Context(), killSwitch(acme, "", "")); err != nil {
			t.Fatal(err)
		}
	}
}

// A switch that is never there when somebody asks why: nothing is recorded, and it
// is no ledger that is away.
func TestOpenOfWhatRefusesAndGoes(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	db.Exec(t, `CREATE TABLE tries (n integer);
		CREATE FUNCTION shy() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
			INSERT INTO tries VALUES (1);
			IF (SELECT count(*) FROM tries) % 5 = 0 THEN RETURN NEW; END IF;
			RETURN NULL;
		END $$;
		CREATE TRIGGER shy BEFORE INSERT ON operations FOR EACH ROW EXECUTE FUNCTION shy()`)
	opening := ledgertest.Opening(acme)
	_, created, err := store.Open(t.Context(), opening)
	wantError(t, "Open", err, ledger.ErrFenced)
	if errors.Is(err, ledger.ErrUnavailable) || strings.Contains(err.Error(), opening.Operation.Key) || created {
		t.Errorf("got %v", err)
	}
	if _, created, err = store.Open(t.Context(), opening); err != nil || !created {
		t.Errorf("once it is gone: %v, %v", created, err)
	}
}
