package definition

// Provider is a provider contract: what a provider promises about keys, errors
// and look-ups, and how it is reached. The zero value of each part is the
// careful choice: no keys, no proof, doubt goes to a person.
type Provider struct {
	Kind    string `yaml:"kind" jsonschema:"enum=provider"`                                       // "provider"
	Name    string `yaml:"name" jsonschema:"pattern=^[a-z][a-z0-9_]{0\\,39}$"`                    // lower-case letters, digits and _
	Version string `yaml:"version" jsonschema:"minLength=1"`                                      // of this contract; recorded with each operation
	Title   string `yaml:"title,omitempty"`                                                       // for people
	Adapter string `yaml:"adapter,omitempty" jsonschema:"enum=http,enum=grpc,enum=sql,enum=smtp"` // "http" (default), "grpc", "sql", "smtp"

	// Documents are where facts come from; parts name them in their source.
	Documents map[string]Document `yaml:"documents,omitempty"`
	// Config are values of an installation, such as a subdomain: "config.<name>"
	// in expressions.
	Config map[string]Setting `yaml:"config,omitempty"`

	HTTP *HTTP `yaml:"http,omitempty"`
	GRPC *GRPC `yaml:"grpc,omitempty"`
	SQL  *SQL  `yaml:"sql,omitempty"`
	SMTP *SMTP `yaml:"smtp,omitempty"`

	// OperationToken is set for an internal service that accepts only writes which
	// carry Onceward's signed operation token (adapters http and grpc).
	OperationToken *OperationToken `yaml:"operation_token,omitempty"`

	// Breaker and RetryBudget keep a provider in trouble from being asked on and
	// on. They count for all its actions together, in each process, and are there
	// by default.
	Breaker     *Breaker     `yaml:"breaker,omitempty"`
	RetryBudget *RetryBudget `yaml:"retry_budget,omitempty"`

	// Pace bounds how fast writes are sent, per provider and credential.
	Pace *Pace `yaml:"pace,omitempty"`

	Keys     *Keys     `yaml:"keys,omitempty"`
	Errors   *Errors   `yaml:"errors,omitempty"`
	Origin   *Origin   `yaml:"origin,omitempty"`
	Outcomes []Rule    `yaml:"outcomes,omitempty"`
	Limits   *Limits   `yaml:"rate_limit,omitempty"`
	Webhooks *Webhooks `yaml:"webhooks,omitempty"`

	// LateLanding is how long after a proved absence a request could still land.
	LateLanding Duration `yaml:"late_landing,omitempty"`

	// Place is where the file came from.
	Place Place `yaml:"-"`
}

// Document is a page of the provider's in which facts were read.
type Document struct {
	Title   string `yaml:"title"`
	URL     string `yaml:"url,omitempty"`
	Section string `yaml:"section,omitempty"`
	Read    string `yaml:"read,omitempty"` // date or version of the copy that was read
}

// Proof says where a fact comes from: a document, or nowhere yet.
type Proof struct {
	Source     string `yaml:"source,omitempty"`     // a name of Provider.Documents
	Section    string `yaml:"section,omitempty"`    // in that document
	Unverified bool   `yaml:"unverified,omitempty"` // believed, and not read in a document
}

// Setting is one value of an installation.
type Setting struct {
	Description string `yaml:"description"`
	Value       string `yaml:"value"`
	Pattern     string `yaml:"pattern,omitempty"` // RE2 that the whole value must match
}

// Secret refers to a secret; the secret itself is never in a file that is
// checked in. Exactly one of Env and File is set. "${tenant}" in File, and
// "${TENANT}" in Env (upper case, with _ for -), make it the tenant's own.
type Secret struct {
	Env  string `yaml:"env,omitempty"`
	File string `yaml:"file,omitempty"` // the content without white space at its end
}

