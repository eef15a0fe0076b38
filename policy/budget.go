package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy/policyfile"
)

// Who has a budget of their own.
const (
	perTenant       = "tenant"
	perActor        = "actor"
	perRun          = "run"
	perActionType   = "action_type"
	perCounterparty = "counterparty"
)

// What a budget counts.
const (
	ofSpend    = "spend"
	ofCalls    = "calls"
	ofOpen     = "open"
	ofRequests = "requests"
)

// Limits of sliding windows (ledger.Window).
const (
	minSliding = time.Second
	maxSliding = 400 * 24 * time.Hour
)

// maxSubject bounds the subject of a charge, in bytes (ledger.Charge).
const maxSubject = 300

// budget bounds what is spent, or how often something happens.
type budget struct {
	id, of, currency, limit string
	kind                    ledger.ChargeKind
	types                   names
	per                     []string // sorted, without the tenant
	window                  ledger.Window
}

func (c *compiler) budget(field string, b policyfile.Budget) budget {
	c.id(field, b.ID)
	limit, problem := amountOf(string(b.Limit))
	if problem != "" {
		c.bad(field+".limit", "%s", problem)
	}
	out := budget{id: b.ID, of: b.Of, currency: b.Currency, limit: limit, kind: kindOf(b.Of), types: c.types(field+".action_types", b.ActionTypes)}
	for i, per := range b.Per {
		switch per {
		case perTenant:
		case perActor, perRun, perActionType, perCounterparty:
			out.per = append(out.per, per)
		default:
			c.bad(at(field+".per", i), "%q: want tenant, actor, run, action_type or counterparty", per)
		}
	}
	slices.Sort(out.per)
	switch {
	case b.Of == ofSpend && b.Currency == "":
		c.bad(field, "a budget of spend wants a currency: amounts of different currencies cannot be added")
	case b.Of != ofSpend && b.Currency != "":
		c.bad(field+".currency", "goes with of: spend")
	case b.Of != ofSpend && strings.Contains(limit, "."):
		c.bad(field+".limit", "want a whole number: %s counts", b.Of)
	}
	out.window = c.window(field, b)
	return out
}

func kindOf(of string) ledger.ChargeKind {
	switch of {
	case ofOpen:
		return ledger.ChargeOpen
	case ofRequests:
		return ledger.ChargeRate
	default:
		return ledger.ChargeUse
	}
}

func (c *compiler) window(field string, b policyfile.Budget) ledger.Window {
	w := b.Window
	switch {
	case w == nil && b.Of != ofOpen && !slices.Contains(b.Per, perRun):
		c.bad(field, "want a window, such as {calendar: day} or {sliding: 24h}: only a budget per run, and one of open, ends by itself")
		return ledger.Window{}
	case w == nil:
		return ledger.Window{}
	}
	field += ".window"
	switch {
	case b.Of == ofOpen:
		c.bad(field, "a budget of open operations has none: it counts those of now")
	case (w.Calendar == "") == (w.Sliding == 0):
		c.bad(field, "want exactly one of calendar and sliding")
	case w.Sliding != 0 && (w.Sliding.Std() < minSliding || w.Sliding.Std() > maxSliding):
		c.bad(field+".sliding", "want 1s to 400d")
	case w.Calendar != "":
		return ledger.Window{Unit: w.Calendar, Zone: c.file.TimeZone}
	}
	return ledger.Window{Sliding: w.Sliding.Std()}
}

// windowName says the kind of a window within a counter.
func windowName(w ledger.Window) string {
	switch {
	case w.Unit != "":
		return w.Unit + " " + w.Zone
	case w.Sliding != 0:
		return w.Sliding.String()
	default:
		return "none"
	}
}

// charge is the part of a budget that a request takes. The field names what is
// missing for it.
func (b *budget) charge(r *Request, f *facts) (charge ledger.Charge, missing string) {
	var who []actions.IntentPart
	for _, per := range b.per {
		value := ""
		switch per {
		case perActor:
			value = r.Principal.Actor
		case perRun:
			value = r.Run.RunID
		case perActionType:
			value = r.Action.Spec.Type
		case perCounterparty:
			value = f.counterparty
		}
		if value == "" {
			return charge, per
		}
		who = append(who, actions.IntentPart{Name: per, Value: value})
	}
	amount := "1"
	if b.of == ofSpend {
		amount = f.amount
	}
	return ledger.Charge{
		Budget: b.id, Subject: subject(who), Counter: b.counter(who),
		Kind: b.kind, Amount: amount, Limit: b.limit, Window: b.window,
	}, ""
}

// counter is where a charge is counted: a text that no two budgets, subjects,
// currencies, kinds or windows share. It is composed as an intent's text is, which
// escapes the parts and bounds the whole.
func (b *budget) counter(who []actions.IntentPart) string {
	parts := append(slices.Clone(who),
		actions.IntentPart{Name: "of", Value: b.of},
		actions.IntentPart{Name: "window", Value: windowName(b.window)})
	if b.currency != "" {
		parts = append(parts, actions.IntentPart{Name: "currency", Value: b.currency})
	}
	return actions.ComposeIntent(b.id, parts)
}

// subject says whose part of a budget it is, for people: it need not be whole.
func subject(who []actions.IntentPart) string {
	if len(who) == 0 {
		return perTenant
	}
	text := strings.TrimPrefix(actions.ComposeIntent("", who), "|")
	if len(text) > maxSubject {
		text = text[:maxSubject-3] + "..."
	}
	return text
}

// counts reports whether a request is charged to the budget.
func (b *budget) counts(actionType string, f *facts) bool {
	if !b.types.has(actionType) {
		return false
	}
	return b.of != ofSpend || f.spends && f.currency == b.currency
}
