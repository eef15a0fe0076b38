package definition

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
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
	return faults
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
		if host, port, ok := strings.Cut(p.GRPC.Address, ":"); !ok || host == "" || port == "" {
			c.fault("grpc.address", "want host:port")
		}
		if p.GRPC.PlainText && p.GRPC.TLS != nil {
			c.fault("grpc.plain_text", "is at odds with tls")
		}
	}
	if p.SMTP != nil && (p.SMTP.User == nil) != (p.SMTP.Password == nil) {
		c.fault("smtp", "user and password go together")
	}
	if p.Keys != nil {
		c.keys("keys", p.Keys)
	}
	c.rules("outcomes", p.Outcomes, p.Errors)
	c.limits(p.Limits)
	c.webhooks(p.Webhooks)
	c.secrets(p)
	c.proofs(p, p.Documents)
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
	if h.TLS != nil && (h.TLS.Cert == "") != (h.TLS.Key == "") {
		c.fault("http.tls", "cert and key go together")
	}
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
	case u.Scheme == "http" && len(private) == 0 && !isLoopback(u.Hostname()):
		c.fault(field, "plain http hands the credentials to everybody on the way: want https (http is for loopback and named private_networks)")
	case !path && strings.Trim(u.Path, "/") != "":
		c.fault(field, "want no path")
	}
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
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
	if a.OAuth2 != nil {
		c.origin("http.auth.oauth2.token_url", withoutConfig(a.OAuth2.TokenURL), private, true)
	}
	if a.HMAC != nil && len(a.HMAC.Headers) == 0 {
		c.fault("http.auth.hmac.headers", "want the headers that carry the signature")
	}
}

func (c *checker) limits(l *Limits) {
	if l == nil {
		return
	}
	for i, s := range l.Signals {
		if (s.Header == "") == (s.Value == "") {
			c.fault(fmt.Sprintf("rate_limit.signals[%d]", i), "want either a header or a value")
		}
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
	for i, e := range w.Events {
		field := fmt.Sprintf("webhooks.events[%d]", i)
		if e.Operation == "" && e.Reference == "" {
			c.fault(field, "want operation or reference: which operation it is about")
		}
		if (e.Is == "applied") != (e.Receipt != nil) {
			c.fault(field, "a receipt goes with is: applied, and only with it")
		}
	}
}
