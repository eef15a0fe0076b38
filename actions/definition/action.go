package definition

// Action is one action type on a provider.
type Action struct {
	Kind string `yaml:"kind" jsonschema:"enum=action"`                                                  // "action"
	Type string `yaml:"type" jsonschema:"maxLength=100,pattern=^[a-z][a-z0-9_]*([.][a-z][a-z0-9_]*)+$"` // dotted lower-case words: stripe.refund.create
	// Version is recorded with each operation; change it when the same arguments
	// make other bytes.
	Version     string `yaml:"version" jsonschema:"minLength=1"`
	Provider    string `yaml:"provider"`                                                   // name of a provider in these files
	Description string `yaml:"description"`                                                // one sentence, for planners and people
	Owner       string `yaml:"owner,omitempty"`                                            // team that answers for it; for people and policies
	Risk        string `yaml:"risk,omitempty" jsonschema:"enum=low,enum=medium,enum=high"` // "low", "medium", "high"

	// Arguments is the JSON Schema (2020-12) of the arguments object.
	Arguments map[string]any `yaml:"arguments"`
	// Checks are what a schema cannot say.
	Checks []Check `yaml:"checks,omitempty"`
	// Key is the recipe for the key where the planner gives none: what the action
	// is about.
	Key *Recipe `yaml:"key,omitempty"`
	// AdvisoryArgs are arguments that do not identify the action: two requests
	// that differ in them alone are the same one.
	AdvisoryArgs []string  `yaml:"advisory_args,omitempty"`
	Approval     *Approval `yaml:"approval,omitempty"` // absent: as the policy says

	// Spending says what an operation costs, for budgets. Absent: nothing.
	Spending *Spending `yaml:"spending,omitempty"`
	// Intents are the goals that the action belongs to: while an operation under
	// one is open, a second one is refused, whatever its key.
	Intents []Intent `yaml:"intents,omitempty" jsonschema:"maxItems=8"`
	// Sensitive names what is shown to nobody but those who decide about the
	// action; "[redacted]" stands in its place.
	Sensitive *Sensitive `yaml:"sensitive,omitempty"`

	Timeout     Duration `yaml:"timeout,omitempty"`                                          // of one attempt; default 30s
	MaxAttempts int      `yaml:"max_attempts,omitempty" jsonschema:"minimum=1,maximum=100"`  // default 5
	MaxResolves int      `yaml:"max_resolves,omitempty" jsonschema:"minimum=1,maximum=1000"` // default 12
	Window      Duration `yaml:"window,omitempty"`                                           // a finished operation answers for its key; default 30d
	ExpiredKey  string   `yaml:"expired_key,omitempty" jsonschema:"enum=reject,enum=reuse"`  // "reject" (default), "reuse"

	Request   *Request   `yaml:"request,omitempty"`   // adapter http
	Statement *Statement `yaml:"statement,omitempty"` // adapter sql
	Mail      *Mail      `yaml:"mail,omitempty"`      // adapter smtp

	Receipt  *Receipt `yaml:"receipt,omitempty"`  // required with adapter http
	Keys     *Keys    `yaml:"keys,omitempty"`     // instead of the provider's
	Outcomes []Rule   `yaml:"outcomes,omitempty"` // before the provider's
	Lookups  []Lookup `yaml:"lookups,omitempty"`  // in order
	// Doubt is "person": there is no way to resolve doubt, and that is accepted.
	Doubt string `yaml:"doubt,omitempty" jsonschema:"enum=person"`

	// Examples are arguments with what is expected; the first is what verify and
	// the simulator use.
	Examples []Example `yaml:"examples" jsonschema:"minItems=1"`
	Simulate *Simulate `yaml:"simulate,omitempty"`

	// Place is where the file came from.
	Place Place `yaml:"-"`
}

