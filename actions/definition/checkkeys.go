package definition

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// The samples are keys in each form, for the provider's rules.
var keyForms = map[string]string{ //nolint:gochecknoglobals // a table, never changed
	"":          "0a1b2c3d4e5f6g7h8i9jklmnuv",
	"base32hex": "0a1b2c3d4e5f6g7h8i9jklmnuv",
	"hex":       "0123456789abcdef0123456789abcdef",
	"uuid":      "01234567-89ab-4cde-8f01-23456789abcd",
}

func (c *checker) keys(field string, k *Keys) {
	named := k.Place == "header" || k.Place == "query" || k.Place == "field"
	switch {
	case named && k.Name == "":
		c.fault(field, "place: %s wants a name", k.Place)
	case !named && k.Name != "":
		c.fault(field+".name", "has no meaning with place: %s", k.Place)
	}
	switch {
	case k.Place == "header" && k.Name != "":
		c.sentHeaders(field+".name", []string{k.Name})
	case k.Place == "field" && k.Name != "" && slices.Contains(strings.Split(k.Name, "."), ""):
		c.fault(field+".name", "%q is no path of a field: want names with a point between", k.Name)
	}
	if k.HonouredBy != "" {
		c.headerName(field+".honoured_by", k.HonouredBy)
	}
	if k.Place == "none" && k.Window != 0 {
		c.fault(field+".window", "has no meaning without a key")
	}
	sample := k.Prefix + keyForms[k.Form]
	if k.MaxLength != 0 && len(sample) > k.MaxLength {
		c.fault(field+".max_length", "our keys have %d characters in this form, and the provider takes %d", len(sample), k.MaxLength)
	}
	if k.Alphabet != "" {
		alphabet, err := regexp.Compile("^(?:" + k.Alphabet + ")+$")
		switch {
		case err != nil:
			c.fault(field+".alphabet", "is no RE2 class: %v", err)
		case !alphabet.MatchString(sample):
			c.fault(field+".alphabet", "our keys look like %s, which is outside %s: choose another form", sample, k.Alphabet)
		}
	}
	if k.Window != 0 && k.Margin >= k.Window {
		c.fault(field+".margin", "leaves nothing of the window")
	}
	if k.InFlightTime != 0 && k.InFlight != "" && k.InFlight != "unknown" {
		c.fault(field+".in_flight_time", "goes with in_flight: unknown")
	}
	if k.Window != 0 && k.InFlight == "executes" {
		c.fault(field+".in_flight", "a duplicate that is executed while the first is worked on makes a second effect: take the window away, so that doubt is looked up")
	}
}

func (c *checker) rules(field string, rules []Rule, errors *Errors) {
	for i, r := range rules {
		at := fmt.Sprintf("%s[%d]", field, i)
		if len(r.Status) == 0 && len(r.Code) == 0 && len(r.Header) == 0 && r.If == "" {
			c.fault(at, "wants a condition: status, code, header or if")
		}
		if len(r.Code) > 0 && errors == nil {
			c.fault(at+".code", "there are no errors.code to compare with")
		}
		if slices.Contains([]string{"rejected", "not_applied", "rate_limited"}, r.Is) && r.Because == "" {
			c.fault(at, "%s claims that nothing was applied: say because of what", r.Is)
		}
		if r.Correctable && r.Is != "rejected" {
			c.fault(at+".correctable", "has a meaning for rejected alone")
		}
		c.comparedHeaders(at+".header", slices.Sorted(maps.Keys(r.Header)))
		for _, name := range slices.Sorted(maps.Keys(r.Header)) {
			pattern := r.Header[name]
			if _, err := regexp.Compile(pattern); err != nil {
				c.fault(at+".header", "%s: is no RE2 pattern: %v", name, err)
			}
		}
		for j := range i {
			earlier := rules[j]
			switch {
			case !earlier.plain():
			case r.inside(earlier) && (earlier.Is != r.Is || !r.plain()):
				c.fault(at, "overlaps %s[%d], which takes everything that fits this one and says %s: put the special case first", field, j, earlier.Is)
			case earlier.Is != r.Is && r.plain() && earlier.overlaps(r) && !earlier.within(r):
				c.fault(at, "overlaps %s[%d], which says %s: what is in both could mean either", field, j, earlier.Is)
			}
		}
	}
}

