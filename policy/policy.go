package policy

import (
	"slices"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
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
	// RequireApproval records the operation and asks reviewers.
	RequireApproval
	// Allow lets it be sent.
	Allow
)

func (e Effect) String() string {
	switch e {
	case Allow:
		return "allow"
	case RequireApproval:
		return "require_approval"
	default:
		return "deny"
	}
}

// Request is what is decided about.
type Request struct {
	Principal Principal
	Action    *Action
	Args      actions.Arguments
	Run       ledger.Run
	IntentID  string    // the caller's own word for the goal; empty for none
	At        time.Time // now
	// Use are the budgets as they are now, for rules that look at them
	// ([Policy.ReadsBudgets]). Whether a charge fits is the ledger's decision.
	Use []ledger.BudgetUse
}

// Decision is the answer, with the rule that gave it.
type Decision struct {
	Effect  Effect
	Rule    string       // stable id, in the answer and the audit record
	Reason  string       // one sentence without its full stop, which the caller sees
	Version string       // of the policy
	Stage   ledger.Stage // empty where the tenant has no policy: it is not even observed

	// Violations are set, and the effect is Deny, where the arguments do not say
	// what the action type's own expressions, an intent or a budget need: no amount, a
	// negative one, an intent without its parts. Fields are those of the request:
	// "arguments.amount", "run.run_id", or "arguments" where it is none alone.
	Violations []actions.Violation
	// Err is why Rule could not be decided, where it failed: for logs and tests, not
	// for callers.
	Err error

	Amount, Currency, Counterparty string
	Holds                          ledger.Holds

	Approvals   int           // reviewers that must say yes, with RequireApproval
	ApprovalTTL time.Duration // and how long they have

	MaxAttempts int           // provider calls of one operation; zero: as the action type says
	GiveUp      time.Duration // how long after it was recorded an attempt may begin; zero: no bound
}

// MayDecide answers whether a principal may resolve a review of an operation
// that requestedBy asked for.
func MayDecide(p Principal, requestedBy string) Decision {
	switch {
	case !p.Has(Reviewer):
		return Decision{Effect: Deny, Rule: "role", Reason: "resolving reviews wants the role reviewer"}
	case p.Actor == requestedBy:
		return Decision{Effect: Deny, Rule: "requester", Reason: "who asked for an action cannot decide about it"}
	default:
		return Decision{Effect: Allow, Rule: "reviewer", Reason: "a reviewer other than the requester"}
	}
}