// Check is a rule over arguments: If must be true. Expressions see args.
type Check struct {
	If      string `yaml:"if" jsonschema:"minLength=1"`      // expression
	Field   string `yaml:"field,omitempty"`                  // dotted path of the argument that is to be changed
	Message string `yaml:"message" jsonschema:"minLength=1"` // what is wanted, for planners and people
}

// Recipe is a key recipe.
type Recipe struct {
	Parts  []Part `yaml:"parts" jsonschema:"minItems=1"`
	Hashed bool   `yaml:"hashed,omitempty"` // store and show the key as its SHA-256
}

// Part is one named part of a key.
type Part struct {
	Name string `yaml:"name" jsonschema:"pattern=^[a-z][a-z0-9_]{0\\,31}$"`
	From string `yaml:"from"` // "tenant", "action", "run", "step", "arguments.<path>"
}

// Approval makes every operation wait for a person.
type Approval struct {
	Required bool     `yaml:"required"`
	TTL      Duration `yaml:"ttl,omitempty"` // default 24h
}

// Spending are expressions over args. They are tried with every example.
type Spending struct {
	// Amount is in the currency's major unit: an integer, or the text of an exact
	// decimal. minor_to_decimal(args.amount, 2) makes one of cents. It is never
	// negative.
	Amount string `yaml:"amount,omitempty"`
	// Currency is a text of three capital letters (ISO 4217): args.currency,
	// args.currency.upperAscii() or "EUR" in quotes of its own.
	Currency string `yaml:"currency,omitempty"`
	// Counterparty is a text: who gets it, or is concerned by it. Budgets can be
	// kept for each. An empty optional is nobody.
	Counterparty string `yaml:"counterparty,omitempty"`
}

// Intent is one goal. Actions that name the same intent share it; they give it
// the same part names.
type Intent struct {
	Name  string `yaml:"name" jsonschema:"pattern=^[a-z][a-z0-9_]{0\\,31}$"`
	Parts []Part `yaml:"parts" jsonschema:"minItems=1"` // from "arguments.<path>": what the goal is about
	// Quiet is how long after a success another operation under it must name the
	// first one in distinct_from_operation_id. Absent: no time.
	Quiet Duration `yaml:"quiet,omitempty"`
}

// Sensitive are marks.
type Sensitive struct {
	Arguments []string `yaml:"arguments,omitempty"` // dotted paths; through a list, of each item
	Receipt   []string `yaml:"receipt,omitempty"`   // names of receipt fields
}

// Request is an HTTP request. Strings are templates: "${…}" holds a CEL
// expression; a string that is one expression takes its type. Variables: args,
// operation.id, tenant, key, config; in look-ups also reference, first_sent,
// last_sent, page. A member, parameter or header whose expression is an empty
// optional (args.?note) is left out.
type Request struct {
	Method  string         `yaml:"method" jsonschema:"enum=GET,enum=POST,enum=PUT,enum=PATCH,enum=DELETE"`
	Path    string         `yaml:"path"`              // values are escaped as one segment each; or an absolute URL on an allowed origin
	Query   map[string]any `yaml:"query,omitempty"`   // parameters: templates, lists as Lists says
	Headers map[string]any `yaml:"headers,omitempty"` // templates; credentials belong to http.auth

	// JSON is the body as a tree whose texts are templates. There is at most one
	// body.
	JSON      any            `yaml:"json,omitempty"`
	Form      map[string]any `yaml:"form,omitempty"`      // nested: a[b]=c; lists: see Lists
	Multipart map[string]any `yaml:"multipart,omitempty"` // multipart/form-data
	GraphQL   *GraphQL       `yaml:"graphql,omitempty"`
	Raw       *string        `yaml:"raw,omitempty"` // a template; values are put in as they are: use xml() and the like
	// ContentType replaces the body's usual one.
	ContentType string `yaml:"content_type,omitempty"`
	Lists       string `yaml:"lists,omitempty" jsonschema:"enum=brackets,enum=indices,enum=repeat"` // of forms and queries: "brackets" a[]=1 (default), "indices" a[0]=1, "repeat" a=1
	Proof       `yaml:",inline"`
}

