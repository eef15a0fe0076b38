package policy

import (
	"slices"

	"github.com/onceward/onceward/actions"
)

// Role is what a credential may do.
type Role string

// The roles. They are separate: none includes another.
const (
	Agent    Role = "agent"    // requests actions
	Reviewer Role = "reviewer" // resolves reviews of others' requests
	Auditor  Role = "auditor"  // reads
	Admin    Role = "admin"    // configures
)

// Principal is who asks, as the credential says.
type Principal struct {
	Tenant string
	Actor  string
	Roles  []Role
}

// Has reports whether the principal has one of the roles.
func (p Principal) Has(roles ...Role) bool {
	return slices.ContainsFunc(roles, func(r Role) bool { return slices.Contains(p.Roles, r) })
}

// Effect is what a decision comes to.
type Effect int

const (
	// Deny is the zero value.
	Deny Effect = iota
	// RequireApproval records the operation and asks a reviewer.
	RequireApproval
	// Allow lets it be sent.
	Allow
)

// Decision is the answer, with the rule that gave it.
type Decision struct {
	Effect Effect
	Rule   string // stable id, in the answer and the audit record
	Reason string // one sentence
}

// Decide answers whether a principal may request an action.
func Decide(p Principal, spec actions.Spec) Decision {
	switch {
	case p.Tenant == "" || p.Actor == "":
		return Decision{Deny, "principal", "the credential names no tenant and actor"}
	case !p.Has(Agent):
		return Decision{Deny, "role", "requesting actions wants the role agent"}
	case spec.RequiresApproval:
		return Decision{RequireApproval, "action_type.requires_approval", "every " + spec.Type + " wants a reviewer's yes"}
	default:
		return Decision{Allow, "action_type", "the action type is open to agents of the tenant"}
	}
}

// MayDecide answers whether a principal may resolve a review of an operation
// that requestedBy asked for.
func MayDecide(p Principal, requestedBy string) Decision {
	switch {
	case !p.Has(Reviewer):
		return Decision{Deny, "role", "resolving reviews wants the role reviewer"}
	case p.Actor == requestedBy:
		return Decision{Deny, "requester", "who asked for an action cannot decide about it"}
	default:
		return Decision{Allow, "reviewer", "a reviewer other than the requester"}
	}
}
