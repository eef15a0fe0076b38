package definition

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The adapters that a provider can have.
const (
	AdapterHTTP = "http"
	AdapterGRPC = "grpc"
	AdapterSQL  = "sql"
	AdapterSMTP = "smtp"
)

// checker collects the faults of one file.
type checker struct {
	set    *Set
	file   string
	faults []Fault
}

func (c *checker) fault(field, format string, args ...any) {
	c.faults = append(c.faults, c.set.Fault(c.file, field, fmt.Sprintf(format, args...)))
}

// check reports everything that the shapes of the files cannot say.
func (s *Set) check() []Fault {
	var faults []Fault
	for _, name := range slices.Sorted(maps.Keys(s.Providers)) {
		c := &checker{set: s, file: s.Providers[name].Place.File}
		c.provider(s.Providers[name])
		faults = append(faults, c.faults...)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Actions)) {
		c := &checker{set: s, file: s.Actions[name].Place.File}
		c.action(s.Actions[name])
		faults = append(faults, c.faults...)
	}
	return append(faults, s.sharedIntents()...)
}

func (c *checker) provider(p *Provider) {
	if p.Version == "" {
		c.fault("version", "is empty: it is recorded with each operation")
	}
	c.adapter(p)
	for name, setting := range p.Config {
		c.setting("config."+name, name, setting)
	}
	if p.HTTP != nil {
		c.http(p.HTTP)
	}
	if p.SQL != nil && p.SQL.Ledger == (p.SQL.URL != nil) {
		c.fault("sql", "want either ledger: true or a url")
	}
	if p.SQL != nil && p.SQL.OperationsTable != "" && !tableName.MatchString(p.SQL.OperationsTable) {
		c.fault("sql.operations_table", "want a name of lower-case letters, digits and _, with its schema before a point where it has one")
	}
	if p.GRPC != nil {
		c.grpc(p.GRPC)
	}
	if p.SMTP != nil && (p.SMTP.User == nil) != (p.SMTP.Password == nil) {
		c.fault("smtp", "user and password go together")
	}
	if p.Keys != nil {
		c.keys("keys", p.Keys)
	}
	if p.Breaker != nil && p.Breaker.OpenFor > Duration(time.Hour) {
		c.fault("breaker.open_for", "is at most 1h: nothing would be sent for so long")
	}
	if p.OperationToken != nil && p.Adapter != AdapterHTTP && p.Adapter != AdapterGRPC {
		c.fault("operation_token", "has a meaning for the adapters http and grpc alone")
	}
	c.rules("outcomes", p.Outcomes, p.Errors)
	c.limits(p.Limits)
	c.webhooks(p.Webhooks)
	c.secrets(p)
	c.proofs(p, p.Documents)
	c.texts(p.Config)
}