// GraphQL is a GraphQL request (a JSON body with query and variables). The
// query's text may hold ${key} and ${config.…}, nothing else.
type GraphQL struct {
	Query     string         `yaml:"query"`
	Variables map[string]any `yaml:"variables,omitempty"`
}

// Statement is SQL with numbered parameters ($1…). It returns one row: reference
// (text) and receipt (json).
type Statement struct {
	SQL        string   `yaml:"sql"`
	Parameters []string `yaml:"parameters,omitempty"` // expressions over args, operation, tenant, key
}

// Mail is one message; strings are templates.
type Mail struct {
	From    string            `yaml:"from"`
	To      any               `yaml:"to"` // a template, or a list of them
	Cc      any               `yaml:"cc,omitempty"`
	ReplyTo string            `yaml:"reply_to,omitempty"`
	Subject string            `yaml:"subject"`
	Text    string            `yaml:"text,omitempty"`
	HTML    string            `yaml:"html,omitempty"` // values are escaped
	Headers map[string]string `yaml:"headers,omitempty"`
}

// Receipt says what is kept of a success: expressions over the answer (status,
// header, body, text; item in look-ups; event in webhooks).
type Receipt struct {
	Reference string            `yaml:"reference" jsonschema:"minLength=1"` // the provider's own id: text or a whole number
	Fields    map[string]string `yaml:"fields,omitempty"`                   // what else is kept, by name; one that fails makes the receipt incomplete, and body.?x is for what may be missing
	Proof     `yaml:",inline"`
}

// Lookup asks whether the effect of an operation exists. It never writes.
type Lookup struct {
	Name string `yaml:"name" jsonschema:"minLength=1"` // for people, one for each look-up of the action
	// Needs is "reference" when the provider's id must be known.
	Needs   string  `yaml:"needs,omitempty" jsonschema:"enum=reference"`
	Request Request `yaml:"request"` // GET, or POST where the provider searches so

	// Item is the one object, Items a list of them: an expression over the
	// answer to a 200. Exactly one is set.
	Item  string `yaml:"item,omitempty"`
	Items string `yaml:"items,omitempty"`
	// Match says whether item is the effect of operation; required with Items.
	Match string `yaml:"match,omitempty"`
	// Ours tells, for an object under a name that others can take too, that this
	// operation made it; where it is false the name is taken by somebody else.
	Ours string `yaml:"ours,omitempty"`
	// Absent is an expression over any complete answer: nothing is there (404
	// with the provider's code). An empty list says so by itself.
	Absent string `yaml:"absent,omitempty"`
	// Pending and Failed judge the object: the provider is still at work on it;
	// it ended for good without an effect.
	Pending string `yaml:"pending,omitempty"`
	Failed  string `yaml:"failed,omitempty"`
	// Every is how long to wait between two looks at an object that is pending.
	Every Duration `yaml:"every,omitempty"`

	Pages *Pages `yaml:"pages,omitempty"`
	// Several is what two matches mean: "incident" (default: two effects), or
	// "inconclusive" (the match is too wide to say).
	Several string `yaml:"several,omitempty" jsonschema:"enum=incident,enum=inconclusive"`

	// Strength is "strong" (read after write), "indexed" (lags) or "heuristic"
	// (looks like it: never a finding, a hint for a person). Default heuristic.
	Strength string `yaml:"strength,omitempty" jsonschema:"enum=strong,enum=indexed,enum=heuristic"`
	// Absence, where set, lets reads that find nothing prove that nothing is
	// there. Absent: they never do.
	Absence *Absence `yaml:"absence,omitempty"`

	Receipt  *Receipt `yaml:"receipt,omitempty"` // of item; default the action's, with body = item
	Proof    `yaml:",inline"`
	Simulate *SimulateLookup `yaml:"simulate,omitempty"`
}

