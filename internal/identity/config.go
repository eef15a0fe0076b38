package identity

import (
	"crypto/x509"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/onceward/onceward/policy"
)

// Defaults and limits of what a file may say about tokens.
const (
	defaultLeeway      = 30 * time.Second
	maxLeeway          = 5 * time.Minute
	defaultMaxLifetime = 24 * time.Hour
	limitMaxLifetime   = 366 * 24 * time.Hour
)

// document is the file. docs/identity.md describes it.
type document struct {
	APIKeys      *bool             `yaml:"api_keys"` // not given: they are good
	Issuers      []issuerConfig    `yaml:"issuers"`
	Certificates []certificateRule `yaml:"certificates"`
}

// issuerConfig is an issuer of tokens.
type issuerConfig struct {
	Name        string         `yaml:"name"`     // for the log and refusals
	URL         string         `yaml:"issuer"`   // as the claim iss has it
	JWKS        string         `yaml:"jwks_url"` // not given: by discovery
	CAFile      string         `yaml:"ca_file"`  // not given: the system's roots
	Audiences   []string       `yaml:"audiences"`
	Algorithms  []string       `yaml:"algorithms"`
	TokenType   string         `yaml:"token_type"`
	Leeway      *time.Duration `yaml:"leeway"`
	MaxLifetime time.Duration  `yaml:"max_lifetime"`
	OneTime     bool           `yaml:"one_time"`
	Tenants     []string       `yaml:"tenants"`
	Tenant      source         `yaml:"tenant"`
	Actor       source         `yaml:"actor"`
	Roles       roleSource     `yaml:"roles"`

	ca    []byte         // what CAFile holds
	roots *x509.CertPool // of ca; nil: the system's
}

// source is where a text comes from: a fixed value, or a claim.
type source struct {
	Value  string            `yaml:"value"`
	Claim  claimPath         `yaml:"claim"`
	Map    map[string]string `yaml:"map"` // nil: as it is
	Prefix string            `yaml:"prefix"`
}

// roleSource is where roles come from: fixed ones, or a claim and what its
// values mean.
type roleSource struct {
	Values []policy.Role          `yaml:"values"`
	Claim  claimPath              `yaml:"claim"`
	Map    map[string]policy.Role `yaml:"map"`
}

// certificateRule is about certificates with a URI or a subject.
type certificateRule struct {
	URI     string        `yaml:"uri"` // exact, or with /* at its end
	Subject string        `yaml:"subject"`
	Tenant  string        `yaml:"tenant"`
	Actor   string        `yaml:"actor"` // not given: the URI or subject
	Roles   []policy.Role `yaml:"roles"`
}

func (c *issuerConfig) algorithms() []jose.SignatureAlgorithm {
	list := make([]jose.SignatureAlgorithm, len(c.Algorithms))
	for i, a := range c.Algorithms {
		list[i] = jose.SignatureAlgorithm(a)
	}
	return list
}

// faults collects what is wrong, by the path of the field.
type faults func(path, format string, args ...any)

// check finds everything that is wrong in a document, and fills in defaults.
func (d *document) check(fault faults) {
	if d.APIKeys != nil && !*d.APIKeys && len(d.Issuers) == 0 && len(d.Certificates) == 0 {
		fault("api_keys", "nobody could come in: want issuers or certificates where API keys are off")
	}
	names, urls := map[string]bool{}, map[string]bool{}
	for i := range d.Issuers {
		c, at := &d.Issuers[i], fmt.Sprintf("issuers[%d]", i)
		c.check(at, fault)
		if names[c.Name] {
			fault(at+".name", "%q is the name of another issuer", c.Name)
		}
		if urls[c.URL] {
			fault(at+".issuer", "there is another entry for this issuer: which would count?")
		}
		names[c.Name], urls[c.URL] = true, true
	}
	rules := map[string]bool{}
	for i, r := range d.Certificates {
		at := fmt.Sprintf("certificates[%d]", i)
		r.check(at, fault)
		if rules[r.URI+"\x00"+r.Subject] {
			fault(at, "there is a rule for the same name before it")
		}
		rules[r.URI+"\x00"+r.Subject] = true
	}
}

var (
	nameForm   = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)
	tenantForm = nameForm // as the ledger has it
)

