package dispatch

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// after is an operation whose attempts ended so, and one more, which is under
// way.
func after(state ledger.State, kinds ...actions.Kind) ledger.Operation {
	op := ledger.Operation{Tenant: "acme", ID: "op", State: state, Effect: ledger.EffectUnknown, Attempt: len(kinds) + 1}
	for i, kind := range kinds {
		op.Attempts = append(op.Attempts, ledger.Attempt{Number: i + 1, EndedAt: time.Unix(1, 0), Outcome: kind.String()})
	}
	op.Attempts = append(op.Attempts, ledger.Attempt{Number: op.Attempt})
	return op
}

func many(kind actions.Kind, n int) (kinds []actions.Kind) {
	for range n {
		kinds = append(kinds, kind)
	}
	return kinds
}

// PROVIDERS requirement 26: a rate limit uses up no attempt, and does not go on
// for ever either.
func TestRateLimitsAreBoundedByThemselves(t *testing.T) {
	t.Parallel()
	const most = 3 // attempts, as spec has it
	for name, test := range map[string]struct {
		before []actions.Kind
		now    actions.Kind
		want   ledger.Event
	}{
		"the last try":                        {many(actions.NotApplied, most-1), actions.NotApplied, ledger.Refuse},
		"the last but one":                    {many(actions.NotApplied, most-2), actions.NotApplied, ledger.Defer},
		"turned away as often as may be sent": {many(actions.RateLimited, most-1), actions.RateLimited, ledger.Defer},
		"a try after a burst":                 {many(actions.RateLimited, 2*most), actions.NotApplied, ledger.Defer},
		"the last try after a burst":          {append(many(actions.RateLimited, 2*most), many(actions.NotApplied, most-1)...), actions.NotApplied, ledger.Refuse},
		"turned away after tries":             {many(actions.NotApplied, most-1), actions.RateLimited, ledger.Defer},
		"a long burst":                        {many(actions.RateLimited, turnedAway*most-2), actions.RateLimited, ledger.Defer},
		"a burst without an end":              {many(actions.RateLimited, turnedAway*most-1), actions.RateLimited, ledger.Refuse},
	} {
		c := decide(after(ledger.Running, test.before...), len(test.before)+1, spec(), outcome(test.now)).change
		if c == nil || c.Event != test.want || c.Effect != ledger.EffectNotApplied {
			t.Errorf("%s: %+v, want %s", name, c, test.want)
			continue
		}
		if c.Event == ledger.Refuse && (c.Failure.Code != "attempts_exhausted" || !strings.HasPrefix(c.Failure.Message, fmt.Sprintf("Not applied after %d attempts", len(test.before)+1))) {
			t.Errorf("%s: %+v", name, c.Failure)
		}
	}
}

// A replay that is turned away leaves the doubt as many tries as it had; not for
// ever.
func TestTurnedAwayInDoubtIsNoTry(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind    actions.Kind
		attempt int
		want    bool
	}{
		{actions.RateLimited, 2, true}, {actions.RateLimited, turnedAway*3 - 1, true}, {actions.RateLimited, turnedAway * 3, false},
		{actions.NotApplied, 2, false}, {actions.Ambiguous, 2, false},
	} {
		c := decide(running(test.attempt, true), test.attempt, spec(), outcome(test.kind)).change
		if c == nil || c.Event != ledger.Doubt || c.ResetResolves != test.want {
			t.Errorf("%s, attempt %d: %+v", test.kind, test.attempt, c)
		}
	}
}

// The provider's time counts, until it turns out that others come at it too.
func TestTurnedAwayAgainAndAgainComesLater(t *testing.T) {
	t.Parallel()
	o := outcome(actions.RateLimited)
	o.RetryAfter = time.Second
	last := time.Duration(0)
	for n := range turnedAway*3 - 1 {
		c := decide(after(ledger.Running, many(actions.RateLimited, n)...), n+1, spec(), o).change
		if c.Event != ledger.Defer || c.Delay < last || n < 3 && c.Delay != time.Second {
			t.Errorf("turned away %d times: %s after %s (%s)", n+1, c.Delay, last, c.Event)
		}
		last = c.Delay
	}
	if last != maxBackoff {
		t.Errorf("comes again after %s in the end", last)
	}
}

