package reconciler

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/ledger"
)

func TestWeighingAnEvent(t *testing.T) {
	t.Parallel()
	fake := ledger.Operation{ID: "op_1", ActionType: "fake.thing", State: ledger.Unknown, Revision: 3}
	twin, other, strange := fake, fake, fake
	twin.ID, other.ID, other.ActionType, strange.ID, strange.ActionType = "op_2", "op_3", "other.thing", "op_4", "strange.thing"
	finished := fake
	finished.State = ledger.Failed
	recorded := fake
	recorded.State, recorded.Revision = ledger.Succeeded, 4

	byID := ledger.InboxEvent{Tenant: "acme", Provider: "fakepay", ID: "evt_1", OperationID: "op_1", Outcome: "applied", Looks: 1}
	byReference := ledger.InboxEvent{Tenant: "acme", Provider: "fakepay", ID: "evt_1", Reference: "re_1", Outcome: "applied", Looks: 1}
	old := byReference
	old.Age = strangerPatience

	for name, test := range map[string]struct {
		event    ledger.InboxEvent
		op       ledger.Operation // that Get finds
		missing  error            // or this
		named    []ledger.Operation
		answer   error // of the report
		reports  int
		note     string
		postpone time.Duration
		fails    bool
	}{
		"recorded":                 {event: byID, op: fake, reports: 1, note: "recorded: the operation is succeeded"},
		"no such operation":        {event: byID, missing: ledger.ErrNotFound, note: "no such operation"},
		"ledger away":              {event: byID, missing: ledger.ErrUnavailable, fails: true},
		"attempt under way":        {event: byID, op: fake, answer: dispatch.ErrNotYet, reports: 1, postpone: firstEventGap},
		"kept moving":              {event: byID, op: fake, answer: ledger.ErrFenced, reports: 1, postpone: firstEventGap},
		"of another provider":      {event: byID, op: fake, answer: dispatch.ErrOtherProvider, reports: 1, note: "the operation is on another provider"},
		"no adapter":               {event: byID, op: fake, answer: dispatch.ErrNoAdapter, reports: 1, postpone: notHereGap},
		"no adapter, and finished": {event: byID, op: finished, answer: dispatch.ErrNoAdapter, reports: 1, note: "the operation is failed and its adapter is not here"},
		"swept meanwhile":          {event: byID, op: fake, answer: ledger.ErrNotFound, reports: 1, note: "the operation is gone"},
		"ledger away in the end":   {event: byID, op: fake, answer: ledger.ErrUnavailable, reports: 1, fails: true},
		"by reference":             {event: byReference, named: []ledger.Operation{other, fake}, reports: 1, note: "recorded: the operation is succeeded"},
		"reference of two":         {event: byReference, named: []ledger.Operation{fake, twin}, note: "2 operations have this reference"},
		"reference elsewhere":      {event: byReference, named: []ledger.Operation{other}, postpone: firstEventGap},
		"reference of a stranger":  {event: byReference, named: []ledger.Operation{strange}, postpone: notHereGap},
		"no reference yet":         {event: byReference, postpone: firstEventGap},
		"no reference ever":        {event: old, note: "no operation in doubt has this reference"},
	} {
		b := &book{get: func(tenant, id string) (ledger.Operation, error) {
			if tenant != "acme" || id != "op_1" {
				t.Errorf("%s: read %s of %s", name, id, tenant)
			}
			return test.op, test.missing
		}}
		d := &desk{report: func(op ledger.Operation, r dispatch.Report) (ledger.Operation, error) {
			if r.Provider != "fakepay" || r.Event.ID != "evt_1" || r.Event.Outcome.Kind != actions.Applied || r.Actor != "webhook" {
				t.Errorf("%s: reported %+v", name, r)
			}
			if test.answer != nil {
				return op, test.answer
			}
			return recorded, nil
		}}
		err := repairing(b, d).weigh(t.Context(), test.event, test.named)
		if (err != nil) != test.fails {
			t.Errorf("%s: %v", name, err)
		}
		if len(d.reported) != test.reports || test.reports > 0 && d.reported[0] != "op_1" {
			t.Errorf("%s: reported to %v, want %d", name, d.reported, test.reports)
		}
		var note string
		var delay time.Duration
		if len(b.notes) > 0 {
			note = b.notes[0]
		}
		if len(b.delays) > 0 {
			delay = b.delays[0]
		}
		if note != test.note || delay != test.postpone || len(b.notes)+len(b.delays) > 1 {
			t.Errorf("%s: closed %v, postponed %v; want %q, %s", name, b.notes, b.delays, test.note, test.postpone)
		}
	}
}

