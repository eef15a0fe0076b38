package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/chaos/history"
	"github.com/onceward/onceward/internal/auditchain"
	"github.com/onceward/onceward/ledger"
)

// Rule names what was broken. The law of the design is behind each.
type Rule string

// The rules.
const (
	OneEffect      Rule = "one_effect"     // L1: at most one effect of an operation
	OneEffectOfKey Rule = "one_key"        // L1: at most one operation with an effect of a caller's key
	Succeeded      Rule = "succeeded"      // L3: a success has one effect, the one that its receipt names
	Failed         Rule = "failed"         // L3: a failure has none
	LedgerFirst    Rule = "ledger_first"   // L2: no write without a claim before it
	SameRequest    Rule = "same_request"   // what is sent was frozen at the first attempt
	ReceiptLost    Rule = "receipt_lost"   // L6: a receipt that somebody was told is in the ledger
	Register       Rule = "register"       // L5, L6: the calls of a key fit one order
	Undecided      Rule = "undecided"      // the search for that order took too long
	Chain          Rule = "chain"          // L11: the audit record is whole
	EventOfMove    Rule = "event_of_move"  // L11: each move has an event, and ends where the row is
	BudgetExact    Rule = "budget"         // L8: what is used is what was spent; nothing is held
	Stuck          Rule = "stuck"          // nothing is open
	Stopped        Rule = "stopped"        // no claim while a kill switch was set
	Incident       Rule = "incident"       // two receipts, or an effect of what was called failed
	OwnAnswer      Rule = "own_answer"     // L6, L10: callers are told of what they asked for, as it is on record
	Unheard        Rule = "unknown_effect" // an effect of no operation
	WrongAnswer    Rule = "wrong_answer"   // an answer that no caller should get
	Died           Rule = "died"           // no replica ends by itself, whatever is broken around it
	IntentTwice    Rule = "intent"         // one effect of an intent
)

// Violation is one thing that was broken.
type Violation struct {
	Rule        Rule   `json:"rule"`
	Tenant      string `json:"tenant,omitempty"`
	Key         string `json:"key,omitempty"`
	OperationID string `json:"operation_id,omitempty"`
	Detail      string `json:"detail"`
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s of %s (operation %s): %s", v.Rule, v.Key, v.Tenant, v.OperationID, v.Detail)
}

// patience is how long the search for an order of one key's calls may take.
const patience = 20 * time.Second

// Judge returns everything that was broken, nothing where all laws held.
func Judge(f Facts) []Violation {
	c := &court{Facts: f, operations: map[string]*Operation{}, effects: map[string][]Effect{}, writes: map[string][]Write{}, events: map[string][]auditchain.Event{}}
	for i := range f.Operations {
		c.operations[f.Operations[i].ID] = &f.Operations[i]
	}
	for _, e := range f.Effects {
		c.effects[e.OperationID] = append(c.effects[e.OperationID], e)
	}
	for _, w := range f.Writes {
		c.writes[w.OperationID] = append(c.writes[w.OperationID], w)
	}
	for _, e := range f.Events {
		c.events[e.OperationID] = append(c.events[e.OperationID], e)
	}
	for i := range f.Operations {
		op := &f.Operations[i]
		c.target(op)
		c.sent(op)
		c.record(op)
	}
	c.keys()
	c.strangers()
	c.receipts()
	c.answers()
	c.registers()
	c.chains()
	c.stops()
	c.budgets()
	for _, how := range f.Died {
		c.find(nil, Died, "%s: see its log", how)
	}
	for _, wrong := range f.Wrong {
		c.find(nil, WrongAnswer, "%s", wrong)
	}
	return c.found
}

// court looks at the facts, and remembers what it found.
type court struct {
	Facts
	operations map[string]*Operation
	effects    map[string][]Effect
	writes     map[string][]Write
	events     map[string][]auditchain.Event
	found      []Violation
}

