package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/chaos/history"
	"github.com/onceward/onceward/internal/auditchain"
	"github.com/onceward/onceward/ledger"
)

// begin is when the facts of the tests begin.
func begin() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

// record is an audit record of moves, a second apart, that hangs together.
func record(t *testing.T, id string, moves ...string) []auditchain.Event {
	t.Helper()
	var events []auditchain.Event
	chain, from, attempt := "", "", int64(0)
	for i, event := range moves {
		to, ok := ledger.Next(ledger.State(from), ledger.Event(event))
		if !ok {
			t.Fatalf("%s is no move from %q", event, from)
		}
		if event == "claim" || event == "replay" {
			attempt++
		}
		e := auditchain.Event{
			Tenant: "acme", OperationID: id, Sequence: int64(i + 1), At: begin().Add(time.Duration(i) * time.Second).Format("2006-01-02T15:04:05.000000Z07:00"),
			Event: event, From: from, To: string(to), Attempt: attempt, ArgsHash: "00", Actor: "worker",
		}
		var err error
		if e.Chain, err = e.Link(chain); err != nil {
			t.Fatal(err)
		}
		events, chain, from = append(events, e), e.Chain, string(to)
	}
	events[0].Head = &chain
	return events
}

const (
	one = "01a22ac0-0000-7000-8000-000000000001"
	two = "01a22ac0-0000-7000-8000-000000000002"
)

// good are facts in which all laws hold: one refund after a doubt, one refused.
func good(t *testing.T) Facts {
	t.Helper()
	told := history.Call{
		Tenant: "acme", Key: "g1", Kind: history.Request, Invoked: 1, Returned: 2, Answer: history.Told, OperationID: one,
		State: ledger.Succeeded, Reference: "re_1", Receipt: `{"id":"re_1"}`, Cents: 500, Disposition: "EXECUTED",
	}
	refused := history.Call{Tenant: "acme", Key: "g2", Kind: history.Request, Invoked: 1, Returned: 2, Answer: history.Told, OperationID: two, State: ledger.Failed}
	return Facts{
		Operations: []Operation{
			{Tenant: "acme", ID: one, Key: "g1", ActionType: "refund", State: ledger.Succeeded, Effect: ledger.EffectApplied, Reference: "re_1", Receipt: `{"id":"re_1"}`, Attempts: 2, Intent: "order-1"},
			{Tenant: "acme", ID: two, Key: "g2", ActionType: "refund", State: ledger.Failed, Effect: ledger.EffectNotApplied, Attempts: 1, Intent: "order-1"},
		},
		Effects: []Effect{{Tenant: "acme", OperationID: one, ID: "re_1", Cents: 500}},
		Writes: []Write{
			{OperationID: one, At: begin().Add(100 * time.Millisecond), BodyHash: "a"},
			{OperationID: one, At: begin().Add(2100 * time.Millisecond), BodyHash: "a"},
			{OperationID: two, At: begin().Add(100 * time.Millisecond), BodyHash: "b"},
		},
		Events:  append(record(t, one, "claim", "doubt", "replay", "confirm"), record(t, two, "claim", "refuse")...),
		Calls:   []history.Call{told, refused},
		Budgets: []Budget{{Tenant: "acme", Counter: "refunds", Used: 500, Want: 500}},
		Stops:   []Stop{{Tenant: "acme", ActionType: "refund", From: begin().Add(time.Minute), To: begin().Add(2 * time.Minute)}},
	}
}