// plain reports whether a rule decides by status and code alone.
func (r Rule) plain() bool { return r.If == "" && len(r.Header) == 0 }

// overlaps reports whether an answer can fit both rules.
func (r Rule) overlaps(o Rule) bool {
	statuses := len(r.Status) == 0 || len(o.Status) == 0 || slices.ContainsFunc(r.Status, func(a StatusRange) bool {
		return slices.ContainsFunc(o.Status, a.overlaps)
	})
	codes := len(r.Code) == 0 || len(o.Code) == 0 || slices.ContainsFunc(r.Code, func(code string) bool {
		return slices.Contains(o.Code, code)
	})
	return statuses && codes
}

// within reports whether a rule is a special case of another that comes later.
func (r Rule) within(o Rule) bool { return r.inside(o) && !o.inside(r) }

func (r Rule) inside(o Rule) bool {
	statuses := len(o.Status) == 0 || len(r.Status) > 0 && !slices.ContainsFunc(r.Status, func(a StatusRange) bool {
		return !slices.ContainsFunc(o.Status, func(b StatusRange) bool { return b.First <= a.First && a.Last <= b.Last })
	})
	codes := len(o.Code) == 0 || len(r.Code) > 0 && !slices.ContainsFunc(r.Code, func(code string) bool {
		return !slices.Contains(o.Code, code)
	})
	return statuses && codes
}

// usesKey reports whether any text of a value has ${…key…}.
func usesKey(value any) bool {
	switch v := value.(type) {
	case string:
		return keyTemplate.MatchString(v)
	case map[string]any:
		for _, member := range v {
			if usesKey(member) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, usesKey)
	}
	return false
}

var keyTemplate = regexp.MustCompile(`\$\{[^}]*\bkey\b`)

// mentionsKey reports whether a request has the key in one of its templates.
func (r *Request) mentionsKey() bool {
	texts := []any{r.Path, r.Query, r.Headers, r.JSON, r.Form, r.Multipart}
	if r.GraphQL != nil {
		texts = append(texts, r.GraphQL.Query, r.GraphQL.Variables)
	}
	if r.Raw != nil {
		texts = append(texts, *r.Raw)
	}
	return slices.ContainsFunc(texts, usesKey)
}

// bodies are the names of the bodies that a request has.
func (r *Request) bodies() []string {
	var names []string
	for _, body := range []struct {
		name string
		set  bool
	}{{"json", r.JSON != nil}, {"form", r.Form != nil}, {"multipart", r.Multipart != nil}, {"graphql", r.GraphQL != nil}, {"raw", r.Raw != nil}} {
		if body.set {
			names = append(names, body.name)
		}
	}
	return names
}

func (c *checker) request(field string, r *Request) {
	c.sentHeaders(field+".headers", slices.Sorted(maps.Keys(r.Headers)))
	if bodies := r.bodies(); len(bodies) > 1 {
		c.fault(field, "has %d bodies (%s): want one at most", len(bodies), strings.Join(bodies, ", "))
	} else if r.Method == get && len(bodies) == 1 {
		c.fault(field+"."+bodies[0], "a GET has no body")
	}
	if !strings.HasPrefix(r.Path, "/") && !strings.HasPrefix(r.Path, "https://") && !strings.HasPrefix(r.Path, "http://") {
		c.fault(field+".path", "want a path that begins with /, or a URL on one of http.hosts")
	}
	if r.GraphQL != nil {
		rest := strings.ReplaceAll(withoutConfig(r.GraphQL.Query), "${key}", "key")
		if strings.Contains(rest, "${") {
			c.fault(field+".graphql.query", "may hold ${key} and ${config.…} alone: everything else belongs in variables")
		}
	}
}
