package forecast

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"
)

// Report is what enforcing would have done with a tenant's requests.
type Report struct {
	Tenant string    `json:"tenant"`
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	// Days is how long was observed: from the first observation of the span, or
	// from From where the first is not far from it, to To. At least an hour.
	Days float64 `json:"days"`
	// OperationSeconds is how long each operation is taken to be open.
	OperationSeconds float64      `json:"assumed_operation_seconds"`
	ActionTypes      []ActionType `json:"action_types"`
}

// ActionType is the part of one action type. The numbers are those of the span,
// not of a day: [Report.PerDay].
type ActionType struct {
	ActionType string `json:"action_type"`
	Requests   int64  `json:"requests"`

	// Each request is in one of these.
	Sent            int64   `json:"would_be_sent"`
	Approvals       int64   `json:"would_wait_for_approval"`
	Duplicates      int64   `json:"duplicates"`
	Mismatches      int64   `json:"mismatches"`
	Invalid         int64   `json:"invalid"`
	RefusedByRule   []Named `json:"refused_by_rule,omitempty"`
	RefusedByBudget []Named `json:"refused_by_budget,omitempty"`
	IntentOpen      int64   `json:"refused_intent_open"`
	IntentQuiet     int64   `json:"refused_intent_quiet"` // in the quiet time after a success, unless it says that it is distinct

	Money    []Money   `json:"money,omitempty"`
	Examples []Example `json:"examples,omitempty"`
	Verdict  string    `json:"verdict"`
}

// Named is how often one rule or budget decided.
type Named struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

// Money is what requests would have spent, in one currency, as exact decimals.
type Money struct {
	Currency   string `json:"currency"`
	Sent       string `json:"sent"`       // with those that wait for approval
	Duplicates string `json:"duplicates"` // once more than was meant
	Refused    string `json:"refused"`
}

// Example is a request that something would have happened to.
type Example struct {
	What          string    `json:"what"`
	ObservationID string    `json:"observation_id"`
	At            time.Time `json:"at"`
	RunID         string    `json:"run_id,omitempty"`
	StepID        string    `json:"step_id,omitempty"`
	Detail        string    `json:"detail,omitempty"`
}

// PerDay is a number of the span as one of a day.
func (r Report) PerDay(n int64) float64 { return float64(n) / r.Days }

// Report is what came of the requests so far, of one action type or, where it is
// empty, of all, those with most requests first.
func (s *Simulation) Report(actionType string) Report {
	from := s.options.From
	// A day without requests is a day; weeks before anybody watched are not.
	if !s.first.IsZero() && s.first.Sub(from) > 24*time.Hour {
		from = s.first
	}
	report := Report{
		Tenant: s.tenant, From: s.options.From, To: s.options.To, ActionTypes: []ActionType{},
		Days: max(s.options.To.Sub(from), time.Hour).Hours() / 24, OperationSeconds: s.options.OperationTime.Seconds(),
	}
	for name, sum := range s.sums {
		if actionType != "" && name != actionType {
			continue
		}
		t := sum.ActionType
		t.ActionType, t.Examples = name, slices.Concat(sum.examples...)
		t.RefusedByRule, t.RefusedByBudget = named(sum.rules), named(sum.budgets)
		for _, currency := range slices.Sorted(maps.Keys(sum.money)) {
			m := sum.money[currency]
			t.Money = append(t.Money, Money{Currency: currency, Sent: decimal(&m.sent), Duplicates: decimal(&m.duplicates), Refused: decimal(&m.refused)})
		}
		t.Verdict = verdict(t)
		report.ActionTypes = append(report.ActionTypes, t)
	}
	slices.SortFunc(report.ActionTypes, func(a, b ActionType) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.ActionType, b.ActionType))
	})
	return report
}

func named(counts map[string]int64) []Named {
	var list []Named
	for name, count := range counts {
		list = append(list, Named{name, count})
	}
	slices.SortFunc(list, func(a, b Named) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name)) })
	return list
}

// decimal writes an amount without zeros that say nothing.
func decimal(amount *big.Rat) string {
	text := amount.FloatString(places)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// places are the decimal places of amounts, as in ledger.Charge.
const places = 12

// Refused is how many requests would have been refused by policy, budget or
// intent: by a decision about them, not for a fault in them.
func (t ActionType) Refused() int64 {
	n := t.IntentOpen + t.IntentQuiet
	for _, named := range slices.Concat(t.RefusedByRule, t.RefusedByBudget) {
		n += named.Count
	}
	return n
}

// verdict is what enforcing would do, in a few sentences: what it prevents, what
// it stops, and what to mend before.
func verdict(t ActionType) string {
	var money []string
	for _, m := range t.Money {
		if m.Duplicates != "0" {
			money = append(money, m.Duplicates+" "+m.Currency)
		}
	}
	worth := ""
	if len(money) > 0 {
		worth = " worth " + strings.Join(money, " and ")
	}
	var b strings.Builder
	if t.Duplicates > 0 {
		fmt.Fprintf(&b, "Enforcing would prevent %s%s", counted(t.Duplicates, "duplicate"), worth)
	} else {
		b.WriteString("Enforcing would find no duplicates")
	}
	if stopped := t.Refused(); stopped > 0 {
		fmt.Fprintf(&b, ", refuse %s (%s of all)", counted(stopped, "request"), percent(stopped, t.Requests))
	}
	if t.Approvals > 0 {
		fmt.Fprintf(&b, ", and ask a reviewer %s", times(t.Approvals))
	}
	b.WriteString(".")
	var faults []string
	if t.Mismatches > 0 {
		faults = append(faults, counted(t.Mismatches, "request")+" with a key that was used for something else")
	}
	if t.Invalid > 0 {
		faults = append(faults, counted(t.Invalid, "request")+" with invalid arguments")
	}
	switch {
	case len(faults) > 0:
		fmt.Fprintf(&b, " Mend the callers first: whatever the policy says, %s would be refused.", strings.Join(faults, " and "))
	case t.Refused() == 0:
		b.WriteString(" Nothing that runs today would be refused.")
	}
	return b.String()
}

func counted(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func times(n int64) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	default:
		return fmt.Sprintf("%d times", n)
	}
}

func percent(part, whole int64) string {
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(max(whole, 1)))
}
