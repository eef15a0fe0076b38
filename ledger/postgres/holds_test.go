package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// wantExhausted checks that an opening was refused for a budget, and returns how
// it is used.
func wantExhausted(t *testing.T, err error, used string) ledger.BudgetUse {
	t.Helper()
	var exhausted *ledger.BudgetExhaustedError
	if !errors.As(err, &exhausted) {
		t.Fatalf("error %v, want a budget that is exhausted", err)
	}
	if exhausted.Use.Used != used {
		t.Errorf("used %s, want %s", exhausted.Use.Used, used)
	}
	return exhausted.Use
}

// wantHeld checks that an opening was refused for an intent that holder holds.
func wantHeld(t *testing.T, err error, intent string, holder ledger.Operation) ledger.IntentHeldError {
	t.Helper()
	var held *ledger.IntentHeldError
	if !errors.As(err, &held) {
		t.Fatalf("error %v, want an intent that is held", err)
	}
	if held.Intent != intent || held.Holder.ID != holder.ID || held.Holder.State != holder.State {
		t.Errorf("intent %s is held by %s (%s), want %s by %s (%s)", held.Intent, held.Holder.ID, held.Holder.State, intent, holder.ID, holder.State)
	}
	return *held
}

// wantCounted checks what a counter holds.
func wantCounted(t *testing.T, db ledgertest.Database, counter, want, when string) {
	t.Helper()
	if got := db.Counted(t, acme, counter); got != want {
		t.Errorf("%s: %s holds %s, want %s", when, counter, got, want)
	}
}

// refusedOpen opens an operation that must be refused, by a transaction and then by
// reading, and checks that nothing of it is left.
func refusedOpen(t *testing.T, store *postgres.Store, db ledgertest.Database, o ledger.Opening) error {
	t.Helper()
	store.ForgetRefusals()
	op, created, err := store.Open(t.Context(), o)
	if err == nil || created {
		t.Fatalf("opened %+v, created %v; want it refused", op, created)
	}
	if _, _, again := store.Open(t.Context(), o); again == nil || again.Error() != err.Error() {
		t.Errorf("refused with %v, and then with %v", err, again)
	}
	if left := everything(t, db, o.Operation); left != "nothing" {
		t.Errorf("a refused opening left %s", left)
	}
	if n := db.Count(t, `SELECT count(*) FROM holds WHERE operation_id = $1::uuid`, o.Operation.ID); n != 0 {
		t.Errorf("a refused opening left %d rows of holds", n)
	}
	return err
}

// What is held stays held as long as the outcome is open, is given back when it
// failed and nowhere else, and once.
func TestChargesFollowTheOperation(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	use, open, rate := ledgertest.Charge("use", "12.50", "100"), ledgertest.Charge("open", "1", "100"), ledgertest.Charge("rate", "1", "100")
	open.Kind, rate.Kind = ledger.ChargeOpen, ledger.ChargeRate
	counted := func(when, wantUse, wantOpen, wantRate string) {
		t.Helper()
		wantCounted(t, db, "use", wantUse, when)
		wantCounted(t, db, "open", wantOpen, when)
		wantCounted(t, db, "rate", wantRate, when)
	}
	op := ledgertest.Open(t, store, ledgertest.Holding(ledgertest.Opening(acme), use, open, rate))
	counted("running", "12.50", "1", "1")
	op = ledgertest.Moved(t, store, op, ledger.Doubt)
	counted("unknown", "12.50", "1", "1")
	op = ledgertest.Moved(t, store, op, ledger.Escalate)
	counted("in review", "12.50", "1", "1")
	stale := op
	op = ledgertest.Moved(t, store, op, ledger.Refuse)
	counted("failed", "0", "0", "1")
	if _, err := store.Apply(t.Context(), ledgertest.Change(stale, ledger.Refuse)); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("refused twice: %v", err)
	}
	counted("failed, and refused again", "0", "0", "1")
	op = ledgertest.Moved(t, store, op, ledger.Contradict)
	counted("contradicted", "12.50", "1", "1")
	ledgertest.Moved(t, store, op, ledger.Confirm)
	counted("succeeded after all", "12.50", "0", "1")

	for _, end := range []ledger.Event{ledger.Cancel, ledger.Expire, ledger.Reject} {
		asked := ledgertest.Open(t, store, ledgertest.Holding(ledgertest.Asked(acme), use, open, rate))
		ledgertest.Moved(t, store, asked, end)
	}
	counted("three that nobody approved", "12.50", "0", "4")
	// By a statement of its own effect, in its transaction.
	op = ledgertest.Open(t, store, ledgertest.Holding(ledgertest.Opening(acme), use, open, rate))
	c := ledgertest.Change(op, ledger.Confirm)
	c.Write = &ledger.Write{SQL: `SELECT 'w_1', '{"id":"w_1"}'::json::text`}
	if _, err := store.Apply(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	counted("succeeded with a write", "25.00", "0", "5")
}