// HTTP is how an HTTP provider is reached.
type HTTP struct {
	// BaseURL is the prefix of every request's URL. It may hold "${config.name}".
	BaseURL string `yaml:"base_url"`
	// Hosts are further origins that requests may go to ("https://files.example.com").
	Hosts []string `yaml:"hosts,omitempty"`
	// PrivateNetworks may be dialled although they are not public (CIDR).
	PrivateNetworks []string `yaml:"private_networks,omitempty"`
	// Headers are sent with every request: version headers. Templates.
	Headers map[string]string `yaml:"headers,omitempty"`
	Auth    *Auth             `yaml:"auth,omitempty"`
	TLS     *TLS              `yaml:"tls,omitempty"`
	// ConnectTimeout covers resolving, dialling and TLS; default 10 s.
	ConnectTimeout Duration `yaml:"connect_timeout,omitempty"`
	// MaxResponse bounds an answer's body; default 1MiB.
	MaxResponse Size `yaml:"max_response,omitempty"`
}

// TLS names files with certificates (PEM). Verification cannot be off.
type TLS struct {
	CA         string `yaml:"ca,omitempty"`   // roots to trust instead of the system's
	Cert       string `yaml:"cert,omitempty"` // our certificate, for mTLS
	Key        string `yaml:"key,omitempty"`
	ServerName string `yaml:"server_name,omitempty"`
}

// Auth proves who we are. Exactly one kind is set. Credentials are added for
// each attempt, are no part of what is frozen, and are removed from what comes
// back.
type Auth struct {
	Bearer *Secret     `yaml:"bearer,omitempty"`
	Basic  *BasicAuth  `yaml:"basic,omitempty"`
	Header *NamedAuth  `yaml:"header,omitempty"`
	Query  *NamedAuth  `yaml:"query,omitempty"`
	HMAC   *HMACAuth   `yaml:"hmac,omitempty"`
	OAuth2 *OAuth2Auth `yaml:"oauth2,omitempty"`
	Proof  `yaml:",inline"`
}

// BasicAuth is HTTP Basic (RFC 7617). Either part may be a literal or a secret.
type BasicAuth struct {
	User           string  `yaml:"user,omitempty"` // literal; may hold "${config.name}"
	UserSecret     *Secret `yaml:"user_secret,omitempty"`
	Password       *Secret `yaml:"password,omitempty"`      // absent: empty
	PasswordIsText string  `yaml:"password_text,omitempty"` // a fixed word, such as "X"
}

// NamedAuth is a secret in a header or query parameter.
type NamedAuth struct {
	Name   string `yaml:"name"`
	Secret Secret `yaml:"secret"`
	Prefix string `yaml:"prefix,omitempty"` // before the secret: "Token "
}

// HMACAuth signs the final request. It is made anew for each attempt, so that
// it may hold a time.
type HMACAuth struct {
	Secret    Secret `yaml:"secret"`
	Algorithm string `yaml:"algorithm,omitempty" jsonschema:"enum=sha256,enum=sha512,enum=sha1"` // "sha256" (default), "sha512", "sha1"
	Encoding  string `yaml:"encoding,omitempty" jsonschema:"enum=hex,enum=base64"`               // "hex" (default), "base64"
	// Content is what is signed: a template over method, path, query, body,
	// body_sha256 (hex), timestamp (Unix seconds).
	Content string `yaml:"content"`
	// Headers to add: templates over signature, timestamp and config.
	Headers map[string]string `yaml:"headers"`
}

// OAuth2Auth is the client credentials grant (RFC 6749, section 4.4) or a
// refresh token (section 6). The token call is never a part of an attempt.
type OAuth2Auth struct {
	TokenURL     string            `yaml:"token_url"` // may hold "${config.name}"; its origin is allowed by itself
	ClientID     Secret            `yaml:"client_id"`
	ClientSecret Secret            `yaml:"client_secret"`
	RefreshToken *Secret           `yaml:"refresh_token,omitempty"`
	Scopes       []string          `yaml:"scopes,omitempty"`
	Style        string            `yaml:"style,omitempty" jsonschema:"enum=basic,enum=body"` // "basic" (default), "body"
	Parameters   map[string]string `yaml:"parameters,omitempty"`                              // more form fields, such as audience
}

// GRPC is how an AdapterService is reached. Its action types come from
// Describe; there are no action files for it.
type GRPC struct {
	Address   string   `yaml:"address"` // host:port
	TLS       *TLS     `yaml:"tls,omitempty"`
	PlainText bool     `yaml:"plain_text,omitempty"` // loopback only
	Timeout   Duration `yaml:"timeout,omitempty"`    // of Describe and Lookup; default 10 s
}