// Each rule finds what it is for, and the others say nothing of it that is not true
// as well.
func TestJudge(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(*Facts)
		rules []Rule
	}{
		{"all laws hold", func(*Facts) {}, nil},
		{"two effects", func(f *Facts) { f.Effects = append(f.Effects, Effect{OperationID: one, ID: "re_2", Cents: 500}) }, []Rule{OneEffect}},
		{"a success without an effect", func(f *Facts) { f.Effects = nil }, []Rule{Succeeded}},
		{"a success with the receipt of another effect", func(f *Facts) { f.Effects[0].ID = "re_9" }, []Rule{Succeeded}},
		{"a failure with an effect", func(f *Facts) {
			f.Effects = append(f.Effects, Effect{OperationID: two, ID: "re_2"})
		}, []Rule{Failed, IntentTwice}},
		{"an operation that is stuck", func(f *Facts) {
			f.Operations[1].State = ledger.Unknown
			f.Events[5].To, f.Calls = "unknown", f.Calls[:1]
		}, []Rule{Stuck, EventOfMove, Chain}},
		{"a write before its claim", func(f *Facts) { f.Writes[1].At = begin().Add(1900 * time.Millisecond) }, []Rule{LedgerFirst}},
		{"a write without a claim", func(f *Facts) {
			f.Writes = append(f.Writes, Write{OperationID: two, At: begin().Add(time.Hour), BodyHash: "b"})
		}, []Rule{LedgerFirst}},
		{"a write that nobody has on record", func(f *Facts) {
			f.Writes = append(f.Writes, Write{OperationID: "nobody", At: begin().Add(time.Hour)})
		}, []Rule{LedgerFirst}},
		{"an effect that nobody has on record", func(f *Facts) { f.Effects = append(f.Effects, Effect{OperationID: "nobody"}) }, []Rule{Unheard}},
		{"another body at the second attempt", func(f *Facts) { f.Writes[1].BodyHash = "c" }, []Rule{SameRequest}},
		{"two operations for one thing", func(f *Facts) { f.Operations[1].Key, f.Calls = "g1", f.Calls[:1] }, []Rule{OneEffectOfKey}},
		{"a receipt that is lost", func(f *Facts) {
			f.Operations, f.Events, f.Effects, f.Writes = f.Operations[1:], f.Events[4:], nil, f.Writes[2:]
		}, []Rule{ReceiptLost}},
		{"a receipt that was changed", func(f *Facts) { f.Operations[0].Receipt = `{"id": "re_1"}` }, []Rule{ReceiptLost}},
		{"a second receipt", func(f *Facts) {
			again := f.Calls[0]
			again.Receipt, again.Invoked, again.Returned, again.Disposition = `{}`, 3, 4, "REPLAYED"
			f.Calls = append(f.Calls, again)
		}, []Rule{ReceiptLost, Register}},
		{"other arguments accepted", func(f *Facts) {
			again := f.Calls[0]
			again.Arguments, again.Invoked, again.Returned, again.Disposition = 1, 3, 4, "REPLAYED"
			f.Calls = append(f.Calls, again)
		}, []Rule{Register}},
		{"an event that was changed", func(f *Facts) { f.Events[1].Detail = "as if nothing were" }, []Rule{Chain}},
		{"an event that was removed", func(f *Facts) { f.Events = slices.Delete(f.Events, 1, 2) }, []Rule{EventOfMove, Chain}},
		{"a move without an event", func(f *Facts) {
			f.Events[3].To, f.Operations[0].State = "unknown", ledger.Succeeded
		}, []Rule{EventOfMove, Chain}},
		{"an attempt without an event", func(f *Facts) { f.Operations[0].Attempts = 3 }, []Rule{EventOfMove}},
		{"a budget that gave too much back", func(f *Facts) { f.Budgets[0].Used = 400 }, []Rule{BudgetExact}},
		{"a budget that still holds something", func(f *Facts) { f.Budgets[0].Held = 1 }, []Rule{BudgetExact}},
		{"a claim while it was stopped", func(f *Facts) { f.Stops[0].From = begin().Add(time.Second) }, []Rule{Stopped}},
		{"a stop of another tenant", func(f *Facts) { f.Stops[0].From, f.Stops[0].Tenant = begin(), "globex" }, nil},
		{"an incident", func(f *Facts) { f.Operations[0].HasIncident = true }, []Rule{Incident}},
		{"an incident that the target made up", func(f *Facts) { f.Operations[0].HasIncident, f.Operations[0].Lied = true, true }, nil},
		{"an effect that nobody is sure of, and a success", func(f *Facts) { f.Operations[0].Effect = ledger.EffectUnknown }, []Rule{Succeeded}},
		{"an effect that nobody is sure of, and a failure", func(f *Facts) { f.Operations[1].Effect = ledger.EffectUnknown }, []Rule{Failed}},
		{"told of an operation that is not there any more", func(f *Facts) {
			f.Calls = append(f.Calls, history.Call{Tenant: "acme", Key: "g3", Kind: history.Request, Answer: history.Told, OperationID: "gone", State: ledger.NeedsReview})
		}, []Rule{OwnAnswer}},
		{"told of another one's operation", func(f *Facts) { f.Calls[0].Key = "g3" }, []Rule{OwnAnswer}},
		{"told of another tenant's operation", func(f *Facts) { f.Calls[0].Tenant = "globex" }, []Rule{OwnAnswer}},
		{"told of a failure that nobody recorded", func(f *Facts) { f.Calls[0].State = ledger.Failed }, []Rule{OwnAnswer}},
		{"more money than was asked for", func(f *Facts) { f.Calls[0].Cents = 400 }, []Rule{OwnAnswer}},
		{"two first requests", func(f *Facts) { f.Calls = append(f.Calls, f.Calls[0]) }, []Rule{OwnAnswer}},
		{"a replica that panicked", func(f *Facts) { f.Died = []string{"replica-1: exit status 2"} }, []Rule{Died}},
		{"an answer that nobody should get", func(f *Facts) { f.Wrong = []string{"panic"} }, []Rule{WrongAnswer}},
	} {
		t.Run(test.name, func(t *testing.T) {
			facts := good(t)
			test.spoil(&facts)
			found := Judge(facts)
			var rules []Rule
			for _, v := range found {
				if !slices.Contains(rules, v.Rule) {
					rules = append(rules, v.Rule)
				}
			}
			slices.Sort(rules)
			want := slices.Sorted(slices.Values(test.rules))
			if !slices.Equal(rules, want) {
				t.Errorf("broken are %v, want %v: %v", rules, want, found)
			}
		})
	}
}

// A story has all that is known of an operation.
func TestStory(t *testing.T) {
	facts := good(t)
	story := facts.Story("acme", "g1", one)
	for _, want := range []string{"re_1", "replay", "write at 2026-11-30T12:00:02.1", `"answer":"told"`} {
		if !strings.Contains(story, want) {
			t.Errorf("the story lacks %q:\n%s", want, story)
		}
	}
	if strings.Contains(story, two) {
		t.Errorf("the story has another operation:\n%s", story)
	}
}
