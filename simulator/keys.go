package simulator

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/fakeprovider"
)

// keys make the rules for idempotency keys of an action type.
func (a *action) keys() fakeprovider.Keys {
	rules, own := a.of.Keys, true
	at := a.of.Place
	if rules == nil {
		rules, own, at = a.s.provider.Keys, false, a.s.provider.Place
	}
	if rules == nil || rules.Place == "none" || rules.Place == "" {
		return fakeprovider.Keys{}
	}
	from := a.keyFrom(rules)
	if from == nil {
		a.s.bad(at, "keys", "the simulator finds no place with the key in %s: want a header, query or field with a name, or ${key} by itself in the request", a.of.Type)
		return fakeprovider.Keys{}
	}
	out := fakeprovider.Keys{
		From: from,
		// The contract lets nobody rely on a key whose window is unpublished.
		Ignored:       rules.Window == 0,
		Scope:         a.of.Type,
		Window:        rules.Window.Std(),
		StoreFailures: rules.Stores != "successes" && rules.Stores != "latest",
		Latest:        rules.Stores == "latest",
		Refuse:        a.refuseKey(at, rules),
		Replayed:      replayMark(rules.ReplayedBy),
		Mismatch: a.book.orElse(isKeyMismatch, fakeprovider.Failure{
			// Not 422, which would claim that nothing was applied.
			Status: http.StatusConflict, Code: "idempotency_key_reused", Message: "The idempotency key was used with another request.",
		}),
		InUse: a.book.orElse(isInProgress, fakeprovider.Failure{
			Status: http.StatusConflict, Code: "idempotency_key_in_use", Message: "A request with this idempotency key is being worked on.",
		}),
	}
	switch rules.InFlight {
	case "waits":
		out.InFlight = fakeprovider.InFlightWaits
	case "executes":
		out.InFlight = fakeprovider.InFlightExecutes
	}
	if rules.Compares != "nothing" {
		out.Compare = func(c *fakeprovider.Call) string { return c.Method + " " + c.Path + "\n" + string(c.Body) }
		if !own { // the provider's keys are for all of its endpoints
			out.Scope = "provider"
		}
	}
	a.echo = rules.HonouredBy
	return out
}

// keyFrom reads the key of a write; nil where the contract's place is none that
// the simulator can read.
func (a *action) keyFrom(rules *definition.Keys) func(*fakeprovider.Call) string {
	if rules.Place == "template" {
		return a.keyInTemplate()
	}
	if rules.Name == "" {
		return nil
	}
	switch rules.Place {
	case "header":
		return func(c *fakeprovider.Call) string { return c.Header.Get(rules.Name) }
	case "query":
		return func(c *fakeprovider.Call) string { return c.Query.Get(rules.Name) }
	case "field":
		return bodyText(strings.Split(rules.Name, "."), func(text string) string { return text })
	}
	return nil
}

// keyInTemplate finds where a request holds ${key}.
func (a *action) keyInTemplate() func(*fakeprovider.Call) string {
	r := a.of.Request
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		if read := keyInValue(r.Headers[name]); read != nil {
			return func(c *fakeprovider.Call) string { return read(c.Header.Get(name)) }
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Query)) {
		if read := keyInValue(r.Query[name]); read != nil {
			return func(c *fakeprovider.Call) string { return read(c.Query.Get(name)) }
		}
	}
	if keyIn(r.Path) != nil {
		return func(c *fakeprovider.Call) string { return c.Value("key") }
	}
	if g := r.GraphQL; g != nil {
		if read := keyIn(g.Query); read != nil {
			return bodyText([]string{"query"}, read)
		}
		return keyInTree(g.Variables, []string{"variables"})
	}
	if r.Raw != nil {
		if read := keyIn(*r.Raw); read != nil {
			return func(c *fakeprovider.Call) string { return read(string(c.Body)) }
		}
	}
	for _, tree := range []any{r.JSON, r.Form, r.Multipart} {
		if read := keyInTree(tree, nil); read != nil {
			return read
		}
	}
	return nil
}

func keyInValue(template any) func(string) string {
	text, ok := template.(string)
	if !ok {
		return nil
	}
	return keyIn(text)
}

// keyInTree looks for ${key} in the objects and lists of a body.
func keyInTree(tree any, path []string) func(*fakeprovider.Call) string {
	switch t := tree.(type) {
	case string:
		if read := keyIn(t); read != nil {
			return bodyText(slices.Clone(path), read)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(t)) {
			if read := keyInTree(t[name], append(path, name)); read != nil {
				return read
			}
		}
	case []any:
		for i, item := range t {
			if read := keyInTree(item, append(path, indexName(i))); read != nil {
				return read
			}
		}
	}
	return nil
}

// bodyText reads a text at a path of the parsed body.
func bodyText(path []string, read func(string) string) func(*fakeprovider.Call) string {
	return func(c *fakeprovider.Call) string {
		value, err := parseBody(c.Header.Get("Content-Type"), c.Body)
		if err != nil {
			return ""
		}
		for _, name := range path {
			value = memberOf(value, name)
		}
		text, _ := value.(string)
		return read(text)
	}
}

// refuseKey refuses a key that breaks the contract's rules for keys.
func (a *action) refuseKey(at definition.Place, rules *definition.Keys) func(string) *fakeprovider.Answer {
	var alphabet *regexp.Regexp
	if rules.Alphabet != "" {
		re, err := regexp.Compile(`^(?:` + rules.Alphabet + `)*$`)
		if err != nil {
			a.s.bad(at, "keys.alphabet", "%v", err)
			return nil
		}
		alphabet = re
	}
	if rules.MaxLength == 0 && alphabet == nil {
		return nil
	}
	return func(key string) *fakeprovider.Answer {
		long := rules.MaxLength > 0 && len([]rune(key)) > rules.MaxLength
		if !long && (alphabet == nil || alphabet.MatchString(key)) {
			return nil
		}
		bad := a.s.failure(fakeprovider.Failure{
			Status: http.StatusBadRequest, Type: "invalid_request_error", Code: "invalid_idempotency_key",
			Message: "The idempotency key is too long, or has a character that is not allowed.",
		})
		return &bad
	}
}

// replayMark is the header by which a contract knows a stored answer, where its
// expression compares one with a text.
func replayMark(expression string) http.Header {
	m := regexp.MustCompile(`^\s*header\s*\[\s*\??\s*"([^"]+)"\s*\](?:\.orValue\(\s*"[^"]*"\s*\))?\s*==\s*"([^"]*)"\s*$`).FindStringSubmatch(expression)
	if m == nil {
		return nil
	}
	return http.Header{http.CanonicalHeaderKey(m[1]): {m[2]}}
}
