package policyfile

// Cases is a table of requests and of what a policy should decide about them.
type Cases struct {
	Kind string `yaml:"kind" jsonschema:"enum=policy_test"` // "policy_test"
	// Policy is the file with the policy, from this file's folder.
	Policy string `yaml:"policy" jsonschema:"minLength=1"`
	// ActionTypes describes those that no file with actions declares, by name.
	ActionTypes map[string]ActionType `yaml:"action_types,omitempty"`
	// Defaults are what requests have that do not say otherwise.
	Defaults *Asked `yaml:"defaults,omitempty"`
	Cases    []Case `yaml:"cases" jsonschema:"minItems=1,maxItems=2000"`
}

// ActionType is as much of an action type as policies look at.
type ActionType struct {
	Provider         string `yaml:"provider,omitempty"`
	Owner            string `yaml:"owner,omitempty"`
	Risk             string `yaml:"risk,omitempty" jsonschema:"enum=low,enum=medium,enum=high"`
	Amount           string `yaml:"amount,omitempty"`       // CEL over args, in the currency's major unit
	Currency         string `yaml:"currency,omitempty"`     // CEL over args; with Amount
	Counterparty     string `yaml:"counterparty,omitempty"` // CEL over args
	RequiresApproval bool   `yaml:"requires_approval,omitempty"`
}

// Case is one request, and what should be decided about it.
type Case struct {
	Name    string `yaml:"name" jsonschema:"minLength=1,maxLength=200"`
	Request Asked  `yaml:"request"`
	Want    Want   `yaml:"want"`
}

// Asked is a request.
type Asked struct {
	ActionType string         `yaml:"action_type,omitempty"`
	Args       map[string]any `yaml:"args,omitempty"`
	Actor      string         `yaml:"actor,omitempty"`
	Roles      []string       `yaml:"roles,omitempty"` // of the credential; default agent
	Run        *Run           `yaml:"run,omitempty"`
	IntentID   string         `yaml:"intent_id,omitempty"`
	At         string         `yaml:"at,omitempty"` // RFC 3339; default 2026-01-01T12:00:00Z, a Thursday
	// Use is what is used of budgets already, by id; default nothing.
	Use map[string]Decimal `yaml:"use,omitempty"`
}

// Run is where in an agent's run a request comes from.
type Run struct {
	ID          string `yaml:"id,omitempty"`
	Step        string `yaml:"step,omitempty"`
	Agent       string `yaml:"agent,omitempty"`
	ToolVersion string `yaml:"tool_version,omitempty"`
	Attempt     int    `yaml:"attempt,omitempty" jsonschema:"minimum=0"`
}

// Want is what should be decided. What is not there is not compared.
type Want struct {
	Effect string `yaml:"effect" jsonschema:"enum=allow,enum=require_approval,enum=deny"`
	// Rule is the id of the rule, grant or check that decides.
	Rule string `yaml:"rule,omitempty"`
	// Stage is how far the action type is switched on.
	Stage string `yaml:"stage,omitempty" jsonschema:"enum=observe,enum=protect,enum=reconcile,enum=enforce"`
	// Approvals is how many reviewers must say yes.
	Approvals int `yaml:"approvals,omitempty"`
	// TTL is how long they have.
	TTL Duration `yaml:"ttl,omitempty"`
	// Amount and Currency are what it costs.
	Amount   Decimal `yaml:"amount,omitempty"`
	Currency string  `yaml:"currency,omitempty"`
	// Charges are all budgets that it is charged to, by id, with their parts.
	Charges map[string]Decimal `yaml:"charges,omitempty"`
	// Fits is whether all charges fit into what Use leaves of their budgets.
	Fits *bool `yaml:"fits,omitempty"`
	// Intents are all intents that it would hold, as order_refund|order:42.
	Intents []string `yaml:"intents,omitempty"`
	// Violations are the fields of all that is wrong with the arguments.
	Violations []string `yaml:"violations,omitempty"`
}
