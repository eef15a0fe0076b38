package declared

import (
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/expr"
)

// contract is a compiled provider: what needs neither secrets nor a network. It
// is immutable and safe for concurrent use.
type contract struct {
	envs    *environments
	p       *definition.Provider
	config  map[string]any
	to      target
	private []netip.Prefix
	auth    *authRules
	errors  *errorReader
	origin  *expr.Expression // nil: the usual one
	rules   []rule
	limits  limits
}

// configOf are a provider's settings, as expressions see them.
func configOf(p *definition.Provider) map[string]any {
	config := make(map[string]any, len(p.Config))
	for name, setting := range p.Config {
		config[name] = setting.Value
	}
	return config
}

// newContract compiles a provider; everything that is wrong is in c.
func newContract(c *compiler, p *definition.Provider) *contract {
	out := &contract{envs: c.envs, p: p, config: configOf(p)}
	if p.HTTP == nil {
		c.bad("http", "is missing: this is the adapter of HTTP providers")
		return out
	}
	out.to = out.target(c, p.HTTP)
	for i, network := range p.HTTP.PrivateNetworks {
		prefix, err := netip.ParsePrefix(network)
		if err != nil {
			c.bad(element("http.private_networks", i), "want a network such as 10.0.0.0/8")
		}
		out.private = append(out.private, prefix)
	}
	for _, name := range slices.Sorted(maps.Keys(p.HTTP.Headers)) {
		c.template(c.envs.request, member("http.headers", name), p.HTTP.Headers[name])
	}
	out.auth = c.auth("http.auth", p.HTTP.Auth, out)
	c.keys("keys", p.Keys)
	if p.Errors != nil {
		out.errors = &errorReader{
			code:    c.expression(c.envs.answer, "errors.code", p.Errors.Code),
			message: c.expression(c.envs.answer, "errors.message", p.Errors.Message),
		}
	}
	if p.Origin != nil {
		out.origin = c.expression(c.envs.answer, "origin.if", p.Origin.If)
	}
	out.rules = c.rules("outcomes", p.Outcomes)
	out.limits = c.limits("rate_limit", p.Limits)
	return out
}

// target finds where the provider is.
func (k *contract) target(c *compiler, h *definition.HTTP) target {
	base := k.address(c, "http.base_url", h.BaseURL)
	to := target{base: strings.TrimRight(base.String(), "/"), origins: []string{originOf(base)}}
	for i, host := range h.Hosts {
		to.origins = append(to.origins, originOf(k.address(c, element("http.hosts", i), host)))
	}
	return to
}

// address fills the configuration into a URL.
func (k *contract) address(c *compiler, field, text string) *url.URL {
	t := c.template(c.envs.config, field, text)
	if t == nil {
		return &url.URL{}
	}
	filled, err := t.Text(expr.Vars{"config": k.config}, nil)
	if err != nil {
		c.bad(field, "%v", err)
		return &url.URL{}
	}
	u, err := url.Parse(filled)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		c.bad(field, "want a URL such as https://api.example.com, without parameters")
		return &url.URL{}
	}
	return u
}

// playedAt returns the target of a provider that is played by another server.
func (t target) playedAt(address string) (target, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return target{}, &url.Error{Op: "parse", URL: address, Err: http.ErrNoLocation}
	}
	t.played = strings.TrimRight(address, "/")
	return t, nil
}

// allowed are the origins that a sender may go to.
func (t target) allowed() []string {
	if t.played == "" {
		return t.origins
	}
	u, err := url.Parse(t.played)
	if err != nil { // playedAt has parsed it
		return nil
	}
	return []string{originOf(u)}
}