func (c *court) find(op *Operation, rule Rule, format string, args ...any) {
	v := Violation{Rule: rule, Detail: fmt.Sprintf(format, args...)}
	if op != nil {
		v.Tenant, v.Key, v.OperationID = op.Tenant, op.Key, op.ID
	}
	c.found = append(c.found, v)
}

// target holds what the target has of an operation against its state.
func (c *court) target(op *Operation) {
	effects := c.effects[op.ID]
	if len(effects) > 1 {
		c.find(op, OneEffect, "the target holds %d effects: %v", len(effects), effects)
	}
	if op.HasIncident && !op.Lied {
		c.find(op, Incident, "the ledger has an incident on it")
	}
	switch op.State {
	case ledger.Succeeded:
		switch {
		case len(effects) == 0:
			c.find(op, Succeeded, "it has succeeded with reference %q, and the target holds nothing", op.Reference)
		case effects[0].ID != op.Reference:
			c.find(op, Succeeded, "its reference is %q, and the target's is %q", op.Reference, effects[0].ID)
		}
		if op.Effect != ledger.EffectApplied {
			c.find(op, Succeeded, "it has succeeded with the effect %q", op.Effect)
		}
	case ledger.Failed:
		if len(effects) > 0 {
			c.find(op, Failed, "it has failed (%s), and the target holds %v", op.Failure, effects)
		}
		if op.Effect != ledger.EffectNone && op.Effect != ledger.EffectNotApplied {
			c.find(op, Failed, "it has failed (%s) with the effect %q", op.Failure, op.Effect)
		}
	default:
		c.find(op, Stuck, "it is %s, and all faults are healed", op.State)
	}
}

// sent holds what the target received against the claims on record.
func (c *court) sent(op *Operation) {
	var claims []time.Time
	requests := 1 // different ones: each correction is another
	for _, e := range c.events[op.ID] {
		if e.Event == string(ledger.Correct) {
			requests++
		}
		if e.Event == string(ledger.Claim) || e.Event == string(ledger.Replay) {
			at, err := time.Parse(time.RFC3339Nano, e.At)
			if err != nil {
				c.find(op, Chain, "event %d has no time: %v", e.Sequence, err)
			}
			claims = append(claims, at)
		}
	}
	bodies := map[string]bool{}
	for i, w := range c.writes[op.ID] {
		before := 0
		for _, at := range claims {
			if !at.After(w.At) {
				before++
			}
		}
		if before <= i {
			c.find(op, LedgerFirst, "write %d came to the target at %s, and %d attempts were claimed by then", i+1, w.At.Format(time.RFC3339Nano), before)
		}
		bodies[w.BodyHash] = true
	}
	if len(bodies) > requests {
		c.find(op, SameRequest, "its writes had %d different bodies, and %d were asked for", len(bodies), requests)
	}
}

// record holds the audit record of an operation against its row.
func (c *court) record(op *Operation) {
	events := c.events[op.ID]
	state, attempts := "", 0
	for _, e := range events {
		if e.From != state {
			c.find(op, EventOfMove, "event %d (%s) begins in %q, and the one before ended in %q", e.Sequence, e.Event, e.From, state)
		}
		if next, ok := ledger.Next(ledger.State(e.From), ledger.Event(e.Event)); ok && string(next) != e.To || !ok && e.From != e.To {
			c.find(op, EventOfMove, "event %d is no move of the state machine: %s from %q to %q", e.Sequence, e.Event, e.From, e.To)
		}
		state = e.To
		if e.Event == string(ledger.Claim) || e.Event == string(ledger.Replay) {
			attempts++
		}
	}
	if state != string(op.State) {
		c.find(op, EventOfMove, "the record ends in %q, and the row is %q", state, op.State)
	}
	if attempts != op.Attempts {
		c.find(op, EventOfMove, "the record has %d attempts, and the row %d", attempts, op.Attempts)
	}
}

