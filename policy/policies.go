package policy

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/ledger"
)

// Policies are those of all tenants, as they were read together. They are
// immutable and safe for concurrent use. The zero value denies everything.
type Policies struct {
	tenants map[string]*Policy
	others  *Policy // of tenants that have none; nil denies
}

// AllowAll is for installations without policies: every tenant's agents may
// request every action, in the stage reconcile, within no budget. What an action
// type itself says (approval, intents) holds.
func AllowAll() *Policies { return &Policies{others: &Policy{allowAll: true}} }

// For returns the policy of a tenant. For a tenant that has none it denies.
func (p *Policies) For(tenant string) *Policy {
	if own, ok := p.tenants[tenant]; ok {
		return own
	}
	if p.others != nil {
		return p.others
	}
	return &Policy{}
}

// Tenants are those that have a policy, sorted.
func (p *Policies) Tenants() []string { return slices.Sorted(maps.Keys(p.tenants)) }

// Policy is what one tenant's agents may do. It is immutable and safe for
// concurrent use. The zero value denies.
type Policy struct {
	allowAll bool
	tenant   string
	version  string         // empty: there is none
	text     string         // the file
	zone     *time.Location // nil is UTC
	source   *source        // nil where there is no file

	stages      stages
	grants      []grant
	rules       []rule
	needsRule   bool // a request about which no rule decides is refused
	budgets     []budget
	currencies  bool // those of no spend budget are let through
	bounds      []bounds
	intents     map[string][]intent // by action type
	callerQuiet *time.Duration      // of intent_id; nil: the default

	readsBudgets bool
}

// Version names the policy: what its file says, and a digest of it. It is
// "allow-all" for [AllowAll], and empty where there is none.
func (p *Policy) Version() string {
	if p.allowAll {
		return "allow-all"
	}
	return p.version
}

// YAML is the file as it was read; empty where there is none.
func (p *Policy) YAML() string { return p.text }

// Stage is how far an action type is switched on. It is empty where the tenant has
// no policy: somebody has to say that requests are only watched, since planners are
// told to perform them then.
func (p *Policy) Stage(actionType string) ledger.Stage {
	switch {
	case p.allowAll:
		return ledger.StageReconcile
	case p.version == "":
		return ""
	default:
		return p.stages.of(actionType)
	}
}

// ReadsBudgets reports whether a rule looks at budgets: [Request.Use] is wanted.
func (p *Policy) ReadsBudgets() bool { return p.readsBudgets }

// Budgets are the ids of its budgets.
func (p *Policy) Budgets() []string {
	ids := make([]string, len(p.budgets))
	for i := range p.budgets {
		ids[i] = p.budgets[i].id
	}
	return ids
}

// stages say how far action types are switched on.
type stages struct {
	byDefault ledger.Stage // empty is StageObserve
	exact     map[string]ledger.Stage
	prefixes  []prefixStage // the longest first
}

type prefixStage struct {
	prefix string
	stage  ledger.Stage
}

func (s stages) of(actionType string) ledger.Stage {
	if stage, ok := s.exact[actionType]; ok {
		return stage
	}
	for _, p := range s.prefixes {
		if strings.HasPrefix(actionType, p.prefix) {
			return p.stage
		}
	}
	if s.byDefault == "" {
		return ledger.StageObserve
	}
	return s.byDefault
}

// bounds are those of one operation.
type bounds struct {
	types       names
	maxAttempts int
	giveUp      time.Duration
}