// Absence is when nothing found means nothing there.
type Absence struct {
	SettleTime Duration `yaml:"settle_time"`                            // since the last attempt could have been under way
	Reads      int      `yaml:"reads,omitempty" jsonschema:"minimum=1"` // in a row; default 2
	Gap        Duration `yaml:"gap,omitempty"`                          // between them; default 1s
	Proof      `yaml:",inline"`
}

// Pages says how a list goes on. An answer that goes on beyond Max pages proves
// nothing.
type Pages struct {
	// Next is an expression over the answer: the state of the next page, as the
	// variable page of the request's templates, or an empty optional, null, ""
	// or false at the end. "link" follows the Link header's rel="next".
	Next string `yaml:"next"`
	Max  int    `yaml:"max,omitempty" jsonschema:"minimum=1,maximum=100"` // default 10
}

// Example is one set of arguments.
type Example struct {
	Name      string         `yaml:"name,omitempty"`
	Arguments map[string]any `yaml:"arguments"`
	// Request, where set, is what must be rendered.
	Request *ExampleRequest `yaml:"request,omitempty"`
	// Answers are exchanges and what they must mean.
	Answers []ExampleAnswer `yaml:"answers,omitempty"`
}

// ExampleRequest is compared with what is rendered. "${key}" and
// "${operation.id}" stand for their values.
type ExampleRequest struct {
	Method string `yaml:"method"`
	URL    string `yaml:"url"`
	Body   string `yaml:"body,omitempty"`
}

// ExampleAnswer is an answer with its meaning.
type ExampleAnswer struct {
	Answer    `yaml:",inline"`
	Is        string `yaml:"is" jsonschema:"enum=applied,enum=applied_no_receipt,enum=accepted,enum=in_progress,enum=maybe_ours,enum=key_mismatch,enum=rejected,enum=not_applied,enum=rate_limited,enum=ambiguous"` // what it must mean
	Reference string `yaml:"reference,omitempty"`                                                                                                                                                                   // what the receipt's must be
}

// Answer is an HTTP answer. Strings in it are templates where the simulator
// gives it (see Simulate); the check knows no variables but code and message.
type Answer struct {
	Status int               `yaml:"status" jsonschema:"minimum=200,maximum=599"`
	Header map[string]string `yaml:"header,omitempty"`
	JSON   any               `yaml:"json,omitempty"`
	Text   *string           `yaml:"text,omitempty"`
}

// Simulate says how the simulator plays this action. Templates see request
// (method, path, query, header, and body: parsed JSON or nested form), id (made
// from ID), n (a running number), now (a timestamp), args is not known to it.
type Simulate struct {
	// ID makes the provider's id of an object.
	ID string `yaml:"id,omitempty"` // template over n and uuid; default "obj_${n}"
	// Operation is an expression over request: our operation id in it, to count
	// effects by; empty where the write does not carry it.
	Operation string `yaml:"operation,omitempty"`
	// Unique is an expression over request: a value that only one object can
	// hold; a second write gets Taken.
	Unique  string  `yaml:"unique,omitempty"`
	Taken   *Answer `yaml:"taken,omitempty"`
	Refusal *Answer `yaml:"refusal,omitempty"` // of a write that is refused; default 422 with Errors.Simulate
	Success Answer  `yaml:"success"`           // what a write is answered with; its JSON is the object
	Pending *Answer `yaml:"pending,omitempty"` // where the provider accepts and finishes later
	Object  any     `yaml:"object,omitempty"`  // what look-ups see, over request, id and answer; default the success's JSON
}

// SimulateLookup says how the simulator answers a look-up. Templates see request,
// objects (those found) and, for Item, object.
type SimulateLookup struct {
	// Find is an expression over object, request and key: this object is found;
	// default all that were made by this action.
	Find string  `yaml:"find,omitempty"`
	Some *Answer `yaml:"some"`           // when objects were found
	None *Answer `yaml:"none,omitempty"` // when none was; default: Some with an empty list
	Lag  bool    `yaml:"lag,omitempty"`  // new objects are seen only after the settle time
}
