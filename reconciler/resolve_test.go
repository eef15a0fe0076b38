package reconciler

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/ledger"
)

// book is a ledger that remembers what it was asked to write.
type book struct {
	Ledger
	changes   []ledger.Change
	postponed []ledger.Postponement
	fenced    bool // somebody else is always faster
	ended     int  // watches

	get    func(tenant, id string) (ledger.Operation, error)
	notes  []string        // of closed events
	delays []time.Duration // of postponed events
}

func (b *book) Apply(_ context.Context, c ledger.Change) (ledger.Operation, error) {
	b.changes = append(b.changes, c)
	if b.fenced {
		return ledger.Operation{}, ledger.ErrFenced
	}
	return c.Operation, nil
}

func (b *book) Postpone(_ context.Context, p ledger.Postponement) (ledger.Operation, error) {
	b.postponed = append(b.postponed, p)
	return p.Operation, nil
}

func (b *book) EndWatch(context.Context, ledger.Operation) error {
	b.ended++
	return nil
}

func (b *book) Get(_ context.Context, tenant, id string) (ledger.Operation, error) {
	return b.get(tenant, id)
}

func (b *book) CloseEvent(_ context.Context, _ ledger.InboxEvent, note string) error {
	b.notes = append(b.notes, note)
	return nil
}

func (b *book) PostponeEvent(_ context.Context, _ ledger.InboxEvent, delay time.Duration) error {
	b.delays = append(b.delays, delay)
	return nil
}

// desk is a dispatcher with one adapter, of the provider "fakepay".
type desk struct {
	Dispatcher
	action   *actions.Action
	report   func(op ledger.Operation, r dispatch.Report) (ledger.Operation, error)
	reported []string // ids
}

func (d *desk) Reload(context.Context, ledger.Operation) (*actions.Action, actions.Arguments, error) {
	return d.action, actions.Arguments{}, nil
}
func (d *desk) Call(ledger.Operation, actions.Arguments) actions.Call { return actions.Call{} }
func (d *desk) Lease(actions.Spec) time.Duration                      { return time.Minute }

func (d *desk) Provider(op ledger.Operation) (string, bool) {
	switch op.ActionType {
	case "fake.thing":
		return "fakepay", true
	case "other.thing":
		return "otherpay", true
	}
	return "", false
}

func (d *desk) Report(_ context.Context, op ledger.Operation, r dispatch.Report) (ledger.Operation, error) {
	d.reported = append(d.reported, op.ID)
	return d.report(op, r)
}

// finds is an adapter whose look-up finds what is told.
type finds struct {
	actions.Adapter
	finding actions.Finding
}

func (f finds) Lookup(context.Context, actions.Query) actions.Finding { return f.finding }

func repairing(b *book, d *desk) *Reconciler {
	return New(Options{Ledger: b, Dispatcher: d, Log: slog.New(slog.DiscardHandler)})
}