func (c *issuerConfig) check(at string, fault faults) {
	if !nameForm.MatchString(c.Name) {
		fault(at+".name", "want a name of lower-case letters, digits, - and _, for the log")
	}
	if problem := badURL(c.URL); problem != "" {
		fault(at+".issuer", "%s; it is the URL that the claim iss has", problem)
	}
	if c.JWKS != "" {
		if problem := badURL(c.JWKS); problem != "" {
			fault(at+".jwks_url", "%s", problem)
		}
	}
	if len(c.Audiences) == 0 || slices.Contains(c.Audiences, "") {
		fault(at+".audiences", "want at least one: a token that was made for another service is not for this one")
	}
	c.checkTokens(at, fault)
	if len(c.Tenants) == 0 {
		fault(at+".tenants", "want the tenants that this issuer speaks for")
	}
	for j, tenant := range c.Tenants {
		checkTenant(fmt.Sprintf("%s.tenants[%d]", at, j), tenant, fault)
	}
	c.Tenant.check(at+".tenant", fault)
	if value := c.Tenant.Value; value != "" && !slices.Contains(c.Tenants, value) {
		fault(at+".tenant.value", "%q is not among the issuer's tenants", value)
	}
	for _, from := range slices.Sorted(maps.Keys(c.Tenant.Map)) {
		if to := c.Tenant.Prefix + c.Tenant.Map[from]; !slices.Contains(c.Tenants, to) {
			fault(at+".tenant.map", "%q becomes %q, which is not among the issuer's tenants", from, to)
		}
	}
	c.Actor.check(at+".actor", fault)
	if c.Actor.Value != "" {
		if problem := badActor(c.Actor.Value); problem != "" {
			fault(at+".actor.value", "it %s", problem)
		}
	}
	c.Roles.check(at+".roles", fault)
}

func (c *issuerConfig) checkTokens(at string, fault faults) {
	if c.Algorithms == nil {
		c.Algorithms = []string{string(jose.RS256), string(jose.PS256), string(jose.ES256), string(jose.EdDSA)}
	}
	for j, name := range c.Algorithms {
		if !slices.Contains(allAlgorithms(), jose.SignatureAlgorithm(name)) {
			fault(fmt.Sprintf("%s.algorithms[%d]", at, j), "%q is not allowed: want some of %v", name, allAlgorithms())
		}
	}
	if len(c.Algorithms) == 0 {
		fault(at+".algorithms", "want at least one, or leave it out")
	}
	if c.Leeway == nil {
		leeway := defaultLeeway
		c.Leeway = &leeway
	}
	if *c.Leeway < 0 || *c.Leeway > maxLeeway {
		fault(at+".leeway", "want a time between 0s and %s", maxLeeway)
	}
	if c.MaxLifetime == 0 {
		c.MaxLifetime = defaultMaxLifetime
	}
	if c.MaxLifetime < 0 || c.MaxLifetime > limitMaxLifetime {
		fault(at+".max_lifetime", "want a time above 0, such as 1h, and at most %s", limitMaxLifetime)
	}
	c.TokenType = strings.TrimPrefix(strings.ToLower(c.TokenType), "application/")
}

func (s source) check(at string, fault faults) {
	if (s.Value == "") == (len(s.Claim) == 0) {
		fault(at, "want either value or claim")
	}
	if s.Value != "" && (s.Map != nil || s.Prefix != "") {
		fault(at, "map and prefix are for a claim")
	}
	if slices.Contains(s.Claim, "") {
		fault(at+".claim", "want a name, or a list of names for a claim inside of others")
	}
	for _, from := range slices.Sorted(maps.Keys(s.Map)) {
		if from == "" || s.Map[from] == "" {
			fault(at+".map", "want texts that are not empty")
		}
	}
}

func (s roleSource) check(at string, fault faults) {
	if (len(s.Values) == 0) == (len(s.Claim) == 0) {
		fault(at, "want either values or claim")
	}
	if slices.Contains(s.Claim, "") {
		fault(at+".claim", "want a name, or a list of names for a claim inside of others")
	}
	if (len(s.Claim) == 0) != (len(s.Map) == 0) {
		fault(at+".map", "want what each value of the claim means, as in {payments-agents: agent}; it goes with claim")
	}
	if err := policy.CheckRoles(s.Values); err != nil {
		fault(at+".values", "%v", err)
	}
	for _, from := range slices.Sorted(maps.Keys(s.Map)) {
		if err := policy.CheckRoles([]policy.Role{s.Map[from]}); err != nil {
			fault(at+".map", "%q: %v", from, err)
		}
	}
}

func (r certificateRule) check(at string, fault faults) {
	if (r.URI == "") == (r.Subject == "") {
		fault(at, "want either uri or subject")
	}
	if r.URI != "" {
		exact, all := strings.CutSuffix(r.URI, "/*")
		u, err := url.Parse(exact)
		if err != nil || u.Scheme == "" || u.Host == "" || u.String() != exact || strings.Contains(exact, "*") || all && strings.Trim(u.Path, "/") == "" {
			fault(at+".uri", "want a URI such as spiffe://example.org/agents/refunds, or spiffe://example.org/agents/* for all below")
		}
	}
	checkTenant(at+".tenant", r.Tenant, fault)
	if r.Actor != "" {
		if problem := badActor(r.Actor); problem != "" {
			fault(at+".actor", "it %s", problem)
		}
	}
	if len(r.Roles) == 0 {
		fault(at+".roles", "want at least one role")
	}
	if err := policy.CheckRoles(r.Roles); err != nil {
		fault(at+".roles", "%v", err)
	}
}

func checkTenant(at, tenant string, fault faults) {
	if !tenantForm.MatchString(tenant) {
		fault(at, "want the name of a tenant: lower-case letters, digits, - and _, at most 63")
	}
}