// SQL is a Postgres that actions write to.
type SQL struct {
	// Ledger means the ledger's own database: statements run in the transaction
	// that settles the operation. Otherwise URL is needed.
	Ledger bool    `yaml:"ledger,omitempty"`
	URL    *Secret `yaml:"url,omitempty"`
	// OperationsTable remembers operation ids under a unique constraint, in the
	// transaction of the statement; default onceward_operations.
	OperationsTable string `yaml:"operations_table,omitempty"`
	CreateTable     bool   `yaml:"create_table,omitempty"`
	// MaxConns bounds the connections of one process; default 4.
	MaxConns int `yaml:"max_conns,omitempty" jsonschema:"minimum=1,maximum=1000"`
	// PlainText allows connections without TLS to other machines.
	PlainText bool `yaml:"plain_text,omitempty"`
}

// SMTP is a mail server that takes submissions.
type SMTP struct {
	Host            string   `yaml:"host"`
	Port            int      `yaml:"port,omitempty" jsonschema:"minimum=1,maximum=65535"`              // default 587, 465 with implicit TLS
	Security        string   `yaml:"security,omitempty" jsonschema:"enum=starttls,enum=tls,enum=none"` // "starttls" (default), "tls", "none" (loopback only)
	User            *Secret  `yaml:"user,omitempty"`
	Password        *Secret  `yaml:"password,omitempty"`
	Hello           string   `yaml:"hello,omitempty"`  // EHLO name; default the sender's domain
	Domain          string   `yaml:"domain,omitempty"` // right side of the Message-ID; default the sender's
	PrivateNetworks []string `yaml:"private_networks,omitempty"`
}

// Pace bounds how fast one process sends writes to a provider with one
// credential. When the bound is reached nothing is sent, and the operation is
// deferred as rate limited.
type Pace struct {
	Requests    int      `yaml:"requests,omitempty" jsonschema:"minimum=1"`    // in each period
	Per         Duration `yaml:"per,omitempty"`                                // default 1s
	Burst       int      `yaml:"burst,omitempty" jsonschema:"minimum=1"`       // default Requests
	Concurrency int      `yaml:"concurrency,omitempty" jsonschema:"minimum=1"` // writes under way at once; default no bound
	Proof       `yaml:",inline"`
}

// OperationToken says for whom tokens are signed. In the stage enforce each write
// carries one in the header Onceward-Operation-Token, or in the message of an
// adapter process.
type OperationToken struct {
	Audience string `yaml:"audience" jsonschema:"pattern=^[!-~]{1\\,255}$"` // what the service knows itself by: https://ledger.internal
}

// Breaker opens after failures in a row: outcomes that are not known, or nobody
// reached. Refusals and rate limits are none. While it is open nothing is sent,
// and new operations are refused before they are recorded.
type Breaker struct {
	Failures int      `yaml:"failures,omitempty" jsonschema:"minimum=1,maximum=1000"` // default 10
	OpenFor  Duration `yaml:"open_for,omitempty"`                                     // then one attempt tries; default 30s, at most 1h
}

// RetryBudget bounds the attempts after the first of their operations.
type RetryBudget struct {
	Percent int `yaml:"percent,omitempty" jsonschema:"minimum=1,maximum=100"` // of the first attempts of the last minute; default 20
	Floor   int `yaml:"floor,omitempty" jsonschema:"minimum=1,maximum=10000"` // in a minute, whatever the first attempts were; default 10
}

