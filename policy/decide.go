package policy

import (
	"cmp"
	"slices"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// Ids of what decides beside the grants, rules and budgets of a file.
const (
	rulePrincipal    = "principal"    // the credential names nobody
	ruleRole         = "role"         // it may not request
	ruleNoPolicy     = "no_policy"    // the tenant has none
	ruleNotAllowed   = "not_allowed"  // no grant fits
	ruleActionType   = "action_type"  // everything is allowed
	ruleArguments    = "arguments"    // the arguments do not say what is needed
	ruleDefault      = "default"      // no rule allows it
	ruleCurrency     = "currency"     // no budget is in it
	ruleCounterparty = "counterparty" // a budget needs one

	ruleTypeApproval = "action_type.requires_approval"
)

// reserved reports whether an id would be taken for one of these.
func reserved(id string) bool {
	return slices.Contains([]string{
		rulePrincipal, ruleRole, ruleNoPolicy, ruleNotAllowed, ruleActionType, ruleArguments, ruleDefault, ruleCurrency, ruleCounterparty,
	}, id)
}

// DecideType answers what needs no arguments: whether a principal may request an
// action type at all. Where it allows, [Policy.Decide] has the last word; where it
// denies, so does Decide.
func (p *Policy) DecideType(who Principal, spec *actions.Spec) Decision {
	return p.screen(who, spec, func(grant) bool { return true })
}

// screen finds the first grant that fits and is fitting.
func (p *Policy) screen(who Principal, spec *actions.Spec, fitting func(grant) bool) Decision {
	d := Decision{Version: p.Version(), Stage: p.Stage(spec.Type)}
	deny := func(rule, reason string) Decision {
		d.Rule, d.Reason = rule, reason
		return d
	}
	switch {
	case who.Tenant == "" || who.Actor == "":
		return deny(rulePrincipal, "the credential names no tenant and actor")
	case !who.Has(Agent):
		return deny(ruleRole, "requesting actions wants the role agent")
	case p.allowAll:
		d.Effect, d.Rule, d.Reason = Allow, ruleActionType, "the action type is open to agents of the tenant"
		return d
	case p.version == "" || p.tenant != who.Tenant:
		// No stage either: in the stage observe a planner is told to go ahead by
		// itself, and neither a policy whose file is gone nor another's says that.
		d.Stage = ""
		return deny(ruleNoPolicy, "the tenant has no policy")
	}
	for _, g := range p.grants {
		if g.fits(who, spec.Type) && fitting(g) {
			d.Effect, d.Rule, d.Reason = Allow, g.id, "the policy lets this actor request the action type"
			return d
		}
	}
	return deny(ruleNotAllowed, "the policy does not let this actor request the action type")
}

// screenRequest is screen with the agent that the request names.
func (p *Policy) screenRequest(r *Request) Decision {
	return p.screen(r.Principal, &r.Action.Spec, func(g grant) bool { return g.fitsAgent(r.Run.Agent) })
}

// Charges are what a request would be charged to, before it is decided: for
// [Request.Use]. There are none where it is refused anyway.
func (p *Policy) Charges(r *Request) []ledger.Charge {
	if p.screenRequest(r).Effect == Deny {
		return nil
	}
	f := p.factsOf(r)
	if len(f.violations) > 0 {
		return nil
	}
	return f.charges
}

// Decide answers whether a request may be sent, and what it holds. The order: the
// principal and the grants; what the arguments must say; the rules, of which the
// first that denies or fails refuses; budgets that cannot be counted; approvals, of
// which the strictest is asked for. What the action type itself asks always holds.
func (p *Policy) Decide(r *Request) Decision {
	d := p.screenRequest(r)
	if d.Effect == Deny {
		return d
	}
	f := p.factsOf(r)
	d.Amount, d.Currency, d.Counterparty = f.amount, f.currency, f.counterparty
	deny := func(rule, reason string) Decision {
		d.Effect, d.Rule, d.Reason = Deny, rule, reason
		return d
	}
	if len(f.violations) > 0 {
		d.Violations = f.violations
		return deny(ruleArguments, "the arguments do not say what the action type and the policy need")
	}
	found := p.judge(r, f)
	switch {
	case found.err != nil:
		d.Err = found.err
		return deny(found.denied.id, "the rule cannot be decided for this request, and refuses what it cannot decide")
	case found.denied != nil:
		return deny(found.denied.id, found.denied.reason)
	case p.needsRule && found.allowing == nil && found.approving == nil:
		return deny(ruleDefault, "no rule of the policy allows it")
	case f.refusedBy != "":
		return deny(f.refusedBy, f.reason)
	}
	if found.allowing != nil {
		d.Rule, d.Reason = found.allowing.id, found.allowing.reason
	}
	d.askFor(found, &r.Action.Spec)
	d.Holds = ledger.Holds{Charges: f.charges, Fences: f.fenced}
	d.MaxAttempts, d.GiveUp = p.boundsOf(r.Action.Spec.Type)
	if d.Effect == RequireApproval && d.GiveUp > 0 {
		d.ApprovalTTL = min(d.ApprovalTTL, d.GiveUp) // a later yes would send nothing
	}
	return d
}

// askFor asks for the strictest approval of the rules and the action type.
func (d *Decision) askFor(found ruling, spec *actions.Spec) {
	if found.approving != nil {
		d.Effect, d.Rule, d.Reason = RequireApproval, found.approving.id, found.approving.reason
		d.Approvals, d.ApprovalTTL = found.approving.approvals, found.ttl
	}
	if !spec.RequiresApproval {
		return
	}
	own := cmp.Or(spec.ApprovalTTL, actions.DefaultApprovalTTL)
	if d.Effect != RequireApproval {
		d.Effect, d.Rule, d.Reason = RequireApproval, ruleTypeApproval, "every "+spec.Type+" wants a reviewer's yes"
		d.Approvals, d.ApprovalTTL = 1, own
	}
	d.ApprovalTTL = min(d.ApprovalTTL, own)
}

// boundsOf are the narrowest bounds of an operation; zero: none.
func (p *Policy) boundsOf(actionType string) (maxAttempts int, giveUp time.Duration) {
	for _, b := range p.bounds {
		if !b.types.has(actionType) {
			continue
		}
		maxAttempts, giveUp = narrower(maxAttempts, b.maxAttempts), narrower(giveUp, b.giveUp)
	}
	return maxAttempts, giveUp
}

// narrower is the smaller of two bounds, of which zero is none.
func narrower[T int | time.Duration](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