var tableName = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,62}\.)?[a-z_][a-z0-9_]{0,62}$`)

// adapter wants the part that belongs to the adapter, and no other.
func (c *checker) adapter(p *Provider) {
	if p.Adapter == "" {
		p.Adapter = AdapterHTTP
	}
	for adapter, there := range map[string]bool{
		AdapterHTTP: p.HTTP != nil, AdapterGRPC: p.GRPC != nil, AdapterSQL: p.SQL != nil, AdapterSMTP: p.SMTP != nil,
	} {
		switch {
		case adapter == p.Adapter && !there:
			c.fault("adapter", "adapter %s wants the part %q", adapter, adapter)
		case adapter != p.Adapter && there:
			c.fault(adapter, "belongs to adapter: %s, and this is %s", adapter, p.Adapter)
		}
	}
	if p.Adapter == AdapterHTTP {
		return
	}
	for field, there := range map[string]bool{
		"keys": p.Keys != nil, "errors": p.Errors != nil, "origin": p.Origin != nil, "outcomes": len(p.Outcomes) > 0,
		"rate_limit": p.Limits != nil, "webhooks": p.Webhooks != nil, "pace": p.Pace != nil,
	} {
		if there {
			c.fault(field, "has a meaning for adapter: http alone")
		}
	}
}

func (c *checker) setting(field, name string, s Setting) {
	if !settingName.MatchString(name) {
		c.fault(field, "want a name of lower-case letters, digits and _")
	}
	if s.Pattern == "" {
		return
	}
	pattern, err := regexp.Compile("^(?:" + s.Pattern + ")$")
	if err != nil {
		c.fault(field+".pattern", "is no RE2 pattern: %v", err)
		return
	}
	if !pattern.MatchString(s.Value) {
		c.fault(field+".value", "%q does not match %s", s.Value, s.Pattern)
	}
}

var settingName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

func (c *checker) http(h *HTTP) {
	if strings.Contains(withoutConfig(h.BaseURL), "${") {
		c.fault("http.base_url", "may hold ${config.…} and nothing else: where a request goes does not depend on its arguments")
	} else {
		c.origin("http.base_url", withoutConfig(h.BaseURL), h.PrivateNetworks, true)
	}
	for i, host := range h.Hosts {
		c.origin(fmt.Sprintf("http.hosts[%d]", i), withoutConfig(host), h.PrivateNetworks, false)
	}
	c.networks("http.private_networks", h.PrivateNetworks)
	c.tls("http.tls", h.TLS)
	c.sentHeaders("http.headers", slices.Sorted(maps.Keys(h.Headers)))
	if h.Auth != nil {
		c.auth(h.Auth, h.PrivateNetworks)
	}
}

// withoutConfig puts a word in the place of settings, to look at the rest.
func withoutConfig(text string) string { return configTemplate.ReplaceAllString(text, "config") }

var configTemplate = regexp.MustCompile(`\$\{config\.[a-z][a-z0-9_]*\}`)

func (c *checker) origin(field, raw string, private []string, path bool) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		c.fault(field, "want a URL such as https://api.example.com, without a user, query or fragment")
	case u.Scheme != "https" && u.Scheme != "http":
		c.fault(field, "want https")
	case isUnnamed(u.Hostname(), private):
		c.fault(field, "%s is a private address, and would be refused at each request: name it in private_networks", u.Hostname())
	case u.Scheme == "http" && len(private) == 0:
		c.fault(field, "plain http hands the credentials to everybody on the way: want https (http is for named private_networks)")
	case !path && strings.Trim(u.Path, "/") != "":
		c.fault(field, "want no path")
	}
}

// isUnnamed reports whether a host is an address of a private network that is not
// named. What a name resolves to is seen at each connection.
func isUnnamed(host string, private []string) bool {
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.IsLoopback() && !ip.IsPrivate() && !ip.IsLinkLocalUnicast() {
		return false
	}
	return !slices.ContainsFunc(private, func(network string) bool {
		prefix, err := netip.ParsePrefix(network)
		return err != nil || prefix.Contains(ip) // a network that is none is a fault of its own
	})
}

func (c *checker) networks(field string, networks []string) {
	for i, n := range networks {
		if _, err := netip.ParsePrefix(n); err != nil {
			c.fault(fmt.Sprintf("%s[%d]", field, i), "%q is no network: want CIDR, such as 10.1.0.0/16", n)
		}
	}
}

func (c *checker) auth(a *Auth, private []string) {
	kinds := 0
	for _, set := range []bool{a.Bearer != nil, a.Basic != nil, a.Header != nil, a.Query != nil, a.HMAC != nil, a.OAuth2 != nil} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		c.fault("http.auth", "want exactly one of bearer, basic, header, query, hmac, oauth2; there are %d", kinds)
	}
	if a.Basic != nil {
		if (a.Basic.User == "") == (a.Basic.UserSecret == nil) {
			c.fault("http.auth.basic", "want either user or user_secret")
		}
		if a.Basic.Password != nil && a.Basic.PasswordIsText != "" {
			c.fault("http.auth.basic", "want either password or password_text")
		}
	}
	if a.Basic != nil && a.Basic.PasswordIsText != "" && !fixedWord.MatchString(a.Basic.PasswordIsText) {
		c.fault("http.auth.basic.password_text", "is for a fixed word such as X: a password is a secret and belongs to password")
	}
	if a.Header != nil {
		c.headerName("http.auth.header.name", a.Header.Name)
		c.notToken("http.auth.header.name", a.Header.Name)
	}
	if a.Query != nil && a.Query.Name == "" {
		c.fault("http.auth.query.name", "is empty")
	}
	if a.HMAC != nil {
		for _, name := range slices.Sorted(maps.Keys(a.HMAC.Headers)) {
			at := "http.auth.hmac.headers[" + strconv.Quote(name) + "]"
			c.headerName(at, name)
			c.notToken(at, name)
		}
	}
	if a.OAuth2 != nil {
		c.origin("http.auth.oauth2.token_url", withoutConfig(a.OAuth2.TokenURL), private, true)
	}
	if a.HMAC != nil && len(a.HMAC.Headers) == 0 {
		c.fault("http.auth.hmac.headers", "want the headers that carry the signature")
	}
}

var fixedWord = regexp.MustCompile(`^[A-Za-z_-]{1,16}$`)

func (c *checker) limits(l *Limits) {
	if l == nil {
		return
	}
	for i, s := range l.Signals {
		if (s.Header == "") == (s.Value == "") {
			c.fault(fmt.Sprintf("rate_limit.signals[%d]", i), "want either a header or a value")
		}
		if s.Header != "" {
			c.headerName(fmt.Sprintf("rate_limit.signals[%d].header", i), s.Header)
		}
	}
	const day = Duration(24 * time.Hour)
	if l.Max > day || l.Default > day {
		c.fault("rate_limit", "max and default are at most 24h")
	}
	if l.Max != 0 && l.Default > l.Max {
		c.fault("rate_limit.default", "is longer than max")
	}
}

func (c *checker) webhooks(w *Webhooks) {
	if w == nil {
		return
	}
	v := w.Verify
	own := map[string]bool{
		"header": v.Header != "", "prefix": v.Prefix != "", "algorithm": v.Algorithm != "", "encoding": v.Encoding != "",
		"timestamp_header": v.TimestampHeader != "", "content": len(v.Content) > 0,
	}
	switch {
	case v.Scheme == "hmac" && v.Header == "":
		c.fault("webhooks.verify", "scheme hmac wants the header of the signature")
	case v.Scheme != "hmac":
		for _, field := range slices.Sorted(maps.Keys(own)) {
			if own[field] {
				c.fault("webhooks.verify."+field, "belongs to scheme: hmac")
			}
		}
	}
	c.signed(v)
	c.events(w.Events)
}