// Keys say where our idempotency key goes and how the provider treats it.
type Keys struct {
	// Place is "header", "query", "field" (of the JSON or form body) or
	// "template": the request has ${key} itself (a GraphQL directive, a resource
	// id in a path). "none" takes back what the provider says, for one action.
	Place string `yaml:"place" jsonschema:"enum=header,enum=query,enum=field,enum=template,enum=none"`
	Name  string `yaml:"name,omitempty"` // header, parameter, or dotted path of the field

	// Form of the key: "base32hex" (default: 26 of 0-9a-v), "hex" (32), "uuid"
	// (version 4 form, 36). Prefix comes before it.
	Form   string `yaml:"form,omitempty" jsonschema:"enum=base32hex,enum=hex,enum=uuid"`
	Prefix string `yaml:"prefix,omitempty"`
	// MaxLength and Alphabet are the provider's rules, which the form must keep:
	// a length in characters, and an RE2 class such as "[a-v0-9]".
	MaxLength int    `yaml:"max_length,omitempty" jsonschema:"minimum=1"`
	Alphabet  string `yaml:"alphabet,omitempty"`

	// Window is how long the provider knows a key, from the first send; absent:
	// unpublished, so that a key is never sent a second time. Margin is taken off
	// its end; default a twentieth, at most an hour.
	Window Duration `yaml:"window,omitempty"`
	Margin Duration `yaml:"margin,omitempty"`

	// Compares is what a duplicate must agree in: "body", "nothing", "unknown".
	Compares string `yaml:"compares,omitempty" jsonschema:"enum=body,enum=nothing,enum=unknown"`
	// Stores is what a duplicate is answered with: "successes" (a failure is
	// executed again), "everything" (stored failures too), "latest" (the present
	// state), "unknown" (treated as everything).
	Stores string `yaml:"stores,omitempty" jsonschema:"enum=successes,enum=everything,enum=latest,enum=unknown"`
	// InFlight is what a duplicate gets while the first is worked on: "conflict",
	// "waits", "executes" (it is no duplicate yet: the key protects only after
	// the first ended), "unknown" (default).
	InFlight string `yaml:"in_flight,omitempty" jsonschema:"enum=conflict,enum=waits,enum=executes,enum=unknown"`
	// InFlightTime is how long a write may be worked on, where in_flight is
	// unknown: the key is sent again only after it; default 1m.
	InFlightTime Duration `yaml:"in_flight_time,omitempty"`

	Scope string `yaml:"scope,omitempty"` // for people: "account and mode"

	// HonouredBy is a header that a success under our key must carry; without it
	// the key was ignored, and the operation is not sent again.
	HonouredBy string `yaml:"honoured_by,omitempty"`
	// ReplayedBy is an expression over the answer: it is a stored one.
	ReplayedBy string `yaml:"replayed_by,omitempty"`

	Proof `yaml:",inline"`
}

// Errors say where error answers carry their code and message: expressions over
// the answer (status, header, body, text). An expression that fails is empty.
type Errors struct {
	Code    string `yaml:"code" jsonschema:"minLength=1"`
	Message string `yaml:"message,omitempty"`
	// Simulate is the body of an error answer of the simulator: a template over
	// code and message.
	Simulate any `yaml:"simulate,omitempty"`
	Proof    `yaml:",inline"`
}

// Origin proves that the provider answered, and not something in between. The
// default is a complete JSON object that is declared as JSON.
type Origin struct {
	If    string `yaml:"if" jsonschema:"minLength=1"` // expression over the answer
	Proof `yaml:",inline"`
}

// Rule says what an answer means. Everything that is set must hold. Rules are
// tried in order, those of the action first; then comes the standard table
// (docs/contracts.md). What no rule and no row proves is ambiguous.
type Rule struct {
	Status []StatusRange     `yaml:"status,omitempty"` // 409, "5xx", "500-504"
	Code   []string          `yaml:"code,omitempty"`   // of Errors.Code, exactly
	Header map[string]string `yaml:"header,omitempty"` // name: RE2 that a value must match
	If     string            `yaml:"if,omitempty"`     // expression over the answer

	// Is is one of: applied, applied_no_receipt, accepted, in_progress,
	// maybe_ours, key_mismatch, rejected, not_applied, rate_limited, ambiguous.
	Is          string `yaml:"is" jsonschema:"enum=applied,enum=applied_no_receipt,enum=accepted,enum=in_progress,enum=maybe_ours,enum=key_mismatch,enum=rejected,enum=not_applied,enum=rate_limited,enum=ambiguous"`
	Correctable bool   `yaml:"correctable,omitempty"` // rejected: other arguments could succeed
	// Because is the evidence; required where nothing was applied (rejected,
	// not_applied, rate_limited).
	Because string   `yaml:"because,omitempty"`
	Wait    Duration `yaml:"wait,omitempty"` // when the answer says no time itself

	Proof `yaml:",inline"`
	// Simulate is an answer that this rule is about: the check classifies it, and
	// the simulator gives it.
	Simulate *Answer `yaml:"simulate,omitempty"`
}

