package simulator

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/fakeprovider"
)

// pattern makes a pattern of the fake provider of the template of a path. The
// parts that hold our key and the provider's reference are named key and
// reference.
func (s *simulation) pattern(template string) (string, error) {
	if _, rest, absolute := strings.Cut(template, "://"); absolute {
		slash := strings.IndexByte(rest, '/')
		if slash < 0 {
			slash = len(rest)
		}
		template = rest[slash:]
	}
	if template == "" {
		template = "/"
	}
	var out strings.Builder
	named := false // the last part is a name: two of them beside each other are one
	for i, p := range pieces(template) {
		text := p.text
		if p.expression {
			value, err := s.constant("${" + p.text + "}")
			if err != nil { // it depends on the operation
				if !named {
					fmt.Fprintf(&out, "{%s}", partName(p.text, i))
				}
				named = true
				continue
			}
			text = value
		} else if plain, err := url.PathUnescape(text); err == nil {
			text = plain
		}
		text, _, _ = strings.Cut(text, "?")
		if strings.ContainsAny(text, "{}") {
			return "", errors.New("a path with braces cannot be simulated")
		}
		named = named && text == ""
		out.WriteString(text)
	}
	path := out.String()
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	if rest, ok := strings.CutPrefix(path, s.base); ok && s.base != "" && strings.HasPrefix(rest, "/") {
		path = rest
	}
	return path, nil
}

// path is pattern for a path of a file.
func (s *simulation) path(at definition.Place, field, template string) string {
	path, err := s.pattern(template)
	if err != nil {
		s.bad(at, field, "%v", err)
	}
	return path
}

func partName(expression string, i int) string {
	if expression == "key" || expression == "reference" {
		return expression
	}
	return fmt.Sprintf("p%d", i)
}

// countPaths counts what shares method and path, so that bodies decide there.
func (s *simulation) countPaths(acts []*definition.Action) {
	s.shared = map[string]int{}
	for _, a := range acts {
		if a.Request == nil {
			continue
		}
		s.shared[s.pathOf(a.Request, methodOf(a.Request))]++
		looks := map[string]bool{}
		for i := range a.Lookups {
			r := &a.Lookups[i].Request
			looks[s.pathOf(r, lookupMethod(r))] = true
		}
		for path := range looks {
			if !strings.HasPrefix(path, "GET ") { // reads of one path are asked in order
				s.shared[path]++
			}
		}
	}
}

func (s *simulation) pathOf(r *definition.Request, method string) string {
	path, _ := s.pattern(r.Path) // what is wrong with it is said where it is compiled
	return method + " " + path
}

// match chooses among requests of one method and path by their bodies; nil where
// there is nothing to choose.
func (s *simulation) match(r *definition.Request) func(*fakeprovider.Call) bool {
	method := methodOf(r)
	if r.GraphQL == nil && s.shared[s.pathOf(r, method)] < 2 {
		return nil
	}
	return func(c *fakeprovider.Call) bool {
		request, err := requestOf(c)
		return err == nil && sameShape(r, request["body"])
	}
}

// sameShape says whether a body can be what a request's template became.
func sameShape(r *definition.Request, body any) bool {
	switch {
	case r.GraphQL != nil:
		members, _ := body.(map[string]any)
		query, _ := members["query"].(string)
		return fits(r.GraphQL.Query, query)
	case r.JSON != nil:
		return shape(r.JSON, body)
	case r.Form != nil:
		return shape(r.Form, body)
	case r.Multipart != nil:
		return shape(r.Multipart, body)
	case r.Raw != nil:
		text, _ := body.(string)
		return fits(*r.Raw, text)
	}
	return body == nil
}

// shape says whether a value can be what a tree of templates became: what is
// fixed in the tree is there, and nothing is there that the tree does not have.
func shape(tree, value any) bool {
	switch t := tree.(type) {
	case map[string]any:
		members, ok := value.(map[string]any)
		if !ok {
			return false
		}
		for name, member := range members {
			if inner, known := t[name]; !known || !shape(inner, member) {
				return false
			}
		}
		for name, inner := range t {
			if _, has := members[name]; !has && fixed(inner) {
				return false
			}
		}
		return true
	case string:
		if !isLiteral(t) && len(pieces(t)) == 1 {
			return true
		}
		text, ok := value.(string)
		return ok && fits(t, text)
	case []any:
		_, ok := value.([]any)
		return ok
	case nil:
		return true
	default:
		return fmt.Sprint(t) == fmt.Sprint(value)
	}
}

// fixed says that a part of a tree is the same in every request.
func fixed(tree any) bool {
	switch t := tree.(type) {
	case string:
		return isLiteral(t)
	case map[string]any, []any, nil:
		return false
	default:
		return true
	}
}
