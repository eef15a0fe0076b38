package policy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy/policyfile"
)

// rule decides about requests.
type rule struct {
	id, reason string
	types      names
	when       *expr.Expression // nil: always
	effect     Effect
	approvals  int
	ttl        time.Duration // zero: the default
	spends     bool          // looks at what the action spends
}

// Names of variables that are more than a value.
const (
	varAction  = "action"
	varActor   = "actor"
	varRun     = "run"
	varLocal   = "local"
	varBudgets = "budgets"
	varAmount  = "amount"
	varArgs    = "args"
	varTenant  = "tenant"
	varNow     = "now"

	varCurrency     = "currency"
	varCounterparty = "counterparty"
	varIntentID     = "intent_id"
)

// ruleVariables are those that rules see.
func ruleVariables() []string {
	return []string{
		varAction, varArgs, varActor, varRun, varTenant, varNow, varLocal, varAmount, varCurrency, varCounterparty, varIntentID, varBudgets,
	}
}

// members are what the variables have that are objects of ours.
func members(variable string) []string {
	switch variable {
	case varAction:
		return []string{"type", "risk", "owner", "provider"}
	case varActor:
		return []string{"name", "roles"}
	case varRun:
		return []string{"id", "step", "agent", "tool_version", "attempt"}
	case varLocal:
		return []string{"weekday", "hour", "minute", "date"}
	}
	return nil
}

// budgetMembers are those of budgets["id"].
func budgetMembers() []string { return []string{"limit", "used", "left", "wanted", "after"} }

func (c *compiler) rule(field string, r policyfile.Rule) rule {
	c.id(field, r.ID)
	out := rule{id: r.ID, reason: r.Reason, types: c.types(field+".action_types", r.ActionTypes), ttl: r.TTL.Std()}
	switch r.Then {
	case "allow":
		out.effect = Allow
	case "require_approval":
		out.effect, out.approvals = RequireApproval, max(r.Approvals, 1)
	}
	if out.effect != RequireApproval {
		if r.Approvals != 0 {
			c.bad(field+".approvals", "goes with then: require_approval")
		}
		if r.TTL != 0 {
			c.bad(field+".ttl", "goes with then: require_approval")
		}
	}
	if strings.HasSuffix(r.Reason, ".") {
		c.bad(field+".reason", "want no full stop at its end: answers put it into a sentence")
	}
	if r.When == "" {
		return out
	}
	var err error
	if out.when, err = c.loader.rules.Expression(r.When); err != nil {
		c.bad(field+".when", "%v", err)
		return out
	}
	for _, use := range out.when.Uses() {
		c.use(field+".when", use)
		out.spends = out.spends || use.Variable == varAmount || use.Variable == varCurrency
	}
	return out
}

// use finds faults in what an expression reads: a name that is never there fails
// each request that comes by.
func (c *compiler) use(field string, use expr.Use) {
	if len(use.Path) == 0 {
		return
	}
	if known := members(use.Variable); known != nil && !slices.Contains(known, use.Path[0]) {
		c.bad(field, "%s has no %s; it has %s", use.Variable, use.Path[0], strings.Join(known, ", "))
	}
	if use.Variable != varBudgets {
		return
	}
	if !slices.ContainsFunc(c.file.Budgets, func(b policyfile.Budget) bool { return b.ID == use.Path[0] }) {
		c.bad(field, "there is no budget %q in this policy", use.Path[0])
	}
	if len(use.Path) > 1 && !slices.Contains(budgetMembers(), use.Path[1]) {
		c.bad(field, "a budget has no %s; it has %s", use.Path[1], strings.Join(budgetMembers(), ", "))
	}
}

// mistyped finds a condition whose types cannot fit: it would refuse every request
// that comes to it. It is tried on a request without arguments, so that what
// depends on arguments is found by tables of cases only.
func (c *compiler) mistyped(field string, p *Policy, when *expr.Expression) {
	r := &Request{Action: &Action{}}
	for _, b := range c.file.Budgets {
		r.Use = append(r.Use, ledger.BudgetUse{Charge: ledger.Charge{Budget: b.ID, Limit: "2", Amount: "1"}, Used: "0"})
	}
	if problem := when.Mistyped(p.variables(r, &facts{amount: "1", currency: "USD", values: map[string]any{}})); problem != "" {
		c.bad(field, "%s (amounts and budgets are compared, never calculated with)", problem)
	}
}

