package policyfile

// File is the policy of one tenant. What is not said is refused, seen only, or not
// bounded by this file: each field says which.
type File struct {
	Kind    string `yaml:"kind" jsonschema:"enum=policy"`                                    // "policy"
	Tenant  string `yaml:"tenant" jsonschema:"pattern=^[^\\x00-\\x20\\x7f]{1\\,100}$"`       // whose policy it is
	Version string `yaml:"version" jsonschema:"pattern=^[0-9A-Za-z][0-9A-Za-z._-]{0\\,31}$"` // recorded with each operation, with a digest of the file
	// Description is for people.
	Description string `yaml:"description,omitempty"`
	// TimeZone is an IANA name ("Europe/Berlin") in which days begin, for budgets and
	// rules; default UTC.
	TimeZone string `yaml:"time_zone,omitempty"`

	// Stages say how far action types are switched on; default observe for all.
	Stages *Stages `yaml:"stages,omitempty"`
	// Allow says who may request what. What is not listed is refused.
	Allow []Grant `yaml:"allow,omitempty"`
	// Rules decide about single requests, after Allow.
	Rules []Rule `yaml:"rules,omitempty"`
	// Default is what happens to a request that Allow lists and no rule decides about:
	// allow (default), or deny: then a rule must allow it or ask for approval.
	Default string `yaml:"default,omitempty" jsonschema:"enum=allow,enum=deny"`
	// Budgets bound what is spent and how often.
	Budgets []Budget `yaml:"budgets,omitempty"`
	// OtherCurrencies is what happens to an amount in a currency of which no spend budget
	// is, where its action type has spend budgets: refuse (default) or allow.
	OtherCurrencies string `yaml:"other_currencies,omitempty" jsonschema:"enum=refuse,enum=allow"`
	// PerOperation bounds single operations. Where several entries match, the
	// narrowest bound counts.
	PerOperation []Bounds `yaml:"per_operation,omitempty"`
	// Intents are goals: while an operation under one is open, another is refused.
	Intents []Intent `yaml:"intents,omitempty"`
	// IntentIDQuiet is how long after a success another operation under the caller's
	// own intent_id must say that it is distinct; default 24h, and 0s for not at all.
	IntentIDQuiet *Duration `yaml:"intent_id_quiet,omitempty"`
}

// Stages say how far action types are switched on: observe, protect, reconcile or
// enforce.
type Stages struct {
	Default string `yaml:"default,omitempty" jsonschema:"enum=observe,enum=protect,enum=reconcile,enum=enforce"` // of all others; default observe
	// ActionTypes has stages by exact names and prefixes ("stripe.*"). The exact name
	// counts before a prefix, a longer prefix before a shorter one.
	ActionTypes map[string]string `yaml:"action_types,omitempty"`
}

// Grant lets actors request action types. All of Actors, Roles and Agents that are
// given must fit; at least one of Actors and Roles is.
type Grant struct {
	ID string `yaml:"id" jsonschema:"pattern=^[a-z][a-z0-9_-]{0\\,63}$"` // in answers and the audit record
	// ActionTypes are exact names, prefixes ("stripe.*"), or "*" for all.
	ActionTypes []string `yaml:"action_types" jsonschema:"minItems=1,maxItems=500"`
	// Actors are those of the credentials: exact names, prefixes ("support-*"), or "*".
	Actors []string `yaml:"actors,omitempty" jsonschema:"maxItems=500"`
	// Roles are those of the credential, one of which it must have.
	Roles []string `yaml:"roles,omitempty" jsonschema:"maxItems=50"`
	// Agents are names that requests give in run.agent: exact, or prefixes. They are the
	// caller's word, so that they narrow what a credential may do and prove nothing.
	Agents []string `yaml:"agents,omitempty" jsonschema:"maxItems=500"`
}

