package fakeprovider

import (
	"net/http"
	"net/url"
	"strings"
)

// RequestKind says what a request is to the provider.
type RequestKind string

// The kinds of request.
const (
	KindWrite  RequestKind = "write"  // of a resource
	KindLookup RequestKind = "lookup" // of a resource
	KindOther  RequestKind = "other"  // an endpoint beside the resources, or nothing that there is
)

// destination is where a request goes. At most one of write, lookups and
// endpoint is set.
type destination struct {
	call     *Call // with the values of the pattern
	write    *Resource
	lookups  []lookupOf // that share method and path, in order
	endpoint *Endpoint
}

type lookupOf struct {
	*Lookup
	of   *Resource
	call *Call // with the values of its own pattern
}

func (d destination) kind() RequestKind {
	switch {
	case d.write != nil:
		return KindWrite
	case len(d.lookups) > 0:
		return KindLookup
	default:
		return KindOther
	}
}

// resource is the one whose shape errors have; nil where there is none.
func (d destination) resource() *Resource {
	if len(d.lookups) > 0 {
		return d.lookups[0].of
	}
	return d.write
}

// route finds the destination of a call.
func (p *Provider) route(c *Call, escapedPath string) destination {
	path := strings.Split(p.withoutBase(escapedPath), "/")
	for i := range p.opts.Endpoints {
		e := &p.opts.Endpoints[i]
		if seen, ok := c.hits(e.Method, http.MethodPost, e.Path, path, nil); ok {
			return destination{call: seen, endpoint: e}
		}
	}
	for i := range p.opts.Resources {
		res := &p.opts.Resources[i]
		if seen, ok := c.hits(res.Method, http.MethodPost, res.Path, path, res.Match); ok {
			return destination{call: seen, write: res}
		}
	}
	d := destination{call: c}
	for i := range p.opts.Resources {
		res := &p.opts.Resources[i]
		for j := range res.Lookups {
			l := &res.Lookups[j]
			if seen, ok := c.hits(l.Method, http.MethodGet, l.Path, path, l.Match); ok {
				d.lookups = append(d.lookups, lookupOf{l, res, seen})
			}
		}
	}
	return d
}

func (p *Provider) withoutBase(path string) string {
	base := strings.TrimSuffix(p.opts.BasePath, "/")
	if rest, ok := strings.CutPrefix(path, base); ok && base != "" && strings.HasPrefix(rest, "/") {
		return rest
	}
	return path
}

// hits says whether a call is meant by a method, a pattern and a predicate, and
// returns the call with the pattern's values.
func (c *Call) hits(method, usual, pattern string, path []string, match func(*Call) bool) (*Call, bool) {
	if method == "" {
		method = usual
	}
	if c.Method != method {
		return nil, false
	}
	values, ok := pathValues(strings.Split(pattern, "/"), path)
	if !ok {
		return nil, false
	}
	seen := *c
	seen.values = values
	return &seen, match == nil || match(&seen)
}

// pathValues holds an escaped path against a pattern, segment by segment.
func pathValues(pattern, path []string) (map[string]string, bool) {
	if len(pattern) != len(path) {
		return nil, false
	}
	values := map[string]string{}
	for i, want := range pattern {
		segment, err := url.PathUnescape(path[i])
		if err != nil || !segmentValues(want, segment, values) {
			return nil, false
		}
	}
	return values, true
}

// segmentValues reads the values of one segment: text as it is, and names in
// braces for anything but nothing. A value ends where the text behind it first
// occurs.
func segmentValues(pattern, segment string, values map[string]string) bool {
	for {
		text, rest, named := strings.Cut(pattern, "{")
		if !strings.HasPrefix(segment, text) {
			return false
		}
		segment = segment[len(text):]
		if !named {
			return segment == ""
		}
		name, after, _ := strings.Cut(rest, "}")
		next, _, _ := strings.Cut(after, "{")
		end := len(segment)
		if next != "" {
			if len(segment) == 0 {
				return false
			}
			at := strings.Index(segment[1:], next)
			if at < 0 {
				return false
			}
			end = at + 1
		}
		if end == 0 {
			return false
		}
		values[name] = segment[:end]
		segment, pattern = segment[end:], after
	}
}
