package identity

import (
	"crypto/x509"
	"regexp"
	"strings"
	"time"

	"github.com/onceward/onceward/policy"
)

// principalOfCertificate is who a certificate names: by the first rule that it
// meets. TLS has verified the chain when the connection began; that may be long
// ago, so that its times are looked at again.
func principalOfCertificate(rules []certificateRule, chain []*x509.Certificate, now time.Time) (policy.Principal, error) {
	for _, c := range chain {
		if now.Before(c.NotBefore) || now.After(c.NotAfter) {
			return policy.Principal{}, refuse("the client certificate, or one that vouches for it, has expired or is not valid yet")
		}
	}
	leaf := chain[0]
	for _, r := range rules {
		name, ok := r.names(leaf)
		if !ok {
			continue
		}
		p := policy.Principal{Tenant: r.Tenant, Actor: r.Actor, Roles: r.Roles}
		if p.Actor == "" {
			p.Actor = name
		}
		if problem := badActor(p.Actor); problem != "" {
			return policy.Principal{}, refuse("the name in the client certificate %s", problem)
		}
		return p, nil
	}
	return policy.Principal{}, refuse("no rule names the client certificate")
}

// below is what a * stands for: no dots that lead up, no escapes, no query.
var below = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)

// names says whether a rule is about a certificate, and what the certificate
// calls itself.
func (r certificateRule) names(leaf *x509.Certificate) (name string, ok bool) {
	if r.Subject != "" {
		name = leaf.Subject.String()
		return name, name == r.Subject
	}
	if len(leaf.URIs) != 1 { // as SPIFFE wants it: two names are none
		return "", false
	}
	name = leaf.URIs[0].String()
	prefix, all := strings.CutSuffix(r.URI, "*")
	if !all {
		return name, name == r.URI
	}
	rest, ok := strings.CutPrefix(name, prefix)
	return name, ok && below.MatchString(rest)
}
