package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/internal/strictyaml"
	"github.com/onceward/onceward/policy/policyfile"
)

// source is the file of a policy.
type source struct {
	doc  *strictyaml.Document
	file *policyfile.File
}

// Check finds what does not fit the action types that there are: names that none
// has, prefixes that none begins with, budgets that cannot be counted and rules that
// cannot see what they look at for the types that they name, intents that a note
// could change or that show what is sensitive. Where a policy is written these are faults. A server that finds
// them goes on, since action types may come later and none is let through by them.
func (p *Policies) Check(specs []actions.Spec) []strictyaml.Fault {
	byType := map[string]actions.Spec{}
	for _, s := range specs {
		byType[s.Type] = s
	}
	var faults []strictyaml.Fault
	for _, tenant := range p.Tenants() {
		if own := p.tenants[tenant]; own.source != nil {
			c := &fitting{own.source, own, byType, nil}
			c.check()
			faults = append(faults, c.faults...)
		}
	}
	return strictyaml.Sorted(faults)
}

// fitting compares one policy with the action types.
type fitting struct {
	*source
	policy *Policy
	specs  map[string]actions.Spec
	faults []strictyaml.Fault
}

func (c *fitting) bad(field, format string, args ...any) {
	c.faults = append(c.faults, c.doc.Fault(field, fmt.Sprintf(format, args...)))
}

func (c *fitting) check() {
	f := c.file
	if f.Stages != nil {
		for _, pattern := range slices.Sorted(maps.Keys(f.Stages.ActionTypes)) {
			c.known(c.doc.Field("stages", "action_types", pattern), pattern)
		}
	}
	for i, g := range f.Allow {
		c.list(at("allow", i), g.ActionTypes)
	}
	for i, r := range f.Rules {
		c.list(at("rules", i), r.ActionTypes)
		c.visible(at("rules", i), r, &c.policy.rules[i])
	}
	for i, b := range f.Budgets {
		c.list(at("budgets", i), b.ActionTypes)
		c.countable(at("budgets", i), b)
	}
	for i, b := range f.PerOperation {
		c.list(at("per_operation", i), b.ActionTypes)
	}
	for i, in := range f.Intents {
		for _, actionType := range slices.Sorted(maps.Keys(in.Actions)) {
			field := c.doc.Field("intents", index(i), "actions", actionType)
			if c.known(field, actionType) {
				c.shared(field, in, actionType)
			}
			for _, own := range c.policy.intents[actionType] {
				if own.name == in.Name {
					c.identifying(field, own, c.specs[actionType])
				}
			}
		}
	}
}

func (c *fitting) list(field string, patterns []string) {
	for i, p := range patterns {
		c.known(at(field+".action_types", i), p)
	}
}

// known finds a name that no action type has.
func (c *fitting) known(field, pattern string) bool {
	if pattern == "*" {
		return true
	}
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		for name := range c.specs {
			if strings.HasPrefix(name, prefix) {
				return true
			}
		}
		c.bad(field, "no action type begins with %s", prefix)
		return false
	}
	if _, ok := c.specs[pattern]; !ok {
		c.bad(field, "there is no action type %s", pattern)
		return false
	}
	return true
}

// countable finds action types that a budget names and cannot count.
func (c *fitting) countable(field string, b policyfile.Budget) {
	for i, name := range b.ActionTypes {
		spec, ok := c.specs[name]
		if !ok {
			continue
		}
		if b.Of == ofSpend && spec.Spending.Amount == "" {
			c.bad(at(field+".action_types", i), "%s says no amount: this budget never counts it", name)
		}
		if slices.Contains(b.Per, perCounterparty) && spec.Spending.Counterparty == "" {
			c.bad(at(field+".action_types", i), "%s says no counterparty: every request is refused by this budget", name)
		}
	}
}

// visible finds action types that a rule names and about which it sees nothing: an
// amount is 0 there, and a counterparty nobody, so that what should be stopped is not.
func (c *fitting) visible(field string, r policyfile.Rule, compiled *rule) {
	if compiled.when == nil {
		return
	}
	for i, name := range r.ActionTypes {
		spec, ok := c.specs[name]
		if !ok {
			continue
		}
		if compiled.spends && spec.Spending.Amount == "" {
			c.bad(at(field+".action_types", i), "%s says no amount, and the rule looks at it", name)
		}
		if compiled.when.Reads(varCounterparty) && spec.Spending.Counterparty == "" {
			c.bad(at(field+".action_types", i), "%s says no counterparty, and the rule looks at it", name)
		}
	}
}

// identifying finds parts of an intent that come from an argument which identifies
// nothing, or which nobody should see.
func (c *fitting) identifying(field string, in intent, spec actions.Spec) {
	for _, part := range in.parts {
		for _, use := range part.value.Uses() {
			if use.Variable != varArgs || len(use.Path) == 0 {
				continue
			}
			own := field + "." + part.name
			if slices.Contains(spec.AdvisoryArgs, use.Path[0]) {
				c.bad(own, "the argument %s of %s is advisory: who rephrases it would pass by the intent", use.Path[0], spec.Type)
			}
			if spec.Hides(strings.Join(use.Path, ".")) && !strings.Contains(part.value.String(), "sha256hex(") {
				c.bad(own, "the argument %s of %s is sensitive, and the text of the intent would show it: write sha256hex(...)", strings.Join(use.Path, "."), spec.Type)
			}
		}
	}
}

// shared finds an intent of the policy that an action type has under the same name
// with other parts: the two never meet.
func (c *fitting) shared(field string, in policyfile.Intent, actionType string) {
	own := slices.Sorted(maps.Keys(in.Actions[actionType]))
	for _, name := range slices.Sorted(maps.Keys(c.specs)) {
		for _, other := range c.specs[name].Intents {
			var parts []string
			for _, p := range other.Parts {
				parts = append(parts, p.Name)
			}
			slices.Sort(parts)
			if other.Name == in.Name && !slices.Equal(parts, own) {
				c.bad(field, "the action type %s has the intent %s with the parts %s: these never meet", name, in.Name, strings.Join(parts, ", "))
			}
		}
	}
}
