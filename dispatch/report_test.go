package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// event is one that says what is named about an effect.
func event(kind actions.Kind, reference string) actions.Event {
	e := actions.Event{ID: "evt_1", OperationID: "op", Reference: reference, Outcome: actions.Outcome{Kind: kind}}
	if kind == actions.Applied {
		e.Outcome.Receipt.JSON = json.RawMessage(`{"id":"re_1"}`)
	}
	return e
}

// said is what became of an event, in short: the event that moves, "evidence"
// with what goes with it, "wait", or nothing.
func said(v verdict, wait bool) string {
	switch {
	case wait:
		return "wait"
	case v.change != nil:
		return strings.TrimSpace(string(v.change.Event) + " " + string(v.change.Effect))
	case v.evidence != nil && v.evidence.Incident != "":
		return "incident"
	case v.evidence != nil && v.evidence.ProviderReference != "":
		return "reference"
	case v.evidence != nil:
		return "evidence"
	}
	return ""
}

func TestWeigh(t *testing.T) {
	t.Parallel()
	const (
		applied, nameless = actions.Applied, actions.AppliedNoReceipt
		ended, underWay   = actions.Rejected, actions.Accepted
	)
	type when struct {
		state ledger.State
		known string // provider reference
		tries int    // attempts; 0: one
		epoch int
		done  bool // known to be applied
		// why it is in doubt, and what the contract says of keys
		reason string
		keys   actions.KeyRules
	}
	keyed := actions.KeyRules{Honoured: true, Window: time.Hour}
	tests := []struct {
		name      string
		when      when
		kind      actions.Kind
		reference string
		want      string
	}{
		{"before the answer", when{state: ledger.Running}, applied, "re_1", "confirm applied"},
		{"before the answer of a replay", when{state: ledger.Running, tries: 2}, applied, "re_1", "confirm applied"},
		{"another one than was named", when{state: ledger.Running, known: "re_0"}, applied, "re_1", "wait"},
		{"of this request or the one before", when{state: ledger.Running, tries: 2, epoch: 1}, applied, "re_1", "wait"},
		{"nameless before the answer", when{state: ledger.Running}, nameless, "", "wait"},
		{"ended before the answer", when{state: ledger.Running}, ended, "re_1", "wait"},
		{"under way before the answer", when{state: ledger.Running}, underWay, "re_1", "wait"},

		{"after a lost answer", when{state: ledger.Unknown}, applied, "re_1", "confirm applied"},
		{"after many lost answers", when{state: ledger.Unknown, tries: 4, epoch: 1}, applied, "re_1", "confirm applied"},
		{"after it was accepted", when{state: ledger.Unknown, known: "re_1"}, applied, "re_1", "confirm applied"},
		{"two effects", when{state: ledger.Unknown, known: "re_0"}, applied, "re_1", "incident"},
		{"applied without a name is no receipt", when{state: ledger.Unknown}, applied, "", "escalate applied"},
		{"nameless", when{state: ledger.Unknown}, nameless, "", "escalate applied"},
		{"nameless, known", when{state: ledger.Unknown, done: true}, nameless, "", ""},
		{"ended, what was accepted", when{state: ledger.Unknown, known: "re_1", tries: 3, reason: ReasonAwaitingProvider}, ended, "re_1", "refuse not_applied"},
		{"ended, made under one key", when{state: ledger.Unknown, known: "re_1", tries: 3, keys: keyed}, ended, "re_1", "refuse not_applied"},
		{"ended, made under one of two keys", when{state: ledger.Unknown, known: "re_1", tries: 3, epoch: 1, keys: keyed}, ended, "re_1", "evidence"},
		{"ended, known by an event of whichever attempt", when{state: ledger.Unknown, known: "re_1", tries: 3}, ended, "re_1", "evidence"},
		{"ended, one of several, under one key", when{state: ledger.Unknown, tries: 3, keys: keyed}, ended, "re_1", "evidence"},
		{"ended, the only one there can be", when{state: ledger.Unknown}, ended, "re_1", "refuse not_applied"},
		{"ended, the only one, nameless", when{state: ledger.Unknown, known: "re_1"}, ended, "", "refuse not_applied"},
		{"ended, one of several", when{state: ledger.Unknown, tries: 2}, ended, "re_1", "evidence"},
		{"ended, one of several, nameless", when{state: ledger.Unknown, known: "re_1", tries: 2}, ended, "", "evidence"},
		{"ended, another one", when{state: ledger.Unknown, known: "re_0"}, ended, "re_1", "evidence"},
		{"ended, after an answer that it was done", when{state: ledger.Unknown, known: "re_1", done: true}, ended, "re_1", "escalate applied"},
		{"under way", when{state: ledger.Unknown}, underWay, "re_1", "reference"},
		{"under way, known", when{state: ledger.Unknown, known: "re_1"}, underWay, "re_1", ""},

		{"under way, another one", when{state: ledger.Unknown, known: "re_0"}, underWay, "re_1", "escalate unknown"},
		{"under way, nobody says what", when{state: ledger.Unknown, known: "re_0"}, underWay, "", ""},
		{"contradicted, and not yet before a person", when{state: ledger.Unknown, known: "re_1", reason: ReasonContradicted}, applied, "re_1", "wait"},
		{"key mismatch, and not yet before a person", when{state: ledger.Unknown, reason: ReasonKeyMismatch}, ended, "re_1", "wait"},

		{"no news", when{state: ledger.Succeeded, known: "re_1"}, applied, "re_1", ""},
		{"a second effect", when{state: ledger.Succeeded, known: "re_0"}, applied, "re_1", "incident"},
		{"no news, nameless", when{state: ledger.Succeeded, known: "re_1"}, nameless, "", ""},
		{"failed after succeeded", when{state: ledger.Succeeded, known: "re_1"}, ended, "re_1", "evidence"},
		{"created after succeeded", when{state: ledger.Succeeded, known: "re_1"}, underWay, "re_1", ""},

		{"another one under way after succeeded", when{state: ledger.Succeeded, known: "re_0"}, underWay, "re_1", "incident"},

		{"called failed", when{state: ledger.Failed}, applied, "re_1", "contradict applied"},
		{"ended, and then not", when{state: ledger.Failed, known: "re_1"}, applied, "re_1", "contradict applied"},
		{"called failed, nameless", when{state: ledger.Failed}, nameless, "", "contradict applied"},
		{"ended twice", when{state: ledger.Failed, known: "re_1"}, ended, "re_1", ""},
		{"created after ended", when{state: ledger.Failed, known: "re_1"}, underWay, "re_1", ""},

		{"begun, and called failed", when{state: ledger.Failed}, underWay, "re_1", "evidence"},
		{"another one begun after ended", when{state: ledger.Failed, known: "re_0"}, underWay, "re_1", "evidence"},

		{"about to be tried again", when{state: ledger.Pending}, applied, "re_1", "escalate applied"},
		{"about to be tried again, nameless", when{state: ledger.Pending}, nameless, "", "escalate applied"},
		{"about to be tried again, under way", when{state: ledger.Pending}, underWay, "re_1", "escalate unknown"},
		{"about to be tried again, an old one", when{state: ledger.Pending, known: "re_1"}, underWay, "re_1", ""},
		{"about to be tried again, ended", when{state: ledger.Pending}, ended, "re_1", ""},

		{"before a person", when{state: ledger.NeedsReview}, applied, "re_1", "reference"},
		{"before a person, another one", when{state: ledger.NeedsReview, known: "re_0"}, applied, "re_1", "incident"},
		{"before a person, nameless", when{state: ledger.NeedsReview}, nameless, "", "evidence"},
		{"before a person, ended", when{state: ledger.NeedsReview}, ended, "re_1", "evidence"},
		{"before a person, under way", when{state: ledger.NeedsReview}, underWay, "re_1", "reference"},
		{"before a person, another one under way", when{state: ledger.NeedsReview, known: "re_0"}, underWay, "re_1", "incident"},
	}
	seen := map[ledger.State]map[actions.Kind]bool{}
	for _, test := range tests {
		cur := running(max(test.when.tries, 1), test.when.state == ledger.Unknown)
		cur.State, cur.ProviderReference, cur.Epoch = test.when.state, test.when.known, test.when.epoch
		cur.Reason, cur.LastSentAt, cur.KeyHorizon = test.when.reason, time.Unix(1000, 0), time.Unix(2000, 0)
		if test.when.done {
			cur.Effect = ledger.EffectApplied
		}
		v, wait := weigh(cur, test.when.keys, event(test.kind, test.reference))
		if got := said(v, wait); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		if seen[cur.State] == nil {
			seen[cur.State] = map[actions.Kind]bool{}
		}
		seen[cur.State][test.kind] = true
	}
	for _, state := range ledger.States() {
		if len(seen[state]) != 4 {
			t.Errorf("%s: not every kind of event is tried", state)
		}
	}
}

