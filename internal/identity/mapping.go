package identity

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/onceward/onceward/policy"
)

// maxActorBytes is what the ledger takes.
const maxActorBytes = 255

// claimPath leads to a claim: one name, or names of objects inside of each
// other. A name may have any characters, dots and slashes too.
type claimPath []string

// UnmarshalYAML reads a name or a list of names.
func (p *claimPath) UnmarshalYAML(unmarshal func(any) error) error {
	var name string
	if err := unmarshal(&name); err == nil {
		*p = claimPath{name}
		return nil
	}
	var names []string
	err := unmarshal(&names)
	*p = names
	return err
}

func (p claimPath) String() string { return strings.Join(p, " → ") }

func (p claimPath) in(c claims) any {
	var v any = map[string]any(c)
	for _, name := range p {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

// principal is who a token's claims name.
func (i *issuer) principal(c claims) (policy.Principal, error) {
	var p policy.Principal
	var err error
	if p.Tenant, err = i.Tenant.of(c, "tenant"); err != nil {
		return policy.Principal{}, err
	}
	// The one rule that keeps tenants of different issuers apart.
	if !slices.Contains(i.Tenants, p.Tenant) {
		return policy.Principal{}, refuse("issuer %s does not speak for the tenant that its token names", i.Name)
	}
	if p.Actor, err = i.Actor.of(c, "actor"); err != nil {
		return policy.Principal{}, err
	}
	if problem := badActor(p.Actor); problem != "" {
		return policy.Principal{}, refuse("the actor that the token of issuer %s names %s", i.Name, problem)
	}
	p.Roles = i.Roles.of(c)
	if err := policy.CheckRoles(p.Roles); err != nil {
		return policy.Principal{}, refuseProven(p, "%s", err)
	}
	return p, nil
}

// of returns the value for one token.
func (s source) of(c claims, what string) (string, error) {
	if s.Value != "" {
		return s.Value, nil
	}
	text, _ := s.Claim.in(c).(string)
	if text == "" {
		return "", refuse("the token has no text at the claim %s, which names the %s", s.Claim, what)
	}
	if s.Map != nil {
		if text = s.Map[text]; text == "" {
			return "", refuse("the value of the claim %s is not in the map of the %s", s.Claim, what)
		}
	}
	return s.Prefix + text, nil
}

// of returns the roles for one token. Values that the map does not have are no
// roles: groups are for many programs.
func (s roleSource) of(c claims) []policy.Role {
	if s.Values != nil {
		return s.Values
	}
	var roles []policy.Role
	v := s.Claim.in(c)
	values := texts(v)
	if text, ok := v.(string); ok {
		values = strings.Fields(text) // as "scope" has them
	}
	for _, value := range values {
		if role, ok := s.Map[value]; ok && !slices.Contains(roles, role) {
			roles = append(roles, role)
		}
	}
	return roles
}

// badActor says what is wrong with the name of an actor; empty: nothing. It is
// stored, logged and compared with that of who requested.
func badActor(actor string) string {
	switch {
	case actor == "":
		return "is empty"
	case len(actor) > maxActorBytes:
		return "is longer than 255 bytes"
	case !utf8.ValidString(actor) || strings.ContainsFunc(actor, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.TrimSpace(actor) != actor:
		return "has characters that cannot be seen"
	default:
		return ""
	}
}