// Limits say how an answer tells when to come again. The first signal that can
// be read counts.
type Limits struct {
	Signals []Signal `yaml:"signals,omitempty"` // default: Retry-After
	Default Duration `yaml:"default,omitempty"` // when the answer says no time
	Max     Duration `yaml:"max,omitempty"`     // default and limit 24h
	Proof   `yaml:",inline"`
}

// Signal is one place with a time to wait.
type Signal struct {
	Header string `yaml:"header,omitempty"` // its first value
	Value  string `yaml:"value,omitempty"`  // expression over the answer
	// As is "retry_after" (default: seconds or an HTTP date, RFC 9110), "seconds"
	// (a fraction is rounded up), "milliseconds", "epoch_seconds",
	// "epoch_milliseconds", "rfc3339".
	As string `yaml:"as,omitempty" jsonschema:"enum=retry_after,enum=seconds,enum=milliseconds,enum=epoch_seconds,enum=epoch_milliseconds,enum=rfc3339"`
}

// Webhooks say how the provider's own calls are verified and what they prove.
type Webhooks struct {
	Verify Verify `yaml:"verify"`
	// Wait is how long a doubt waits for an event before a person is asked,
	// where nothing else can find out.
	Wait   Duration `yaml:"wait,omitempty"`
	Items  string   `yaml:"items,omitempty"` // expression over body: a list of events; default: the body is one
	Events []Event  `yaml:"events" jsonschema:"minItems=1"`
	Proof  `yaml:",inline"`
}

// Verify is a signature scheme.
type Verify struct {
	Scheme  string   `yaml:"scheme" jsonschema:"enum=standard,enum=stripe,enum=github,enum=hmac"` // "standard", "stripe", "github", "hmac"
	Secrets []Secret `yaml:"secrets" jsonschema:"minItems=1"`
	// Tolerance of the timestamp; default 5m.
	Tolerance Duration `yaml:"tolerance,omitempty"`

	// For "hmac" alone.
	Header          string   `yaml:"header,omitempty"`
	Prefix          string   `yaml:"prefix,omitempty"`                                                   // before the signature: "sha256="
	Algorithm       string   `yaml:"algorithm,omitempty" jsonschema:"enum=sha256,enum=sha512,enum=sha1"` // "sha256" (default), "sha512", "sha1"
	Encoding        string   `yaml:"encoding,omitempty" jsonschema:"enum=hex,enum=base64"`               // "hex" (default), "base64"
	TimestampHeader string   `yaml:"timestamp_header,omitempty"`                                         // Unix seconds; needed where timestamp is a part of the content
	Content         []string `yaml:"content,omitempty"`                                                  // parts in order: "body", "form" (its fields, sorted), "url", "method", "timestamp", "header:X", "text:."; default body
}

// Event says what a webhook event proves. Expressions see event, header and
// config; the first event rule whose If holds counts, and none means nothing.
type Event struct {
	If        string   `yaml:"if" jsonschema:"minLength=1"`
	ID        string   `yaml:"id" jsonschema:"minLength=1"`                              // the event's own id: replays are known by it
	Operation string   `yaml:"operation,omitempty"`                                      // our operation id, as it came back
	Reference string   `yaml:"reference,omitempty"`                                      // the provider's id of the effect
	Is        string   `yaml:"is" jsonschema:"enum=applied,enum=rejected,enum=accepted"` // "applied", "rejected", "accepted"
	Receipt   *Receipt `yaml:"receipt,omitempty"`                                        // for applied; expressions see event
	Code      string   `yaml:"code,omitempty"`                                           // for rejected: expressions
	Message   string   `yaml:"message,omitempty"`
	Proof     `yaml:",inline"`
}
