package reconciler

import (
	"context"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/ledger"
)

// stoppedDesk is a desk at which every attempt is refused, by a kill switch unless
// something else is named.
type stoppedDesk struct {
	desk
	attempts int
	why      error
}

func (d *stoppedDesk) Attempt(context.Context, ledger.Operation, ledger.Event, string) (ledger.Operation, error) {
	d.attempts++
	if d.why != nil {
		return ledger.Operation{}, d.why
	}
	return ledger.Operation{}, &ledger.StoppedError{Switch: ledger.KillSwitch{Reason: "it runs wild"}}
}

func stoppedRepair(b *book, action *actions.Action) (*Reconciler, *stoppedDesk) {
	d := &stoppedDesk{desk: desk{action: action}}
	r := repairing(b, &d.desk)
	r.Dispatcher = d
	return r, d
}

// A stopped attempt is put off: nobody is asked, and no try is used up.
func TestStoppedPendingOperationWaits(t *testing.T) {
	t.Parallel()
	b := &book{}
	r, _ := stoppedRepair(b, &actions.Action{})
	op := ledger.Operation{ID: "op_1", State: ledger.Pending, Reason: "absent"}
	if err := r.retry(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	if len(b.changes) != 0 || len(b.postponed) != 1 || b.postponed[0].Delay != 30*time.Second || b.postponed[0].Reason != "absent" {
		t.Errorf("changed %+v, postponed %+v", b.changes, b.postponed)
	}
}

// A doubt that a replay would resolve is looked up instead where it can be, and
// waits where it cannot.
func TestHeldBackDoubtIsLookedUpOrWaits(t *testing.T) {
	t.Parallel()
	spec := actions.Spec{}
	spec.Contract.Keys = actions.KeyRules{Honoured: true, Window: 24 * time.Hour}
	spec = spec.WithDefaults()
	replayable := func(resolves int) ledger.Operation {
		return unknown(func(o *ledger.Operation) { o.KeyHorizon, o.Resolves = now.Add(time.Hour), resolves })
	}
	found := finds{finding: actions.Finding{Kind: actions.Found, Receipt: actions.Receipt{Reference: "re_1"}}}
	spent := &dispatch.RetryBudgetError{Provider: "pay", RetryAfter: 4 * time.Second}
	away := &dispatch.ProviderOpenError{Provider: "pay", RetryAfter: 7 * time.Second}
	canLook := &actions.Action{Spec: spec, Adapter: found}
	for name, test := range map[string]struct {
		action  *actions.Action
		op      ledger.Operation
		why     error // of the refusal; nil: a kill switch
		confirm bool
		delay   time.Duration // where it waits
	}{
		"a look-up finds it":                     {canLook, replayable(1), nil, true, 0},
		"no look-up":                             {&actions.Action{Spec: spec}, replayable(1), nil, false, 30 * time.Second},
		"the last try is kept":                   {canLook, replayable(spec.MaxResolves), nil, false, 30 * time.Second},
		"no retry is left: a look-up finds it":   {canLook, replayable(1), spent, true, 0},
		"no retry is left, no look-up":           {&actions.Action{Spec: spec}, replayable(1), spent, false, 4 * time.Second},
		"no retry is left: the last try is kept": {canLook, replayable(spec.MaxResolves), spent, false, 4 * time.Second},
		"a provider that is away is not asked":   {canLook, replayable(1), away, false, 7 * time.Second},
	} {
		b := &book{}
		r, d := stoppedRepair(b, test.action)
		d.why = test.why
		test.op.LeaseExpiresAt = now.Add(r.Lease)
		if err := r.resolve(t.Context(), test.op); err != nil {
			t.Fatal(err)
		}
		switch {
		case d.attempts != 1:
			t.Errorf("%s: %d replays were tried", name, d.attempts)
		case test.confirm:
			if len(b.changes) != 1 || b.changes[0].Event != ledger.Confirm || len(b.postponed) != 0 {
				t.Errorf("%s: changed %+v, postponed %+v", name, b.changes, b.postponed)
			}
		case len(b.changes) != 0 || len(b.postponed) != 1 || !b.postponed[0].Untried || b.postponed[0].Delay != test.delay:
			t.Errorf("%s: changed %+v, postponed %+v", name, b.changes, b.postponed)
		}
	}
}

// What as many approved as must is moved in all their names.
func TestApprovedReviewIsFinished(t *testing.T) {
	t.Parallel()
	b := &book{}
	r := repairing(b, &desk{})
	op := ledger.Operation{ID: "op_1", State: ledger.NeedsReview, Effect: ledger.EffectNone, Revision: 3,
		Review: &ledger.Review{ID: "rv_1", RequiredApprovals: 2, Approvals: []ledger.Approval{{By: "ann"}, {By: "bob"}}}}
	if err := r.approved(t.Context(), op); err != nil || len(b.changes) != 1 {
		t.Fatalf("%v, changes %+v", err, b.changes)
	}
	c := b.changes[0]
	if c.Event != ledger.Approve || c.Effect != ledger.EffectNone || c.Decision == nil || c.Decision.ReviewID != "rv_1" ||
		c.Decision.Decision != ledger.Approved || c.Decision.By != "ann, bob" || c.Actor != "reconciler" || c.Operation.Revision != 3 {
		t.Errorf("moved by %+v, decided as %+v", c, c.Decision)
	}
}