// keys looks for two effects of one thing that callers wanted once.
func (c *court) keys() {
	type name struct{ tenant, key string }
	first := map[name]*Operation{}
	intents := map[name]*Operation{}
	for i := range c.Operations {
		op := &c.Operations[i]
		if op.Key != "" {
			n := name{op.Tenant, op.Key}
			if before := first[n]; before != nil {
				c.find(op, OneEffectOfKey, "operation %s is for the same thing", before.ID)
			}
			first[n] = op
		}
		if op.Intent != "" && len(c.effects[op.ID]) > 0 {
			n := name{op.Tenant, op.Intent}
			if before := intents[n]; before != nil {
				c.find(op, IntentTwice, "operation %s has an effect under the intent %s as well", before.ID, op.Intent)
			}
			intents[n] = op
		}
	}
}

// strangers are effects and writes of operations that the ledger does not know.
func (c *court) strangers() {
	for id, effects := range c.effects {
		if c.operations[id] == nil {
			c.find(nil, Unheard, "the ledger does not know operation %q of %v", id, effects)
		}
	}
	for id, writes := range c.writes {
		if c.operations[id] == nil {
			c.find(nil, LedgerFirst, "the ledger does not know operation %q of %d writes", id, len(writes))
		}
	}
}

// receipts looks for every receipt that somebody was told.
func (c *court) receipts() {
	for _, call := range c.Calls {
		if call.Answer != history.Told || call.State != ledger.Succeeded {
			continue
		}
		op := c.operations[call.OperationID]
		switch {
		case op == nil:
			c.find(&Operation{Tenant: call.Tenant, Key: call.Key, ID: call.OperationID}, ReceiptLost, "a caller has the receipt of an operation that the ledger does not know: %s", call)
		case op.State != ledger.Succeeded || op.Receipt != call.Receipt || op.Reference != call.Reference:
			c.find(op, ReceiptLost, "a caller was told another receipt than the ledger holds (%s, %q): %s", op.State, op.Receipt, call)
		}
	}
}

// answers holds what callers were told against what they asked for: the operation is on
// record, it is of their tenant and their key, a failure is in its record, the money is
// what they asked for, and one caller at most was told that its request was the first.
func (c *court) answers() {
	firsts := map[string]int{}
	for _, call := range c.Calls {
		if call.Answer != history.Told {
			continue
		}
		op := c.operations[call.OperationID]
		if op == nil {
			if call.State != ledger.Succeeded { // receipts says the rest
				c.find(&Operation{Tenant: call.Tenant, Key: call.Key, ID: call.OperationID}, OwnAnswer, "a caller was told of an operation that the ledger does not know: %s", call)
			}
			continue
		}
		if op.Tenant != call.Tenant || op.Key != call.Key {
			c.find(op, OwnAnswer, "a caller was told of it who asked for %s of %s: %s", call.Key, call.Tenant, call)
		}
		if call.State == ledger.Failed && !slices.ContainsFunc(c.events[op.ID], func(e auditchain.Event) bool { return e.To == string(ledger.Failed) }) {
			c.find(op, OwnAnswer, "a caller was told that it has failed, and the record has no such move: %s", call)
		}
		if call.Kind == history.Request && call.State == ledger.Succeeded && call.Cents != 0 {
			for _, e := range c.effects[op.ID] {
				if e.Cents != call.Cents {
					c.find(op, OwnAnswer, "a caller asked for %d cents and was told of success, and %d were moved", call.Cents, e.Cents)
				}
			}
		}
		if !call.Corrects && (call.Disposition == "EXECUTED" || call.Disposition == "ACCEPTED") {
			if firsts[op.ID]++; firsts[op.ID] == 2 {
				c.find(op, OwnAnswer, "two callers were told that theirs was the first request: %s", call)
			}
		}
	}
}