// read notes which variables a condition looks at, so that others are not made.
func (p *Policy) read(when *expr.Expression) {
	for _, name := range ruleVariables() {
		if when.Reads(name) && !slices.Contains(p.reads, name) {
			p.reads = append(p.reads, name)
		}
	}
}

// variables are what the rules look at of a request.
func (p *Policy) variables(r *Request, f *facts) expr.Vars {
	vars := make(expr.Vars, len(p.reads))
	for _, name := range p.reads {
		vars[name] = p.variable(name, r, f)
	}
	return vars
}

func (p *Policy) variable(name string, r *Request, f *facts) any {
	spec := &r.Action.Spec
	switch name {
	case varAction:
		return map[string]any{"type": spec.Type, "risk": spec.Risk.String(), "owner": spec.Owner, "provider": spec.Contract.Provider}
	case varArgs:
		return f.args()
	case varActor:
		roles := make([]any, len(r.Principal.Roles))
		for i, role := range r.Principal.Roles {
			roles[i] = string(role)
		}
		return map[string]any{"name": r.Principal.Actor, "roles": roles}
	case varRun:
		return map[string]any{
			"id": r.Run.RunID, "step": r.Run.StepID, "agent": r.Run.Agent, "tool_version": r.Run.ToolVersion, "attempt": r.Run.Attempt,
		}
	case varTenant:
		return r.Principal.Tenant
	case varNow:
		return r.At.UTC()
	case varLocal:
		local := r.At.In(p.location())
		return map[string]any{
			"weekday": strings.ToLower(local.Weekday().String()), "hour": local.Hour(), "minute": local.Minute(), "date": local.Format(time.DateOnly),
		}
	case varAmount:
		return expr.Decimal(cmp.Or(f.amount, "0"))
	case varCurrency:
		return f.currency
	case varCounterparty:
		return f.counterparty
	case varIntentID:
		return r.IntentID
	case varBudgets:
		return budgetVariables(r.Use)
	}
	return nil // no rule compiles that reads another
}

func (p *Policy) location() *time.Location {
	if p.zone == nil {
		return time.UTC
	}
	return p.zone
}

// budgetVariables leaves out what is no number, so that a rule that reads it
// refuses.
func budgetVariables(uses []ledger.BudgetUse) map[string]any {
	out := map[string]any{}
	for _, u := range uses {
		left, ok1 := less(u.Limit, u.Used)
		after, ok2 := less(left, u.Amount)
		if !ok1 || !ok2 {
			continue
		}
		out[u.Budget] = map[string]any{
			"limit": expr.Decimal(u.Limit), "used": expr.Decimal(u.Used), "left": expr.Decimal(left),
			"wanted": expr.Decimal(u.Amount), "after": expr.Decimal(after),
		}
	}
	return out
}

// ruling is what the rules come to.
type ruling struct {
	denied    *rule
	err       error // why denied could not be decided
	approving *rule // the first that asks for most approvals
	ttl       time.Duration
	allowing  *rule // the first
}

// judge asks the rules in their order. The first that denies, or fails, ends it.
func (p *Policy) judge(r *Request, f *facts) ruling {
	var out ruling
	var vars expr.Vars
	spec := &r.Action.Spec
	for i := range p.rules {
		rule := &p.rules[i]
		if !rule.types.has(spec.Type) || rule.effect == Allow && rule.spends && !f.spends {
			// An action type that says no amount is not allowed for spending little.
			continue
		}
		if rule.when != nil {
			if vars == nil {
				vars = p.variables(r, f)
			}
			holds, err := rule.when.Bool(vars)
			if err != nil {
				return ruling{denied: rule, err: err}
			}
			if !holds {
				continue
			}
		}
		switch rule.effect {
		case Deny:
			return ruling{denied: rule}
		case RequireApproval:
			out.approve(rule)
		case Allow:
			if out.allowing == nil {
				out.allowing = rule
			}
		}
	}
	return out
}

// approve adds a rule that asks for approval: most approvals and the shortest time
// count.
func (o *ruling) approve(r *rule) {
	if o.approving == nil || r.approvals > o.approving.approvals {
		o.approving = r
	}
	ttl := r.ttl
	if ttl == 0 {
		ttl = actions.DefaultApprovalTTL
	}
	if o.ttl == 0 || ttl < o.ttl {
		o.ttl = ttl
	}
}