// Every event in every state: legal, and never a claim without proof.
func TestEventsAreLegalAndCareful(t *testing.T) {
	t.Parallel()
	for _, state := range ledger.States() {
		for _, kind := range kinds() {
			for _, known := range []string{"", "re_1", "re_0"} {
				for _, reference := range []string{"", "re_1"} {
					for _, effect := range []ledger.Effect{ledger.EffectUnknown, ledger.EffectApplied} {
						cur := running(2, true)
						cur.State, cur.ProviderReference, cur.Effect = state, known, effect
						v, _ := weigh(cur, actions.KeyRules{}, event(kind, reference))
						if v.change == nil {
							continue
						}
						to, ok := ledger.Next(state, v.change.Event)
						switch {
						case !ok:
							t.Errorf("%s, %s: %s is illegal", state, kind, v.change.Event)
						case state.Final() && v.change.Event != ledger.Contradict:
							t.Errorf("%s, %s: a final state went back by %s", state, kind, v.change.Event)
						case to == ledger.Succeeded && (kind != actions.Applied || reference == "" || known == "re_0"):
							t.Errorf("%s, %s %q, known %q: confirmed", state, kind, reference, known)
						case to == ledger.Failed && (kind != actions.Rejected || known != "re_1" || reference != "re_1" || effect == ledger.EffectApplied):
							t.Errorf("%s, %s %q, known %q, effect %s: called failed", state, kind, reference, known, effect)
						case to == ledger.Pending || to == ledger.Running:
							t.Errorf("%s, %s: an event sent something again", state, kind)
						case to == ledger.NeedsReview && (v.change.Review == nil || v.change.Review.Detail == ""):
							t.Errorf("%s, %s: a person is asked without a question", state, kind)
						}
					}
				}
			}
		}
	}
}