// Rule decides about requests. The first deny refuses, wherever it stands; else the
// strictest approval that a rule asks for is wanted. A rule that fails refuses.
type Rule struct {
	ID     string `yaml:"id" jsonschema:"pattern=^[a-z][a-z0-9_-]{0\\,63}$"`          // in answers and the audit record
	Reason string `yaml:"reason" jsonschema:"pattern=^[^\\x00-\\x1f\\x7f]{1\\,300}$"` // one sentence without its full stop, which the caller sees
	// ActionTypes are exact names and prefixes that the rule is about; default all.
	ActionTypes []string `yaml:"action_types,omitempty" jsonschema:"maxItems=500"`
	// When is a CEL expression that is true or false; default true.
	When string `yaml:"when,omitempty" jsonschema:"maxLength=4096"`
	Then string `yaml:"then" jsonschema:"enum=deny,enum=require_approval,enum=allow"`
	// Approvals is how many reviewers must say yes; default 1. With require_approval.
	Approvals int `yaml:"approvals,omitempty" jsonschema:"minimum=1,maximum=10"`
	// TTL is how long they have; default 24h. With require_approval.
	TTL Duration `yaml:"ttl,omitempty"`
}

// Budget bounds what is spent, or how often something happens.
type Budget struct {
	ID string `yaml:"id" jsonschema:"pattern=^[a-z][a-z0-9_-]{0\\,63}$"` // in answers and the audit record
	// Of is what counts: spend (amounts), calls (operations), open (operations that are
	// open at once), or requests (a rate: an operation that fails counts too).
	Of string `yaml:"of" jsonschema:"enum=spend,enum=calls,enum=open,enum=requests"`
	// Currency of spend: ISO 4217, such as EUR.
	Currency string `yaml:"currency,omitempty" jsonschema:"pattern=^[A-Z]{3}$"`
	// Limit is what the budget holds in its window: an exact decimal, and a whole number
	// where it is no spend.
	Limit Decimal `yaml:"limit"`
	// Per says who has a budget of their own; several make one for each combination.
	// Default: one for the tenant.
	Per []string `yaml:"per,omitempty" jsonschema:"maxItems=5,uniqueItems=true"`
	// ActionTypes are exact names and prefixes that count; default all.
	ActionTypes []string `yaml:"action_types,omitempty" jsonschema:"maxItems=500"`
	// Window is the time in which it counts. It may be left out of a budget per run;
	// open has none.
	Window *Window `yaml:"window,omitempty"`
}

// Window is the time in which a budget counts: exactly one of its fields.
type Window struct {
	// Calendar is a period that begins anew: at midnight, on Mondays, on the first.
	Calendar string `yaml:"calendar,omitempty" jsonschema:"enum=minute,enum=hour,enum=day,enum=week,enum=month"`
	// Sliding is the last so long: at least 1s, at most 400d.
	Sliding Duration `yaml:"sliding,omitempty"`
}

// Bounds are those of one operation; at least one of the two is there.
type Bounds struct {
	// ActionTypes are exact names and prefixes; default all.
	ActionTypes []string `yaml:"action_types,omitempty" jsonschema:"maxItems=500"`
	// MaxAttempts is how many provider calls it may make, at most; an action type may
	// have less.
	MaxAttempts int `yaml:"max_attempts,omitempty" jsonschema:"minimum=1,maximum=1000"`
	// MaxElapsed is how long after it was recorded no attempt begins any more.
	MaxElapsed Duration `yaml:"max_elapsed,omitempty"`
}

// Intent is a goal that several action types can serve. Action types that name the
// same intent themselves, with the same parts, share it.
type Intent struct {
	Name string `yaml:"name" jsonschema:"pattern=^[a-z][a-z0-9_]{0\\,63}$"` // order_refund
	// Quiet is how long after a success another one must say that it is distinct;
	// default: not at all.
	Quiet Duration `yaml:"quiet,omitempty"`
	// Actions says, by action type, what each part of the goal is: CEL over args. All of
	// them have the same parts.
	Actions map[string]map[string]string `yaml:"actions"`
}