func TestAttemptsAreReadWhereTheyDecide(t *testing.T) {
	t.Parallel()
	cur := running(3, false)
	known, doubted, first := cur, running(3, true), running(1, false)
	known.Attempts = []ledger.Attempt{{Number: 1}}
	once := spec()
	once.MaxAttempts = 1
	for name, test := range map[string]struct {
		cur  ledger.Operation
		spec actions.Spec
		kind actions.Kind
		want bool
	}{
		"used up":           {cur, spec(), actions.NotApplied, true},
		"used up, a limit":  {cur, spec(), actions.RateLimited, true},
		"not used up":       {running(2, false), spec(), actions.RateLimited, false},
		"read already":      {known, spec(), actions.RateLimited, false},
		"in doubt whatever": {doubted, spec(), actions.RateLimited, false},
		"the only one":      {first, once, actions.NotApplied, false},
		"applied":           {cur, spec(), actions.Applied, false},
		"proves nothing":    {cur, spec(), actions.Ambiguous, false},
	} {
		if got := needsAttempts(test.cur, test.spec, outcome(test.kind)); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// What ended is all that there is only where no other attempt may have made
// something.
func TestEndsAll(t *testing.T) {
	t.Parallel()
	const proved, lost = actions.NotApplied, actions.Ambiguous
	for name, test := range map[string]struct {
		before []actions.Kind
		known  string
		ended  string
		want   bool
	}{
		"the only attempt":                        {nil, "", "re_1", true},
		"the only attempt, another thing":         {nil, "re_0", "re_1", false},
		"the others made nothing":                 {[]actions.Kind{proved, actions.RateLimited, actions.Rejected}, "", "re_1", true},
		"the others made nothing, nameless":       {[]actions.Kind{proved}, "re_0", "", true},
		"the others made nothing, another thing":  {[]actions.Kind{proved}, "re_0", "re_1", false},
		"one was lost":                            {[]actions.Kind{lost}, "", "re_1", false},
		"one was lost, and this one is on record": {[]actions.Kind{lost}, "re_1", "re_1", false},
	} {
		cur := after(ledger.Unknown, test.before...)
		cur.ProviderReference = test.known
		if got := EndsAll(cur, actions.KeyRules{}, test.ended); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
		restored := cur
		restored.Reason = ledger.ReasonRestored
		if EndsAll(restored, actions.KeyRules{Honoured: true}, test.ended) {
			t.Errorf("%s: of attempts that a restore has forgotten", name)
		}
		cur.Attempts = nil
		if len(test.before) > 0 && EndsAll(cur, actions.KeyRules{}, test.ended) {
			t.Errorf("%s: without knowing how the attempts ended", name)
		}
	}
	// One key that is honoured makes one thing, as long as it is.
	cur := after(ledger.Unknown, lost)
	cur.ProviderReference, cur.LastSentAt, cur.KeyHorizon = "re_1", time.Unix(1000, 0), time.Unix(1000, 0)
	if EndsAll(cur, actions.KeyRules{Honoured: true}, "re_1") {
		t.Error("the last attempt was past the key's horizon")
	}
}

// Two names for one operation are two effects, also where neither is done yet. The audit
// record has both, also when the process dies before it asks a person.
func TestAnotherNameIsAContradiction(t *testing.T) {
	t.Parallel()
	for _, kind := range []actions.Kind{actions.Accepted, actions.AppliedNoReceipt, actions.Applied} {
		cur, o := running(2, true), outcome(kind)
		cur.ProviderReference, o.Receipt.Reference = "re_0", "re_1"
		v := decide(cur, 2, spec(), o)
		if v.change == nil || v.change.Reason != ReasonContradicted || v.then == nil || v.then.Event != ledger.Escalate || !strings.Contains(v.then.Detail, "re_0 and re_1") || !strings.Contains(v.change.Detail, "re_0 and re_1") {
			t.Errorf("%s: %+v, then %+v", kind, v.change, v.then)
		}
		o.Receipt.Reference = "re_0"
		if v := decide(cur, 2, spec(), o); v.change == nil || v.change.Reason == ReasonContradicted || v.then != nil {
			t.Errorf("%s of the same: %+v, then %+v", kind, v.change, v.then)
		}
	}
}

// The policy's bound counts where it is tighter than the action type's.
func TestAttemptsOfThePolicy(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		most, attempt int
		want          ledger.Event
	}{{0, 2, ledger.Defer}, {2, 1, ledger.Defer}, {2, 2, ledger.Refuse}, {99, 2, ledger.Defer}, {99, 3, ledger.Refuse}} {
		op := running(test.attempt, false)
		op.MaxAttempts = test.most
		c := decide(op, test.attempt, spec(), outcome(actions.NotApplied)).change
		if c == nil || c.Event != test.want {
			t.Errorf("%d of %d attempts: %+v, want %s", test.attempt, test.most, c, test.want)
		}
	}
}

// changes is a ledger that only takes changes.
type changes struct {
	Ledger
	made []ledger.Change
}

func (l *changes) Apply(_ context.Context, c ledger.Change) (ledger.Operation, error) {
	l.made = append(l.made, c)
	c.Operation.State = ledger.Failed
	return c.Operation, nil
}

// Past the policy's time a pending operation is ended and not sent: nothing of a
// ledger but the change is touched.
func TestPendingOperationPastItsTimeIsGivenUp(t *testing.T) {
	t.Parallel()
	for attempts, want := range map[int]string{
		0: "Not sent: the time that the policy gives it is over.",
		2: "Not applied after 2 attempts, and the time that the policy gives it is over. Last: Busy.",
	} {
		l, told := &changes{}, 0
		d, err := New(Options{Ledger: l, Secret: make([]byte, 32), Changed: func(ledger.Operation) { told++ }})
		if err != nil {
			t.Fatal(err)
		}
		op := ledger.Operation{Tenant: "acme", ID: "op", State: ledger.Pending, Effect: ledger.EffectNotApplied, Attempt: attempts, GiveUpAt: time.Now().Add(-time.Second)}
		if attempts > 0 {
			op.Failure = &ledger.Failure{Message: "Busy."}
		}
		got, err := d.Attempt(t.Context(), op, ledger.Claim, "reconciler")
		if err != nil || got.State != ledger.Failed || told != 1 || len(l.made) != 1 {
			t.Fatalf("%+v, %v, told %d, made %+v", got, err, told, l.made)
		}
		if c := l.made[0]; c.Event != ledger.Expire || c.Effect != op.Effect || c.Failure.Code != "gave_up" || c.Failure.Message != want {
			t.Errorf("%+v, %+v", c, c.Failure)
		}
		d.Close(t.Context())
	}
}