func TestEventGapGrowsAndIsBounded(t *testing.T) {
	t.Parallel()
	last := time.Duration(0)
	for looks := range 100 {
		gap := eventGap(looks, maxEventGap)
		if gap < last || gap <= 0 || gap > maxEventGap {
			t.Fatalf("look %d: %s after %s", looks, gap, last)
		}
		last = gap
	}
	if last != maxEventGap {
		t.Errorf("ends at %s", last)
	}
}

// What the ledger holds means the same to dispatch; what it should not hold means
// nothing.
func TestEventOf(t *testing.T) {
	t.Parallel()
	e := eventOf(ledger.InboxEvent{
		ID: "evt_1", OperationID: "op_1", Reference: "re_1", Outcome: "rejected", Detail: "seen",
		Failure: &ledger.Failure{Code: "declined", Message: "Declined.", Correctable: true, Violations: []ledger.Violation{{Field: "card", Reason: "X", Message: "m"}}},
	})
	f := e.Outcome.Failure
	if e.ID != "evt_1" || e.OperationID != "op_1" || e.Reference != "re_1" || e.Detail != "seen" || e.Outcome.Kind != actions.Rejected ||
		f.Code != "declined" || f.Message != "Declined." || !f.Correctable || len(f.Violations) != 1 || f.Violations[0] != (actions.Violation{Field: "card", Reason: "X", Message: "m"}) {
		t.Errorf("event is %+v", e)
	}
	for outcome, want := range map[string]actions.Kind{
		"applied": actions.Applied, "applied_no_receipt": actions.AppliedNoReceipt, "accepted": actions.Accepted,
		"not_applied": actions.Ambiguous, "": actions.Ambiguous, "invalid": actions.Ambiguous,
	} {
		if got := kindOf(outcome); got != want {
			t.Errorf("%q is %s, want %s", outcome, got, want)
		}
	}
}

// deafBook is a ledger whose schema has no inbox.
type deafBook struct {
	Ledger
	asked int
}

func (b *deafBook) LeaseEvents(context.Context, int, time.Duration) ([]ledger.InboxEvent, error) {
	b.asked++
	return nil, ledger.ErrNoInbox
}

func (b *deafBook) SweepEvents(context.Context, int, time.Duration) (int64, error) {
	return 0, ledger.ErrNoInbox
}

// A schema without an inbox is asked once in a while, and is no error.
func TestNoInboxIsAskedForOnceInAWhile(t *testing.T) {
	t.Parallel()
	b := &deafBook{}
	failing := slog.New(slog.NewTextHandler(failOnWrite{t}, nil))
	r := New(Options{Ledger: b, Dispatcher: &desk{}, Log: failing})
	for range 3 {
		if more, _ := r.hear(t.Context(), nil); more {
			t.Error("more is due of nothing")
		}
	}
	r.sweepEvents(t.Context())
	if b.asked != 1 {
		t.Errorf("asked %d times", b.asked)
	}
}

type failOnWrite struct{ t *testing.T }

func (f failOnWrite) Write(line []byte) (int, error) {
	f.t.Errorf("logged %s", line)
	return len(line), errors.New("not wanted")
}
