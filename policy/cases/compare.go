package cases

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
	"github.com/onceward/onceward/policy/policyfile"
)

// compare says what was decided otherwise than wanted.
func compare(want *policyfile.Want, wantsCharges bool, got *policy.Decision, use []ledger.BudgetUse) []string {
	var out []string
	differs := func(what string, is, should any) {
		out = append(out, fmt.Sprintf("%s is %v, want %v", what, is, should))
	}
	if got.Effect.String() != want.Effect {
		differs("effect", got.Effect, want.Effect)
	}
	if want.Rule != "" && got.Rule != want.Rule {
		differs("rule", got.Rule, want.Rule)
	}
	if len(out) > 0 {
		out = append(out, "reason: "+why(got))
	}
	if want.Stage != "" && string(got.Stage) != want.Stage {
		differs("stage", got.Stage, want.Stage)
	}
	if want.Approvals != 0 && got.Approvals != want.Approvals {
		differs("approvals", got.Approvals, want.Approvals)
	}
	if want.TTL != 0 && got.ApprovalTTL != want.TTL.Std() {
		differs("ttl", policyfile.Duration(got.ApprovalTTL), want.TTL)
	}
	if want.Amount != "" && !sameNumber(got.Amount, string(want.Amount)) {
		differs("amount", orNone(got.Amount), want.Amount)
	}
	if want.Currency != "" && got.Currency != want.Currency {
		differs("currency", orNone(got.Currency), want.Currency)
	}
	if wantsCharges {
		out = append(out, compareCharges(want.Charges, got.Holds.Charges)...)
	}
	if want.Fits != nil {
		if full := exhausted(got.Holds.Charges, use); (full == "") != *want.Fits {
			if full != "" {
				differs("fits", "false ("+full+" is exhausted)", *want.Fits)
			} else {
				differs("fits", true, *want.Fits)
			}
		}
	}
	if want.Intents != nil {
		compareLists("intents", intentsOf(got), want.Intents, differs)
	}
	if want.Violations != nil {
		compareLists("violations", fieldsOf(got), want.Violations, differs)
	}
	return out
}

// why is the reason of a decision, with what only its author should see.
func why(d *policy.Decision) string {
	text := d.Reason
	for _, v := range d.Violations {
		text += "; " + v.Field + " " + v.Message
	}
	if d.Err != nil {
		text += ": " + strings.ReplaceAll(d.Err.Error(), "\n", " ")
	}
	return text
}

func orNone(text string) string { return cmpOr(text, "none") }

func compareCharges(want map[string]policyfile.Decimal, got []ledger.Charge) []string {
	var out []string
	has := map[string]string{}
	for _, c := range got {
		has[c.Budget] = c.Amount
		if _, ok := want[c.Budget]; !ok {
			out = append(out, fmt.Sprintf("charges %s to the budget %s of %s, want nothing", c.Amount, c.Budget, c.Subject))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if !sameNumber(has[id], string(want[id])) {
			out = append(out, fmt.Sprintf("charges %s to the budget %s, want %s", cmpOr(has[id], "nothing"), id, want[id]))
		}
	}
	return out
}

// exhausted is the first budget into which its charge does not fit; empty: all fit.
func exhausted(charges []ledger.Charge, use []ledger.BudgetUse) string {
	for _, u := range use {
		if !slices.ContainsFunc(charges, func(c ledger.Charge) bool { return c.Counter == u.Counter }) {
			continue
		}
		used, ok1 := new(big.Rat).SetString(u.Used)
		wanted, ok2 := new(big.Rat).SetString(u.Amount)
		limit, ok3 := new(big.Rat).SetString(u.Limit)
		if !ok1 || !ok2 || !ok3 || used.Add(used, wanted).Cmp(limit) > 0 {
			return u.Budget
		}
	}
	return ""
}

func compareLists(what string, got, want []string, differs func(string, any, any)) {
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		differs(what, "["+strings.Join(got, ", ")+"]", "["+strings.Join(want, ", ")+"]")
	}
}

func intentsOf(d *policy.Decision) []string {
	var out []string
	for _, f := range d.Holds.Fences {
		out = append(out, f.Intent)
	}
	return slices.Sorted(slices.Values(out))
}

func fieldsOf(d *policy.Decision) []string {
	var out []string
	for _, v := range d.Violations {
		out = append(out, v.Field)
	}
	return slices.Sorted(slices.Values(out))
}