// The failure of an event is told as it is correctable or not, and never without
// a reason.
func TestEndedFailure(t *testing.T) {
	t.Parallel()
	if f := EndedFailure(actions.Failure{}); f.Code != "ended_by_provider" || f.Message == "" || f.Correctable {
		t.Errorf("nothing said: %+v", f)
	}
	f := EndedFailure(actions.Failure{Code: "card_declined", Message: "The card was declined.", Correctable: true, Violations: []actions.Violation{{Field: "card"}}})
	if f.Code != "card_declined" || f.Message != "The card was declined." || !f.Correctable || len(f.Violations) != 1 {
		t.Errorf("a reason: %+v", f)
	}
}

// stub is an adapter of a provider.
type stub struct{ actions.Adapter }

func (stub) Spec() actions.Spec {
	return actions.Spec{
		Type: "stub.thing.make", Version: "1", Schema: json.RawMessage(`{"type":"object"}`),
		Contract:         actions.Contract{Provider: "stub", Version: "1"},
		SensitiveReceipt: []string{"token"},
	}
}

func reporting(t *testing.T, l Ledger) (*Dispatcher, *[]ledger.Operation) {
	t.Helper()
	registry, err := actions.NewRegistry(stub{})
	if err != nil {
		t.Fatal(err)
	}
	var changed []ledger.Operation
	d, err := New(Options{
		Ledger: l, Registry: registry, Secret: make([]byte, 32), Log: slog.New(slog.DiscardHandler),
		Changed: func(op ledger.Operation) { changed = append(changed, op) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Abandon)
	return d, &changed
}

// The operation moves on while its event is weighed: what it is then counts.
func TestReportIsWeighedAnew(t *testing.T) {
	t.Parallel()
	op := running(1, false)
	op.ActionType = "stub.thing.make"
	unknown := op
	unknown.State, unknown.InDoubt, unknown.Revision = ledger.Unknown, true, 2
	s := &shaky{
		apply: []func(ledger.Change) (ledger.Operation, error){
			func(ledger.Change) (ledger.Operation, error) { return ledger.Operation{}, ledger.ErrFenced },
			func(c ledger.Change) (ledger.Operation, error) {
				if c.Event != ledger.Confirm || c.Operation.State != ledger.Unknown || c.Actor != "webhook" || c.ProviderReference != "re_1" {
					t.Errorf("recorded %+v", c)
				}
				c.Operation.State = ledger.Succeeded
				return c.Operation, nil
			},
		},
		get: []func() (ledger.Operation, error){func() (ledger.Operation, error) { return unknown, nil }},
	}
	d, changed := reporting(t, s)
	got, err := d.Report(t.Context(), op, Report{Provider: "stub", Event: event(actions.Applied, "re_1"), Actor: "webhook"})
	if err != nil || got.State != ledger.Succeeded || len(*changed) != 1 {
		t.Errorf("reported %+v, %v; told %d times", got, err, len(*changed))
	}
}

// An operation that was found by its reference comes without its attempts: how
// they ended is read, since it says whether what ended is all that there is.
func TestReportReadsHowTheAttemptsEnded(t *testing.T) {
	t.Parallel()
	op := running(2, true)
	op.ActionType, op.State = "stub.thing.make", ledger.Unknown
	known := after(ledger.Unknown, actions.RateLimited)
	known.ActionType, known.InDoubt = op.ActionType, true
	s := &shaky{
		apply: []func(ledger.Change) (ledger.Operation, error){func(c ledger.Change) (ledger.Operation, error) {
			if c.Event != ledger.Refuse || c.Effect != ledger.EffectNotApplied || c.ProviderReference != "re_1" || c.Operation.Attempt != 2 {
				t.Errorf("recorded %+v", c)
			}
			c.Operation.State = ledger.Failed
			return c.Operation, nil
		}},
		get: []func() (ledger.Operation, error){func() (ledger.Operation, error) { return known, nil }},
	}
	d, _ := reporting(t, s)
	if got, err := d.Report(t.Context(), op, Report{Provider: "stub", Event: event(actions.Rejected, "re_1")}); err != nil || got.State != ledger.Failed {
		t.Errorf("reported %+v, %v", got, err)
	}
}

func TestReportsThatAreNotRecorded(t *testing.T) {
	t.Parallel()
	op := running(1, false)
	op.ActionType = "stub.thing.make"
	foreign := op
	foreign.ActionType = "other.thing.make"
	done := op
	done.State, done.ProviderReference = ledger.Succeeded, "re_1"
	away := &shaky{apply: []func(ledger.Change) (ledger.Operation, error){func(ledger.Change) (ledger.Operation, error) { return ledger.Operation{}, ledger.ErrUnavailable }}}
	for name, test := range map[string]struct {
		ledger   *shaky
		op       ledger.Operation
		provider string
		event    actions.Event
		want     error
	}{
		"no adapter":       {&shaky{}, foreign, "stub", event(actions.Applied, "re_1"), ErrNoAdapter},
		"another provider": {&shaky{}, op, "other", event(actions.Applied, "re_1"), ErrOtherProvider},
		"too early":        {&shaky{}, op, "stub", event(actions.Rejected, "re_1"), ErrNotYet},
		"no news":          {&shaky{}, done, "stub", event(actions.Applied, "re_1"), nil},
		"ledger away":      {away, op, "stub", event(actions.Applied, "re_1"), ledger.ErrUnavailable},
	} {
		d, changed := reporting(t, test.ledger)
		if got, err := d.Report(t.Context(), test.op, Report{Provider: test.provider, Event: test.event}); !errors.Is(err, test.want) || got.State != test.op.State || len(*changed) != 0 {
			t.Errorf("%s: %+v, %v; told %d times", name, got, err, len(*changed))
		}
	}
}

// holding is a ledger with the arguments of one operation, or without.
type holding struct {
	shaky
	err error
}

func (h *holding) Arguments(context.Context, ledger.Operation) ([]byte, error) { return nil, h.err }

type opened string

func (o opened) Unseal([]byte, string, string) ([]byte, error) { return []byte(o), nil }

// A provider repeats in its event what it was sent: what is sensitive is neither
// stored nor shown, and where nobody can tell any more its words are not either.
func TestSensitiveArgumentsOfEvents(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want actions.Failure
	}{
		"there":   {nil, actions.Failure{Code: "declined", Message: "card [redacted] was declined", Violations: []actions.Violation{{Field: "card", Message: "[redacted] is blocked"}}}},
		"dropped": {ledger.ErrNotFound, actions.Failure{Code: "declined", Message: actions.Redacted}},
		"away":    {ledger.ErrUnavailable, actions.Failure{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry, err := actions.NewRegistry(&scripted{})
			if err != nil {
				t.Fatal(err)
			}
			var got *ledger.Failure
			book := &holding{err: test.err}
			book.apply = []func(ledger.Change) (ledger.Operation, error){func(c ledger.Change) (ledger.Operation, error) {
				got = c.Failure
				return c.Operation, nil
			}}
			d, err := New(Options{
				Ledger: book, Registry: registry, Sealer: opened(`{"card":"4000056655665556"}`), Secret: make([]byte, 32), Log: slog.New(slog.DiscardHandler),
				Changed: func(ledger.Operation) {},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(d.Abandon)
			op := running(1, false)
			op.ActionType, op.State = "pay.charge", ledger.Unknown
			e := event(actions.Rejected, "")
			e.Outcome.Failure = actions.Failure{
				Code: "declined", Message: "card 4000056655665556 was declined",
				Violations: []actions.Violation{{Field: "card", Message: "4000056655665556 is blocked"}},
			}
			_, err = d.Report(t.Context(), op, Report{Provider: "fakepay", Event: e, Actor: "webhook"})
			if test.want.Code == "" { // it is told again later
				if !errors.Is(err, test.err) || got != nil {
					t.Errorf("recorded %+v, %v", got, err)
				}
				return
			}
			switch {
			case err != nil:
				t.Error(err)
			case got == nil || got.Code != test.want.Code || got.Message != test.want.Message || len(got.Violations) != len(test.want.Violations):
				t.Errorf("recorded %+v, want %+v", got, test.want)
			case len(got.Violations) == 1 && got.Violations[0].Message != test.want.Violations[0].Message:
				t.Errorf("recorded %+v", got.Violations)
			}
			if e.Outcome.Failure.Violations[0].Message != "4000056655665556 is blocked" {
				t.Error("the caller's event was changed")
			}
		})
	}
}
