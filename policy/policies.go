package policy

import (
	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// Policies are those of all tenants, as they were read together. They are
// immutable and safe for concurrent use. The zero value denies everything.
type Policies struct {
	allowAll bool
}

// AllowAll is for installations without policies: every tenant's agents may
// request every action, in the stage reconcile, within no budget. What an action
// type itself says (approval, intents) holds.
func AllowAll() *Policies { return &Policies{allowAll: true} }

// For returns the policy of a tenant. For a tenant that has none it denies.
func (p *Policies) For(string) *Policy {
	return &Policy{allowAll: p.allowAll}
}

// Policy is what one tenant's agents may do. It is immutable and safe for
// concurrent use. The zero value denies.
type Policy struct {
	allowAll bool
}

// Version names the policy: what its file says, and a digest of it.
func (p *Policy) Version() string { return "" }

// YAML is the file as it was read; empty where there is none.
func (p *Policy) YAML() string { return "" }

// Stage is how far an action type is switched on.
func (p *Policy) Stage(string) ledger.Stage {
	return ledger.StageReconcile
}

// DecideType answers what needs no arguments: whether a principal may request an
// action type at all. Where it allows, [Policy.Decide] has the last word.
func (p *Policy) DecideType(who Principal, spec *actions.Spec) Decision {
	switch {
	case who.Tenant == "" || who.Actor == "":
		return Decision{Rule: "principal", Reason: "the credential names no tenant and actor"}
	case !who.Has(Agent):
		return Decision{Rule: "role", Reason: "requesting actions wants the role agent"}
	case !p.allowAll:
		return Decision{Rule: "no_policy", Reason: "the tenant has no policy"}
	default:
		return Decision{Effect: Allow, Rule: "action_type", Reason: "the action type is open to agents of the tenant", Stage: p.Stage(spec.Type)}
	}
}

// ReadsBudgets reports whether a rule looks at budgets: [Request.Use] is wanted.
func (p *Policy) ReadsBudgets() bool { return false }

// Charges are what a request would be charged to, before it is decided: for
// [Request.Use].
func (p *Policy) Charges(*Request) []ledger.Charge { return nil }

// Decide answers whether a request may be sent, and what it holds. An
// expression that fails denies.
func (p *Policy) Decide(r *Request) Decision {
	d := p.DecideType(r.Principal, &r.Action.Spec)
	if d.Effect == Allow && r.Action.Spec.RequiresApproval {
		d.Effect, d.Rule, d.Reason = RequireApproval, "action_type.requires_approval", "every "+r.Action.Spec.Type+" wants a reviewer's yes"
		d.Approvals, d.ApprovalTTL = 1, r.Action.Spec.ApprovalTTL
	}
	return d
}