// registers looks for an order of the calls of each key.
func (c *court) registers() {
	for _, f := range history.Check(c.Calls, patience) {
		op := &Operation{Tenant: f.Tenant, Key: f.Key}
		for i := range c.Operations {
			if c.Operations[i].Tenant == f.Tenant && c.Operations[i].Key == f.Key {
				op = &c.Operations[i]
			}
		}
		if f.Undecided {
			c.find(op, Undecided, "no order of its calls was found in %s, and none was ruled out", patience)
			continue
		}
		c.find(op, Register, "what callers were told fits no order of their calls")
	}
}

// chains verifies the whole audit record.
func (c *court) chains() {
	verifier := &auditchain.Verifier{Found: func(p auditchain.Problem) {
		op := c.operations[p.OperationID]
		if op == nil {
			op = &Operation{Tenant: p.Tenant, ID: p.OperationID}
		}
		c.find(op, Chain, "%s", p)
	}}
	for _, e := range c.Events {
		verifier.Add(e)
	}
	verifier.End()
}

// stops looks for claims while a kill switch was set.
func (c *court) stops() {
	for id, events := range c.events {
		op := c.operations[id]
		if op == nil {
			continue // of a refusal, or of the switch itself
		}
		for _, e := range events {
			at, err := time.Parse(time.RFC3339Nano, e.At)
			if err != nil || e.Event != string(ledger.Claim) && e.Event != string(ledger.Replay) {
				continue
			}
			if i := slices.IndexFunc(c.Stops, func(s Stop) bool {
				return s.Tenant == op.Tenant && s.ActionType == op.ActionType && at.After(s.From) && at.Before(s.To)
			}); i >= 0 {
				c.find(op, Stopped, "attempt %d was claimed at %s, and was stopped from %s to %s", e.Attempt, e.At,
					c.Stops[i].From.UTC().Format(time.RFC3339Nano), c.Stops[i].To.UTC().Format(time.RFC3339Nano))
			}
		}
	}
}

// budgets holds the counters against what was spent.
func (c *court) budgets() {
	for _, b := range c.Budgets {
		if b.Held != 0 {
			c.find(&Operation{Tenant: b.Tenant}, BudgetExact, "counter %s holds %d hundredths, and nothing is open", b.Counter, b.Held)
		}
		if b.Used != b.Want {
			c.find(&Operation{Tenant: b.Tenant}, BudgetExact, "counter %s has %d hundredths used, and the target holds %d", b.Counter, b.Used, b.Want)
		}
	}
}

// Story is everything that is known of an operation, in lines: what callers were
// told, the audit record, and what the target received and holds.
func (f Facts) Story(tenant, key, id string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "operation %s, key %s of %s\n", id, key, tenant)
	for _, op := range f.Operations {
		if op.ID == id || op.Tenant == tenant && op.Key == key && key != "" {
			fmt.Fprintf(&b, "ledger: %+v\n", op)
		}
	}
	b.WriteString("callers (times since the beginning):\n")
	for _, c := range f.Calls {
		if c.Tenant == tenant && c.Key == key && key != "" {
			fmt.Fprintf(&b, "  %10s – %10s %s\n", c.Invoked.Round(time.Millisecond), c.Returned.Round(time.Millisecond), c)
		}
	}
	b.WriteString("audit record:\n")
	for _, e := range f.Events {
		if e.OperationID == id {
			fmt.Fprintf(&b, "  %d %s %s: %q → %q attempt %d epoch %d by %s: %s\n", e.Sequence, e.At, e.Event, e.From, e.To, e.Attempt, e.Epoch, e.Actor, e.Detail)
		}
	}
	b.WriteString("target:\n")
	for _, w := range f.Writes {
		if w.OperationID == id {
			fmt.Fprintf(&b, "  write at %s: fault %s, status %d, effect %q\n", w.At.UTC().Format(time.RFC3339Nano), w.Fault, w.Status, w.EffectID)
		}
	}
	for _, e := range f.Effects {
		if e.OperationID == id {
			fmt.Fprintf(&b, "  effect %s at %s on %s\n", e.ID, e.At.UTC().Format(time.RFC3339Nano), e.About)
		}
	}
	return b.String()
}