// More than the limit is in a counter only where an effect turned up that it was
// given back for.
func TestContradictionTakesItsChargeBackByForce(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	charge := ledgertest.Charge("spend", "60", "100")
	first := ledgertest.Open(t, store, ledgertest.Holding(ledgertest.Opening(acme), charge))
	first = ledgertest.Moved(t, store, first, ledger.Refuse)
	second := ledgertest.Open(t, store, ledgertest.Holding(ledgertest.Opening(acme), charge))
	first = ledgertest.Moved(t, store, first, ledger.Contradict)
	wantCounted(t, db, "spend", "120", "both")
	ledgertest.Moved(t, store, second, ledger.Confirm)
	wantExhausted(t, refusedOpen(t, store, db, ledgertest.Holding(ledgertest.Opening(acme), ledgertest.Charge("spend", "0.01", "100"))), "120")
	ledgertest.Moved(t, store, first, ledger.Confirm)
	wantCounted(t, db, "spend", "120", "both succeeded")
}

// A key that is taken answers from the ledger, whatever the budget says, and
// costs nothing.
func TestDuplicatesCostNothing(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	o := ledgertest.Holding(ledgertest.Opening(acme), ledgertest.Charge("calls", "1", "1"))
	first := ledgertest.Open(t, store, o)
	again := o
	again.Operation.ID = ledgertest.ID()
	for _, duplicate := range []ledger.Opening{o, again} {
		op, created, err := store.Open(t.Context(), duplicate)
		if err != nil || created || op.ID != first.ID {
			t.Errorf("a duplicate: %s, created %v, %v", op.ID, created, err)
		}
	}
	again.Operation.ArgsHash = ledgertest.Hash("others")
	var reused *ledger.KeyReusedError
	if _, _, err := store.Open(t.Context(), again); !errors.As(err, &reused) {
		t.Errorf("other arguments: %v", err)
	}
	wantCounted(t, db, "calls", "1", "after duplicates")
}

