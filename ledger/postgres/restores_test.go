package postgres_test

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/pgtest"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// lost is a time that a restored ledger may have forgotten.
func lost() ledger.Restore {
	until := time.Now().UTC().Truncate(time.Microsecond)
	return ledger.Restore{LostFrom: until.Add(-time.Hour), LostUntil: until, BegunBy: "operator:ann"}
}

// restored begins a restore as its operator does: nobody serves, and the owner's
// store is of its own.
func restored(t *testing.T, db ledgertest.Database, r ledger.Restore) map[ledger.State]int64 {
	t.Helper()
	owner, err := postgres.Open(t.Context(), db.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	var moved map[ledger.State]int64
	await(t, func() bool { // connections that were closed may be there for a moment
		moved, err = owner.BeginRestore(t.Context(), r)
		return !errors.Is(err, ledger.ErrServing)
	})
	if err != nil {
		t.Fatal(err)
	}
	return moved
}

// All that is open is in doubt after a restore, and all that has ended is as it was.
func TestLaw04_RestoreDoubtsWhatIsOpen(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	store, err := postgres.Open(t.Context(), db.ServeURL)
	if err != nil {
		t.Fatal(err)
	}
	open := map[string]ledger.Operation{
		"asked":   ledgertest.Open(t, store, ledgertest.Asked(acme)),
		"applied": noReceipt(t, store),
	}
	for _, state := range []ledger.State{ledger.Pending, ledger.Running, ledger.Unknown, ledger.NeedsReview} {
		open[string(state)] = inState(t, store, state)
	}
	same := []ledger.Operation{
		inState(t, store, ledger.Succeeded), inState(t, store, ledger.Failed),
		ledgertest.Moved(t, store, inState(t, store, ledger.Failed), ledger.Contradict), // a person must look anyway
	}
	store.Close()

	r := lost()
	moved := restored(t, db, r)
	if want := (map[ledger.State]int64{ledger.Pending: 1, ledger.Running: 1, ledger.Unknown: 2, ledger.NeedsReview: 2}); !maps.Equal(moved, want) {
		t.Errorf("moved %v, want %v", moved, want)
	}
	store = db.Open(t)
	for _, op := range same {
		if now := ledgertest.Get(t, store, op); !reflect.DeepEqual(now, op) {
			t.Errorf("a %s operation was\n%+v\nand is\n%+v", op.State, op, now)
		}
	}
	for name, op := range open {
		now := ledgertest.Get(t, store, op)
		effect := ledger.EffectUnknown
		if name == "applied" {
			effect = ledger.EffectApplied
		}
		if now.State != ledger.Unknown || now.Reason != ledger.ReasonRestored || now.Effect != effect || !now.InDoubt ||
			now.Attempt != op.Attempt || now.Epoch != op.Epoch || now.ArgsHash != op.ArgsHash || now.Resolves != 0 || now.NextAttemptAt.After(now.UpdatedAt) {
			t.Errorf("%s: %+v", name, now)
		}
		if now.FirstSentAt.After(r.LostFrom) || now.LastSentAt.Before(r.LostUntil) || now.DoubtedAt.Before(r.LostUntil) {
			t.Errorf("%s may have been sent from %s until %s and is in doubt since %s, lost were %s until %s", name, now.FirstSentAt, now.LastSentAt, now.DoubtedAt, r.LostFrom, r.LostUntil)
		}
		if now.Review.Open() || op.Review.Open() && (now.Review.Decision != ledger.Cancelled || now.Review.DecidedBy != r.BegunBy) {
			t.Errorf("%s: its review is %+v", name, now.Review)
		}
		event := "doubt"
		if op.State == ledger.Unknown {
			event = "evidence"
		}
		events := db.Audit(t, op)
		if last := events[len(events)-1]; last.Event != event || last.From != op.State || last.To != ledger.Unknown || last.Actor != r.BegunBy || last.Sequence != now.Revision {
			t.Errorf("%s: the record ends with %+v", name, last)
		}
		for _, a := range now.Attempts {
			if a.EndedAt.IsZero() {
				t.Errorf("%s: attempt %d is open", name, a.Number)
			}
		}
	}
	if problems, _ := verified(t, store); len(problems) > 0 {
		t.Errorf("the record has problems %v", problems)
	}
	if due, err := store.LeaseUnknown(t.Context(), 10, time.Minute); err != nil || len(due) != len(open) {
		t.Errorf("%d are due to be looked into, %v; want %d", len(due), err, len(open))
	}
	counts, err := db.Open(t).RestoreCounts(t.Context(), time.Now().Add(-time.Hour))
	if err != nil || counts.InDoubt != int64(len(open)) || counts.WithPeople != 0 {
		t.Errorf("counts %+v, %v", counts, err)
	}
	begun, err := store.Events(t.Context(), ledger.AllTenants, ledger.EventFilter{}, ledger.EventPosition{}, 10)
	if err != nil || len(begun) != 1 || begun[0].Event != "restore_begin" || begun[0].Actor != r.BegunBy {
		t.Errorf("the record of the installation is %+v, %v", begun, err)
	}
}

// noReceipt is an operation that is known to be applied, and has no receipt.
func noReceipt(t *testing.T, store *postgres.Store) ledger.Operation {
	t.Helper()
	c := ledgertest.Change(inState(t, store, ledger.Running), ledger.Doubt)
	c.Effect, c.Reason = ledger.EffectApplied, "applied_no_receipt"
	op, err := store.Apply(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return ledgertest.Get(t, store, op)
}

// While a restore is in force nothing new is claimed, whatever was asked for.
func TestLaw02_RestoredLedgerClaimsNothing(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	r := lost()
	restored(t, db, r)
	store := db.Open(t)
	if err := store.SetKillSwitch(t.Context(), ledger.KillSwitch{Tenant: ledger.AllTenants, Provider: "fakepay", Reason: "to look", SetBy: "ann"}); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]ledger.Opening{
		"claim": ledgertest.Opening(acme), "record": ledgertest.Recorded(acme), "approval": ledgertest.Asked(acme),
		"holding": ledgertest.Fenced(ledgertest.Holding(ledgertest.Opening(acme), ledgertest.Charge("c", "5", "10")), "i"),
		"stopped": provided(acme, "fakepay"),
	} {
		op, created, err := store.Open(t.Context(), o)
		if err != nil || !created {
			t.Errorf("%s: created %v, %v", name, created, err)
			continue
		}
		if op.State != ledger.Unknown || op.LastEvent != ledger.Doubt || op.Reason != ledger.ReasonRestored || op.Attempt != 0 || op.Effect != ledger.EffectUnknown ||
			!op.FirstSentAt.Equal(r.LostFrom) || !op.LastSentAt.Equal(r.LostUntil) || op.RequestHash != nil {
			t.Errorf("%s is recorded as %+v", name, op)
		}
		if stored := ledgertest.Get(t, store, op); stored.Review != nil || len(stored.Attempts) != 0 || !sameOperation(stored, op) {
			t.Errorf("%s is\n%+v\nand was returned as\n%+v", name, stored, op)
		}
		o.Operation.ID = ledgertest.ID()
		if again, created, err := store.Open(t.Context(), o); err != nil || created || again.ID != op.ID {
			t.Errorf("%s again: %s, created %v, %v", name, again.ID, created, err)
		}
		o.Operation.ArgsHash = ledgertest.Hash("others")
		var reused *ledger.KeyReusedError
		if _, _, err := store.Open(t.Context(), o); !errors.As(err, &reused) {
			t.Errorf("%s with other arguments: %v", name, err)
		}
	}
	// A doubt holds as any other.
	var exhausted *ledger.BudgetExhaustedError
	if _, _, err := store.Open(t.Context(), ledgertest.Holding(ledgertest.Opening(acme), ledgertest.Charge("c", "6", "10"))); !errors.As(err, &exhausted) {
		t.Errorf("beyond the budget: %v", err)
	}
	var held *ledger.IntentHeldError
	if _, _, err := store.Open(t.Context(), ledgertest.Fenced(ledgertest.Opening(acme), "i")); !errors.As(err, &held) {
		t.Errorf("under an intent that is open: %v", err)
	}
	if n := db.Count(t, `SELECT count(*) FROM audit_events WHERE event = 'claim'`); n != 0 {
		t.Errorf("%d claims", n)
	}
	counts, err := store.RestoreCounts(t.Context(), r.LostUntil)
	if err != nil || counts.Recorded != 5 || counts.LastRecorded.IsZero() {
		t.Errorf("counts %+v, %v", counts, err)
	}
	doubt := ledgertest.Opening(acme)
	doubt.Event = ledger.Doubt
	if _, _, err := store.Open(t.Context(), doubt); !errors.Is(err, ledger.ErrIllegalMove) {
		t.Errorf("a doubt that the caller asks for: %v", err)
	}
}

// sameOperation compares what an opening returned with what is stored.
func sameOperation(stored, op ledger.Operation) bool {
	stored.Attempts, stored.Review, op.Attempts, op.Review = nil, nil, nil, nil
	return reflect.DeepEqual(stored, op)
}

// What is cleared goes on, the rest does not, and the next restore takes it back.
func TestRestoreClearances(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	owner := owned(t, db)
	const refunds, mails = "demo.refund.create", "demo.mail.send"
	for _, err := range []error{
		owner.ClearRestore(t.Context(), ledger.Clearance{Tenant: acme, Reason: "why", By: "ann"}), owner.EndRestore(t.Context(), "ann", "why"),
	} {
		wantError(t, "without a restore", err, ledger.ErrNotFound)
	}
	restored(t, db, lost())
	store := db.Open(t)
	want := func(when string, claimed ...string) {
		t.Helper()
		for _, tenant := range []string{acme, "globex"} {
			for _, actionType := range []string{refunds, mails} {
				o := ledgertest.Opening(tenant)
				o.Operation.ActionType = actionType
				op, created, err := store.Open(t.Context(), o)
				state := ledger.Unknown
				if slices.Contains(claimed, tenant+" "+actionType) {
					state = ledger.Running
				}
				if err != nil || !created || op.State != state {
					t.Errorf("%s: %s of %s is %s, %v; want %s", when, actionType, tenant, op.State, err, state)
				}
			}
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	want("begun")
	do(owner.ClearRestore(t.Context(), ledger.Clearance{Tenant: acme, ActionType: refunds, Reason: "none lost", By: "ann"}))
	want("one of one", "acme "+refunds)
	do(owner.ClearRestore(t.Context(), ledger.Clearance{ActionType: refunds, Reason: "none lost", By: "ann"}))
	want("one of all", "acme "+refunds, "globex "+refunds)
	do(owner.ClearRestore(t.Context(), ledger.Clearance{Tenant: "globex", Reason: "moved in since", By: "ann"}))
	do(owner.ClearRestore(t.Context(), ledger.Clearance{Tenant: "globex", Reason: "said twice", By: "ann"}))
	want("all of one", "acme "+refunds, "globex "+refunds, "globex "+mails)
	list, err := owner.Restores(t.Context(), true)
	if err != nil || len(list) != 1 || len(list[0].Clearances) != 3 || list[0].Clearances[2].Reason != "said twice" || !list[0].InForce() {
		t.Errorf("in force is %+v, %v", list, err)
	}
	for what, c := range map[string]ledger.Clearance{"everything": {Reason: "x"}, "all tenants": {Tenant: "*", Reason: "x"}, "no reason": {Tenant: acme}} {
		if err := owner.ClearRestore(t.Context(), c); err == nil {
			t.Errorf("%s was cleared", what)
		}
	}

	second := lost()
	if _, err := owner.BeginRestore(t.Context(), second); !errors.Is(err, ledger.ErrServing) {
		t.Errorf("begun while a service is connected: %v", err)
	}
	want("refused", "acme "+refunds, "globex "+refunds, "globex "+mails)
	store.Close()
	restored(t, db, second)
	store = db.Open(t)
	want("the second")
	do(owner.EndRestore(t.Context(), "ann", "callers retry for an hour at most"))
	wantError(t, "after the end", owner.ClearRestore(t.Context(), ledger.Clearance{Tenant: acme, Reason: "why", By: "ann"}), ledger.ErrNotFound)
	want("ended", "acme "+refunds, "acme "+mails, "globex "+refunds, "globex "+mails)
	if list, err := owner.Restores(t.Context(), false); err != nil || len(list) != 2 || list[0].InForce() || list[1].EndedBy != "ann" {
		t.Errorf("all are %+v, %v", list, err)
	}
	if list, err := owner.Restores(t.Context(), true); err != nil || len(list) != 0 {
		t.Errorf("in force is %+v, %v", list, err)
	}
}

// owned is a store with the owner's rights.
func owned(t *testing.T, db ledgertest.Database) *postgres.Store {
	t.Helper()
	store, err := postgres.Open(t.Context(), db.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// A correction of what failed before the restore may be among what was lost.
func TestRestoredLedgerTakesNoOldCorrections(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	before, err := postgres.Open(t.Context(), db.ServeURL)
	if err != nil {
		t.Fatal(err)
	}
	plain := inState(t, before, ledger.Failed)
	holding := ledgertest.Brought(t, before, ledgertest.Open(t, before, ledgertest.Holding(ledgertest.Opening(acme), ledgertest.Charge("c", "5", "10"))), ledger.Failed)
	noted := inState(t, before, ledger.Failed)
	before.Close()
	restored(t, db, lost())
	store, owner := db.Open(t), owned(t, db)
	// A provider says again what it had said, or something that proves nothing: it had
	// failed before all the same.
	noted, err = store.AddEvidence(t.Context(), ledger.Evidence{Operation: noted, Actor: "reconciler", Detail: "at work on it"})
	if err != nil {
		t.Fatal(err)
	}
	for what, op := range map[string]ledger.Operation{"plain": plain, "with holds": holding, "noted since": noted} {
		unchanged(t, db, op, what+": a correction", func() {
			var lost *ledger.RestoredError
			if _, err := ledgertest.Move(t.Context(), store, op, ledger.Correct); !errors.As(err, &lost) {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	// One that failed since is known.
	if err := owner.ClearRestore(t.Context(), ledger.Clearance{Tenant: "globex", Reason: "to get one that fails", By: "ann"}); err != nil {
		t.Fatal(err)
	}
	since := ledgertest.Moved(t, store, ledgertest.Open(t, store, ledgertest.Opening("globex")), ledger.Refuse)
	if corrected, err := ledgertest.Move(t.Context(), store, since, ledger.Correct); err != nil || corrected.State != ledger.Pending {
		t.Errorf("a correction of what failed since: %s, %v", corrected.State, err)
	}
	if err := owner.ClearRestore(t.Context(), ledger.Clearance{ActionType: plain.ActionType, Reason: "none lost", By: "ann"}); err != nil {
		t.Fatal(err)
	}
	if op, err := ledgertest.Move(t.Context(), store, holding, ledger.Correct); err != nil || op.State != ledger.Pending {
		t.Errorf("after it was cleared: %s, %v", op.State, err)
	}
	if err := owner.EndRestore(t.Context(), "ann", "it is over"); err != nil {
		t.Fatal(err)
	}
	if op, err := ledgertest.Move(t.Context(), store, plain, ledger.Correct); err != nil || op.State != ledger.Pending {
		t.Errorf("after the end: %s, %v", op.State, err)
	}
}

// The database refuses a doubt about what is not under way, unless it was restored.
func TestDoubtWithoutAnAttemptIsARestores(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	conn := db.Serve(t)
	for _, state := range []ledger.State{ledger.Pending, ledger.NeedsReview} {
		op := inState(t, store, state)
		unchanged(t, db, op, "a doubt", func() {
			wantRefused(t, string(state), update(t, conn, op, `status = 'unknown', last_event = 'doubt', effect = 'unknown', in_doubt = true, reason = 'ambiguous', revision = revision + 1`))
		})
	}
	op := inState(t, store, ledger.Pending)
	const birth = `INSERT INTO operations SELECT (r).* FROM (SELECT jsonb_populate_record(o, jsonb_build_object('id', gen_random_uuid(), 'idempotency_key', 'other',
		'status', 'unknown', 'last_event', 'doubt', 'effect', 'unknown', 'in_doubt', true, 'reason', $3::text)) AS r FROM operations o WHERE tenant_id = $1 AND id = $2::uuid) born`
	_, err := conn.Exec(t.Context(), birth, op.Tenant, op.ID, "ambiguous")
	wantRefused(t, "a birth", err)
	if _, err := conn.Exec(t.Context(), birth, op.Tenant, op.ID, ledger.ReasonRestored); err != nil {
		t.Errorf("a birth in a restored ledger: %v", err)
	}
}

func TestBeginRestoreRefusesWrongTimes(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	owner := owned(t, db)
	now := time.Now()
	for what, r := range map[string]ledger.Restore{
		"none":       {LostUntil: now},
		"turned":     {LostFrom: now, LostUntil: now.Add(-time.Hour)},
		"the future": {LostFrom: now, LostUntil: now.Add(time.Hour)},
	} {
		if _, err := owner.BeginRestore(t.Context(), r); err == nil {
			t.Errorf("%s: begun", what)
		}
	}
	if list, err := owner.Restores(t.Context(), false); err != nil || len(list) != 0 {
		t.Errorf("there are %+v, %v", list, err)
	}
}

// A program does not serve a schema that cannot say whether the ledger was restored.
func TestSchemaWithoutRestores(t *testing.T) {
	t.Parallel()
	db := ledgertest.At(t, pgtest.NewDatabase(t, ledgertest.Template()))
	db.Exec(t, `DROP TABLE restores CASCADE`)
	if _, err := postgres.Open(t.Context(), db.ServeURL); !errors.Is(err, postgres.ErrOldSchema) {
		t.Errorf("serving: %v", err)
	}
}

// The database itself holds it: whatever program asks, a restored doubt is neither
// sent again nor ended by a proof of absence.
func TestLaw04_RestoredDoubtEndsByAFindOrAPerson(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	restored(t, db, lost())
	store := db.Open(t)
	for _, event := range []ledger.Event{ledger.Defer, ledger.Refuse} {
		op := ledgertest.Leased(t, store, ledgertest.Open(t, store, ledgertest.Opening(acme)))
		_, err := ledgertest.Move(t.Context(), store, op, event)
		wantError(t, string(event)+" of a restored doubt", err, ledger.ErrIllegalMove)
	}
	for _, event := range []ledger.Event{ledger.Confirm, ledger.Escalate} {
		op := ledgertest.Leased(t, store, ledgertest.Open(t, store, ledgertest.Opening(acme)))
		if _, err := ledgertest.Move(t.Context(), store, op, event); err != nil {
			t.Errorf("%s of a restored doubt: %v", event, err)
		}
	}
}