// resolved works once on an unknown operation whose look-up finds what is told.
func resolved(t *testing.T, op ledger.Operation, spec actions.Spec, finding actions.Finding) *book {
	t.Helper()
	b := &book{}
	r := repairing(b, &desk{action: &actions.Action{Spec: spec, Adapter: finds{finding: finding}}})
	op.LeaseExpiresAt = now.Add(r.Lease)
	if err := r.resolve(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEndedIsProof(t *testing.T) {
	t.Parallel()
	spec := actions.Spec{}.WithDefaults()
	spec.Contract.LateLanding = time.Hour
	ended := actions.Finding{Kind: actions.Ended, Failure: actions.Failure{Code: "card_declined", Message: "Declined.", Correctable: true}, Detail: "job_1 failed"}
	b := resolved(t, unknown(func(o *ledger.Operation) { o.Reason, o.ProviderReference = dispatch.ReasonAwaitingProvider, "job_1" }), spec, ended)
	if len(b.changes) != 1 {
		t.Fatalf("changes %+v, postponed %+v", b.changes, b.postponed)
	}
	c := b.changes[0]
	if c.Event != ledger.Refuse || c.Effect != ledger.EffectNotApplied || !c.Leased || c.Watch != time.Hour || c.Failure.Code != "card_declined" || !c.Failure.Correctable {
		t.Errorf("refused as %+v with %+v", c, c.Failure)
	}
	b = resolved(t, unknown(func(o *ledger.Operation) { o.Effect, o.Reason = ledger.EffectApplied, dispatch.ReasonAppliedNoReceipt }), spec, ended)
	if len(b.changes) != 1 || b.changes[0].Event != ledger.Escalate || b.changes[0].Review.Reason != ledger.Contradicted || b.changes[0].Effect != ledger.EffectApplied {
		t.Errorf("of what is known to be applied: %+v", b.changes)
	}
}

// After a restore only a find decides; the rest proves nothing, and a person is asked
// when looking on is of no use.
func TestOnlyAFindEndsARestoredDoubt(t *testing.T) {
	t.Parallel()
	spec := actions.Spec{}
	spec.Contract.Lookup = actions.LookupRules{Authoritative: true, NegativeReads: 1}
	spec = spec.WithDefaults()
	for name, test := range map[string]struct {
		finding actions.Finding
		want    ledger.Event // none: looks again
		says    string
	}{
		"found":        {actions.Finding{Kind: actions.Found, Receipt: actions.Receipt{Reference: "re_1", JSON: []byte(`{}`)}}, ledger.Confirm, ""},
		"absent":       {actions.Finding{Kind: actions.Absent}, ledger.Escalate, "finds nothing"},
		"ended":        {actions.Finding{Kind: actions.Ended, References: []string{"job_1"}}, "", ""},
		"foreign":      {actions.Finding{Kind: actions.Foreign, References: []string{"con_1"}}, ledger.Escalate, "taken by con_1"},
		"several":      {actions.Finding{Kind: actions.Several, References: []string{"a", "b"}}, ledger.Escalate, "several"},
		"inconclusive": {actions.Finding{}, "", ""},
	} {
		b := resolved(t, unknown(afterRestore), spec, test.finding)
		var got ledger.Change
		if len(b.changes) > 0 {
			got = b.changes[0]
		}
		if got.Event != test.want || len(b.changes)+len(b.postponed) != 1 || !strings.Contains(got.Detail, test.says) {
			t.Errorf("%s: changed %+v, postponed %+v; want %q", name, b.changes, b.postponed, test.want)
		}
		if got.Event == ledger.Escalate && got.Reason != ledger.ReasonRestored {
			t.Errorf("%s: the reason is forgotten: %+v", name, got)
		}
	}
}

// The provider says when to look again; it cannot make it sooner, nor never.
func TestFindingsSayWhenToLookAgain(t *testing.T) {
	t.Parallel()
	patient := actions.Spec{}
	patient.Contract.Lookup = actions.LookupRules{Authoritative: true, SettleTime: time.Hour, NegativeReads: 2}
	for name, test := range map[string]struct {
		spec    actions.Spec
		finding actions.Finding
		want    time.Duration
	}{
		"inconclusive":                    {actions.Spec{}, actions.Finding{}, time.Second},
		"inconclusive, later":             {actions.Spec{}, actions.Finding{After: time.Minute}, time.Minute},
		"inconclusive, sooner":            {actions.Spec{}, actions.Finding{After: time.Millisecond}, time.Second},
		"inconclusive, in the year 2100":  {actions.Spec{}, actions.Finding{After: 100 * 365 * 24 * time.Hour}, 24 * time.Hour},
		"absent, and it does not count":   {patient, actions.Finding{Kind: actions.Absent, After: 2 * time.Minute}, 2 * time.Minute},
		"absent, and the provider is mum": {patient, actions.Finding{Kind: actions.Absent}, time.Second},
	} {
		b := resolved(t, unknown(nil), test.spec.WithDefaults(), test.finding)
		if len(b.postponed) != 1 || b.postponed[0].Delay != test.want || len(b.changes) != 0 {
			t.Errorf("%s: postponed %+v, changes %+v; want %s", name, b.postponed, b.changes, test.want)
		}
	}
}

// An operation that waits for its event is put off until the wait is over, and
// that is no try.
func TestWaitingIsNoTry(t *testing.T) {
	t.Parallel()
	spec := actions.Spec{}.WithDefaults()
	spec.Contract.EventWait = time.Hour
	b := &book{}
	r := repairing(b, &desk{action: &actions.Action{Spec: spec}})
	op := unknown(func(o *ledger.Operation) { o.LeaseExpiresAt = now.Add(r.Lease) })
	if err := r.resolve(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	if len(b.postponed) != 1 || b.postponed[0].Delay != 59*time.Minute || !b.postponed[0].Untried || b.postponed[0].Reason != op.Reason {
		t.Errorf("postponed %+v, changed %+v", b.postponed, b.changes)
	}
}

// What ended is no proof where another attempt may have made something that is
// not listed yet; how the attempts ended says whether one may have.
func TestEndedIsNoProofWhereAnotherAttemptWasLost(t *testing.T) {
	t.Parallel()
	lost := []ledger.Attempt{{Number: 1, EndedAt: now, Outcome: "ambiguous"}, {Number: 2, EndedAt: now, Outcome: "ambiguous"}}
	proved := []ledger.Attempt{{Number: 1, EndedAt: now, Outcome: "rate_limited"}, {Number: 2, EndedAt: now, Outcome: "ambiguous"}}
	last := actions.DefaultMaxResolves
	for name, test := range map[string]struct {
		attempts  []ledger.Attempt
		reference string
		reason    string
		resolves  int
		found     []string
		want      ledger.Event // none: looks again
	}{
		"another was lost":              {attempts: lost, found: []string{"job_1"}},
		"another was lost, last look":   {attempts: lost, resolves: last, found: []string{"job_1"}, want: ledger.Escalate},
		"the other made nothing":        {attempts: proved, found: []string{"job_1"}, want: ledger.Refuse},
		"the answer named it":           {attempts: lost, reference: "job_1", reason: dispatch.ReasonAwaitingProvider, found: []string{"job_1"}, want: ledger.Refuse},
		"the answer named it, nameless": {attempts: lost, reference: "job_1", reason: dispatch.ReasonAwaitingProvider, want: ledger.Refuse},
		"the answer named another":      {attempts: lost, reference: "job_2", reason: dispatch.ReasonAwaitingProvider, found: []string{"job_1"}},
		"an event named it":             {attempts: lost, reference: "job_1", found: []string{"job_1"}},
	} {
		op := unknown(func(o *ledger.Operation) {
			o.Tenant, o.ID, o.Attempt, o.ProviderReference = "acme", "op_1", 2, test.reference
			o.Resolves = max(test.resolves, 1)
			if test.reason != "" {
				o.Reason = test.reason
			}
		})
		b := &book{get: func(tenant, id string) (ledger.Operation, error) {
			if tenant != "acme" || id != "op_1" {
				t.Errorf("%s: read %s of %s", name, id, tenant)
			}
			return ledger.Operation{State: ledger.Failed, Attempts: test.attempts}, nil
		}}
		finding := actions.Finding{Kind: actions.Ended, References: test.found}
		r := repairing(b, &desk{action: &actions.Action{Spec: actions.Spec{}.WithDefaults(), Adapter: finds{finding: finding}}})
		op.LeaseExpiresAt = now.Add(r.Lease)
		if err := r.resolve(t.Context(), op); err != nil {
			t.Fatal(err)
		}
		var got ledger.Event
		if len(b.changes) > 0 {
			got = b.changes[0].Event
		}
		if got != test.want || len(b.changes)+len(b.postponed) != 1 {
			t.Errorf("%s: changed %+v, postponed %+v; want %q", name, b.changes, b.postponed, test.want)
		}
	}
}

// A ledger that does not say how the attempts ended is asked again.
func TestResolvingWaitsForTheLedger(t *testing.T) {
	t.Parallel()
	b := &book{get: func(string, string) (ledger.Operation, error) { return ledger.Operation{}, ledger.ErrUnavailable }}
	r := repairing(b, &desk{action: &actions.Action{Spec: keyed()}})
	op := unknown(func(o *ledger.Operation) { o.Attempt, o.LeaseExpiresAt = 2, now.Add(r.Lease) })
	if err := r.resolve(t.Context(), op); !errors.Is(err, ledger.ErrUnavailable) || len(b.changes)+len(b.postponed) != 0 {
		t.Errorf("%v, changed %+v, postponed %+v", err, b.changes, b.postponed)
	}
}

// A proved absence closes an operation whose attempts are used up, and what a
// rate limit turned away is none of them.
func TestAbsenceLeavesTheAttemptsThatAreLeft(t *testing.T) {
	t.Parallel()
	spec := actions.Spec{MaxAttempts: 2}.WithDefaults()
	away := ledger.Attempt{Number: 1, EndedAt: now, Outcome: "rate_limited"}
	for name, test := range map[string]struct {
		attempts []ledger.Attempt
		most     int
		giveUp   time.Time
		want     ledger.Event
		code     string
	}{
		"used up":                   {nil, 0, time.Time{}, ledger.Refuse, "attempts_exhausted"},
		"one is left":               {[]ledger.Attempt{away}, 0, time.Time{}, ledger.Defer, "not_applied"},
		"none by the policy":        {[]ledger.Attempt{away}, 1, time.Time{}, ledger.Refuse, "attempts_exhausted"},
		"more by the policy":        {nil, 9, time.Time{}, ledger.Refuse, "attempts_exhausted"},
		"one is left, but no time":  {[]ledger.Attempt{away}, 0, now, ledger.Refuse, "gave_up"},
		"one is left, and the time": {[]ledger.Attempt{away}, 0, now.Add(time.Second), ledger.Defer, "not_applied"},
	} {
		op := unknown(func(o *ledger.Operation) {
			o.Attempt, o.Attempts, o.MaxAttempts, o.GiveUpAt = 2, test.attempts, test.most, test.giveUp
		})
		if got := absent(ledger.Change{Operation: op}, spec, now); got.Event != test.want || got.Effect != ledger.EffectNotApplied || got.Failure.Code != test.code {
			t.Errorf("%s: %+v, want %s", name, got, test.want)
		}
	}
}