func TestCorrectionTakesHoldsAnew(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	failed := ledgertest.Open(t, store, ledgertest.Fenced(ledgertest.Holding(ledgertest.Opening(acme), ledgertest.Charge("spend", "100", "100")), "order"))
	failed = ledgertest.Moved(t, store, failed, ledger.Refuse)
	other := ledgertest.Open(t, store, ledgertest.Fenced(ledgertest.Holding(ledgertest.Opening(acme), ledgertest.Charge("spend", "40", "100")), "order"))

	correction := ledgertest.Holding(ledgertest.Opening(acme), ledgertest.Charge("spend", "60.01", "100"))
	correction.Operation.ArgsHash = ledgertest.Hash("corrected")
	unchanged(t, db, failed, "a correction that is refused", func() {
		_, err := store.Correct(t.Context(), failed, correction)
		wantExhausted(t, err, "40")
		fenced := ledgertest.Fenced(correction, "order")
		fenced.Holds.Charges = nil
		_, err = store.Correct(t.Context(), failed, fenced)
		wantHeld(t, err, "order", other)
		correction.Operation.Tenant = "nobody's business"
	})
	wantCounted(t, db, "spend", "40", "after refused corrections")

	correction.Holds.Charges[0].Amount = "60"
	correction.Operation.MaxAttempts, correction.GiveUp = 7, time.Hour
	corrected, err := store.Correct(t.Context(), failed, correction)
	if err != nil || corrected.State != ledger.Pending || !corrected.Held || corrected.MaxAttempts != 7 || time.Until(corrected.GiveUpAt) < 59*time.Minute {
		t.Fatalf("corrected %+v, %v", corrected, err)
	}
	wantCounted(t, db, "spend", "100", "corrected")
	if _, err := store.Correct(t.Context(), failed, correction); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("corrected twice: %v", err)
	}
	wantCounted(t, db, "spend", "100", "corrected twice")
	ledgertest.Brought(t, store, corrected, ledger.Failed)
	wantCounted(t, db, "spend", "40", "the correction failed")

	// Holds that a first request did not have, and none where it had some.
	bare := ledgertest.InState(t, store, acme, ledger.Failed)
	bare, err = store.Correct(t.Context(), bare, correction)
	if err != nil || !bare.Held {
		t.Fatalf("%+v, %v", bare, err)
	}
	wantCounted(t, db, "spend", "100", "corrected with holds")
	bare = ledgertest.Brought(t, store, bare, ledger.Failed)
	correction.Holds = ledger.Holds{}
	correction.Operation.ArgsHash = ledgertest.Hash("corrected again")
	bare, err = store.Correct(t.Context(), bare, correction)
	if err != nil {
		t.Fatal(err)
	}
	ledgertest.Brought(t, store, bare, ledger.Succeeded)
	wantCounted(t, db, "spend", "40", "corrected without holds")
}

// Operations without holds are written by the statements that they always were.
func TestOperationsWithoutHoldsPayNothing(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	op := ledgertest.Open(t, store, ledgertest.Opening(acme))
	if op.Held {
		t.Error("an operation without holds has some")
	}
	ledgertest.Moved(t, store, op, ledger.Confirm)
	if n := postgres.HoldStatements(ledgertest.Opening(acme), ledgertest.Change(op, ledger.Confirm)); n != 0 {
		t.Errorf("%d statements for holds", n)
	}
	holding := ledgertest.Holding(ledgertest.Opening(acme), ledgertest.Charge("c", "1", "9"))
	op.Held = true
	for event, want := range map[ledger.Event]int{ledger.Confirm: 1, ledger.Refuse: 1, ledger.Doubt: 0, ledger.Defer: 0} {
		if n := postgres.HoldStatements(ledgertest.Opening(acme), ledgertest.Change(op, event)); n != want {
			t.Errorf("%s of an operation with holds: %d statements, want %d", event, n, want)
		}
	}
	if n := postgres.HoldStatements(holding, ledgertest.Change(op, ledger.Confirm)); n != 1 {
		t.Errorf("%d statements for two writes with holds, want one", n)
	}
	if n := db.Count(t, `SELECT (SELECT count(*) FROM holds) + (SELECT count(*) FROM budget_counters)`); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestBoundsOfAnOperationAreStored(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	o := ledgertest.Opening(acme)
	o.Operation.MaxAttempts, o.GiveUp = 3, 90*time.Minute
	op, _, err := store.Open(t.Context(), o)
	if err != nil || op.MaxAttempts != 3 || !op.GiveUpAt.Equal(op.CreatedAt.Add(90*time.Minute)) {
		t.Fatalf("%+v, %v", op, err)
	}
	if got := ledgertest.Get(t, store, op); got.MaxAttempts != 3 || !got.GiveUpAt.Equal(op.GiveUpAt) {
		t.Errorf("stored %d and %v", got.MaxAttempts, got.GiveUpAt)
	}
}
