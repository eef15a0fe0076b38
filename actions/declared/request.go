package declared

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/actions/httpaction"
)

// request is a compiled request. It is immutable and safe for concurrent use.
type request struct {
	field       string // in the file, for errors
	method      string
	path        *expr.Template
	query       *expr.Tree
	headers     map[string]*expr.Tree // by canonical name
	body        body                  // nil for none
	contentType string                // instead of the body's own
	lists       listStyle
	keys        *keys // nil where no key is placed
}

// request compiles a request of an action, with its key, or of a look-up.
func (c *compiler) request(env *expr.Env, field string, r *definition.Request, shared map[string]string, k *keys) *request {
	out := &request{
		field: field, method: r.Method, path: c.template(env, field+".path", r.Path),
		headers: map[string]*expr.Tree{}, contentType: r.ContentType, lists: listStyle(r.Lists), keys: k,
	}
	switch {
	case !strings.HasPrefix(r.Path, "/") && !isAbsolute(r.Path):
		c.bad(field+".path", "want a path that begins with /, or a URL that begins with https://")
	case strings.ContainsAny(literalsOf(r.Path), "?#"):
		c.bad(field+".path", "parameters belong into query")
	}
	if r.Query != nil {
		out.query = c.tree(env, field+".query", r.Query)
	}
	for _, name := range slices.Sorted(maps.Keys(shared)) {
		out.headers[http.CanonicalHeaderKey(name)] = c.elsewhere().tree(env, "", shared[name])
	}
	own := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		canonical := http.CanonicalHeaderKey(name)
		if own[canonical] {
			c.bad(member(field+".headers", name), "is there twice")
		}
		own[canonical] = true
		out.headers[canonical] = c.tree(env, member(field+".headers", name), r.Headers[name])
	}
	if own["Content-Type"] && r.ContentType != "" {
		c.bad(field+".content_type", "is among the headers too")
	}
	if k != nil && k.place == placeHeader && own[http.CanonicalHeaderKey(k.name)] {
		c.bad(member(field+".headers", k.name), "is where the key goes")
	}
	out.body = c.body(env, field, r, own["Content-Type"])
	if k != nil && k.place == placeField && (out.body == nil || !out.body.holdsFields()) {
		c.bad(field, "the key's place is a field of the body, and the body has none")
	}
	return out
}

func isAbsolute(path string) bool {
	return strings.HasPrefix(path, "https://") || strings.HasPrefix(path, "http://")
}

// literalsOf is a template without its expressions.
func literalsOf(text string) string {
	var out strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "${")
		out.WriteString(before)
		if !ok {
			return out.String()
		}
		_, text, _ = strings.Cut(rest, "}")
	}
}

// render makes the request for one set of variables. seed makes the boundary of
// a multipart body: the same for every attempt of one operation.
func (r *request) render(vars expr.Vars, to target, key, seed string) (httpaction.Request, error) {
	out := httpaction.Request{Method: r.method, Header: http.Header{}}
	if err := r.renderHeaders(out.Header, vars); err != nil {
		return out, err
	}
	address, err := r.renderURL(vars, to, key)
	if err != nil {
		return out, err
	}
	out.URL = address
	if r.keys != nil && r.keys.place == placeHeader {
		out.Header.Set(r.keys.name, key)
	}
	if r.body == nil {
		return out, nil
	}
	content, mediaType, err := r.body.render(vars, r.place(key), seed)
	if err != nil {
		return out, err
	}
	out.Body = content
	if out.Header.Get("Content-Type") == "" {
		out.Header.Set("Content-Type", mediaType)
	}
	return out, nil
}

// place returns what puts the key into the body's fields, or nil.
func (r *request) place(key string) func(body any) error {
	if r.keys == nil || r.keys.place != placeField {
		return nil
	}
	return func(body any) error { return r.keys.put(body, key) }
}

func (r *request) renderHeaders(header http.Header, vars expr.Vars) error {
	for name, tree := range r.headers {
		value, err := tree.Value(vars)
		if err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
		if value == expr.Omitted {
			continue
		}
		text, err := scalarText(value)
		if err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
		header.Set(name, text)
	}
	return nil
}

func (r *request) renderURL(vars expr.Vars, to target, key string) (string, error) {
	path, err := r.path.Text(vars, escapeSegment)
	if err != nil {
		return "", fmt.Errorf("path: %w", err)
	}
	address, err := to.url(path)
	if err != nil {
		return "", err
	}
	query := map[string]any{}
	if r.query != nil {
		value, err := r.query.Value(vars)
		if err != nil {
			return "", fmt.Errorf("query: %w", err)
		}
		query, _ = value.(map[string]any)
	}
	if r.keys != nil && r.keys.place == placeQuery {
		if _, taken := query[r.keys.name]; taken {
			return "", fmt.Errorf("the query has %s already, where the key goes", r.keys.name)
		}
		query[r.keys.name] = key
	}
	pairs, err := pairsOf(query, r.lists)
	if err != nil {
		return "", fmt.Errorf("query: %w", err)
	}
	if len(pairs) > 0 {
		address += "?" + encodeQuery(pairs)
	}
	return address, nil
}

var errEmptySegment = errors.New("a value of the path is empty")

// escapeSegment makes a value one segment of a path, or a part of one. An empty
// one would name the collection instead of its member.
func escapeSegment(value string) (string, error) {
	if value == "" {
		return "", errEmptySegment
	}
	return url.PathEscape(value), nil
}

// target is where the requests of a provider go.
type target struct {
	base    string   // without a slash at its end
	origins []string // that a URL may name; scheme://host
	// played, if set, is the address that plays the provider and every origin of
	// it; without a slash at its end.
	played string
}

// url is the address of a path, or of an absolute URL.
func (t target) url(path string) (string, error) {
	if !isAbsolute(path) {
		if t.played != "" {
			return t.played + path, nil
		}
		return t.base + path, nil
	}
	if t.played == "" {
		return path, nil // the sender compares its origin
	}
	u, err := url.Parse(path)
	if err != nil || !slices.Contains(t.origins, originOf(u)) {
		return "", errors.New("the URL is not on one of the provider's origins")
	}
	return t.played + u.EscapedPath(), nil
}

func originOf(u *url.URL) string { return strings.ToLower(u.Scheme + "://" + u.Host) }
