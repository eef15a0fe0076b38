package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// Whoever writes to the ledger does it at once: three replicas that record, settle,
// correct and contradict, people who vote, and all that runs in the background.
// Nobody deadlocks, and in the end counters and intents are those of the rows of
// holds.
func TestAllWhoWriteAtOnce(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	db.Tenant(t, acme)
	stores := []*postgres.Store{db.Open(t), db.Open(t), db.Open(t)}
	owner := db.Owner(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var background, planners sync.WaitGroup
	var swept atomic.Int64
	again := func(what string, do func() error) {
		background.Go(func() {
			for ctx.Err() == nil {
				if err := do(); err != nil && ctx.Err() == nil {
					t.Errorf("%s: %v", what, err)
					return
				}
			}
		})
	}
	other := killSwitch(acme, "demo.other", "")
	again("kill switch", func() error {
		return errors.Join(stores[0].SetKillSwitch(ctx, other), stores[1].ClearKillSwitch(ctx, other))
	})
	again("sweep", func() error {
		// Failed ones go; counters look due. One that succeeds after all does not: what
		// it used is counted when its row of holds is gone, and could not be compared.
		_, err1 := owner.Exec(ctx, endWindows)
		_, err2 := owner.Exec(ctx, `UPDATE budget_counters SET sweep_at = now() - interval '1 hour'
			WHERE counter = (SELECT counter FROM budget_counters ORDER BY random() LIMIT 1)`)
		_, gone, _, err3 := stores[1].Sweep(ctx, 20)
		swept.Add(gone)
		return errors.Join(err1, err2, err3)
	})
	again("leases", func() error {
		_, _, err1 := stores[2].ExpireLeases(ctx, 5)
		_, err2 := stores[0].LeaseUnknown(ctx, 3, time.Millisecond)
		return errors.Join(err1, err2)
	})
	again("refusals", func() error { return stores[2].Deny(ctx, denial(acme)) })
	for p := range 24 {
		planners.Go(func() {
			random, store := rand.New(rand.NewPCG(uint64(p), 1)), stores[p%3]
			for range 12 {
				if err := planner(ctx, store, random); err != nil {
					t.Errorf("planner %d: %v", p, err)
					return
				}
			}
		})
	}
	planners.Wait()
	stop()
	background.Wait()
	if n := db.Count(t, `SELECT count(DISTINCT event) FROM audit_events`); n < 14 {
		t.Errorf("only %d kinds of events happened", n)
	}
	if swept.Load() == 0 {
		t.Error("no operation was removed")
	}
	if n := db.Count(t, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
	if n := db.Count(t, `SELECT count(*) FROM budget_counters c WHERE held <> (
			SELECT coalesce(sum(a.amount), 0) FROM holds h, unnest(h.counters, h.amounts) AS a (counter, amount)
			WHERE h.tenant_id = c.tenant_id AND h.state = 'held' AND a.counter = c.counter)
		OR (SELECT coalesce(sum(a), 0) FROM unnest(c.amounts) AS a) <> (
			SELECT coalesce(sum(a.amount), 0) FROM holds h, unnest(h.counters, h.amounts) AS a (counter, amount)
			WHERE h.tenant_id = c.tenant_id AND h.state = 'spent' AND a.counter = c.counter)`); n != 0 {
		t.Errorf("%d counters do not count what is held and used", n)
	}
	if n := db.Count(t, `SELECT count(*) FROM holds h JOIN operations o ON o.tenant_id = h.tenant_id AND o.id = h.operation_id
		WHERE h.state <> CASE o.status WHEN 'succeeded' THEN 'spent' WHEN 'failed' THEN 'released' ELSE 'held' END`); n != 0 {
		t.Errorf("%d rows of holds are not in line with their operations", n)
	}
	if n := db.Count(t, `SELECT count(*) FROM holds h, unnest(h.intents) AS f (intent) WHERE h.state = 'held'
		AND NOT EXISTS (SELECT FROM intents i WHERE i.tenant_id = h.tenant_id AND i.intent = f.intent AND i.quiet_until IS NULL)`); n != 0 {
		t.Errorf("%d intents of open operations are not closed", n)
	}
	if n := db.Count(t, `SELECT count(*) FROM intents i WHERE i.quiet_until IS NULL AND NOT EXISTS (
		SELECT FROM holds h WHERE h.tenant_id = i.tenant_id AND h.operation_id = i.operation_id AND h.state = 'held')`); n != 0 {
		t.Errorf("%d intents are held by nobody who is open", n)
	}
}

// endWindows ends the windows of some failed operations. The guard refuses that to
// everybody who cannot switch triggers off.
const endWindows = `
	SET session_replication_role = replica;
	UPDATE operations SET sweep_at = now() - interval '1 hour', window_ends_at = now() - interval '1 hour', revision = revision + 1
	WHERE (tenant_id, idempotency_key) IN (
		SELECT tenant_id, idempotency_key FROM operations WHERE status = 'failed' AND random() < 0.1 FOR UPDATE SKIP LOCKED)`

// planner opens an operation and makes some moves of it, as far as it may.
func planner(ctx context.Context, store *postgres.Store, random *rand.Rand) error {
	holds := func() (h ledger.Holds) {
		for _, n := range random.Perm(4)[:1+random.IntN(3)] {
			h.Charges = append(h.Charges, ledgertest.Charge(fmt.Sprint("counter ", n), fmt.Sprint(1+random.IntN(5)), "400"))
		}
		for _, n := range random.Perm(40)[:random.IntN(3)] {
			h.Fences = append(h.Fences, ledger.Fence{Intent: fmt.Sprint("intent ", n)})
		}
		return h
	}
	o := ledgertest.Opening(acme)
	if random.IntN(4) == 0 {
		o = ledgertest.Asked(acme)
		o.Review.ExpiresIn, o.Review.PolicyVersion = time.Hour, "1-a"
	}
	o.ExpiredKeyReuse = true
	o.Holds = holds()
	op, _, err := store.Open(ctx, o)
	for range 5 {
		var exhausted *ledger.BudgetExhaustedError
		var held *ledger.IntentHeldError
		switch {
		case errors.As(err, &exhausted), errors.As(err, &held), errors.Is(err, ledger.ErrFenced), errors.Is(err, ledger.ErrNotFound):
			return nil
		case err != nil:
			return err
		}
		events := map[ledger.State][]ledger.Event{
			ledger.Pending: {ledger.Claim, ledger.Cancel},
			ledger.Running: {ledger.Confirm, ledger.Refuse, ledger.Defer, ledger.Doubt},
			ledger.Unknown: {ledger.Confirm, ledger.Refuse, ledger.Escalate},
			ledger.Failed:  {ledger.Contradict, ledger.Correct},
		}[op.State]
		switch {
		case op.State == ledger.NeedsReview && op.LastEvent == ledger.Contradict:
			events = []ledger.Event{ledger.Confirm, ledger.Refuse}
		case op.State == ledger.NeedsReview:
			events = []ledger.Event{ledger.Confirm, ledger.Refuse, ledger.Reject}
		case op.State == ledger.Failed && op.Effect != ledger.EffectNotApplied:
			events = events[:1]
		case op.State == ledger.Succeeded:
			return nil
		}
		op, err = store.Get(ctx, acme, op.ID)
		if err != nil {
			continue
		}
		if r := op.Review; r.Open() && r.Reason == ledger.ApprovalRequired {
			_, err1 := store.Rebind(ctx, acme, r.ID, fmt.Sprint(random.IntN(2)), 1, "another policy")
			_, err2 := store.AddApproval(ctx, acme, r.ID, ledger.Approval{By: "ann", PolicyVersion: "1"})
			if err := errors.Join(err1, err2); err != nil && !errors.Is(err, ledger.ErrFenced) && !errors.Is(err, ledger.ErrAlreadyVoted) {
				return err
			}
			op, err = store.Get(ctx, acme, op.ID)
			if err != nil {
				continue
			}
		}
		switch event := events[random.IntN(len(events))]; event {
		case ledger.Correct:
			c := ledgertest.Opening(acme)
			c.Operation.ArgsHash, c.Holds = ledgertest.Hash(c.Operation.ID), holds()
			op, err = store.Correct(ctx, op, c)
		default:
			op, err = ledgertest.Move(ctx, store, op, event)
		}
		if err == nil && random.IntN(3) == 0 {
			_, evidence := store.AddEvidence(ctx, ledger.Evidence{Operation: op, Attempt: op.Attempt, Actor: "worker", Detail: "late"})
			if evidence != nil && !errors.Is(evidence, ledger.ErrFenced) && !errors.Is(evidence, ledger.ErrNotFound) {
				return evidence
			}
		}
	}
	return nil
}
