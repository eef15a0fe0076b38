package simulator

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// nested makes objects and lists of the names of a form: a[b]=c is an object,
// a[]=c and a[0]=c are lists, and so is a name that comes several times.
func nested(values url.Values) map[string]any {
	root := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		put(root, nameParts(name), values[name])
	}
	out, _ := withLists(root).(map[string]any)
	if out == nil { // its names are numbers; it is an object all the same
		return root
	}
	return out
}

// nameParts takes "a[b][]" apart: a, b and nothing. What is not well formed is
// one name.
func nameParts(name string) []string {
	head, rest, has := strings.Cut(name, "[")
	if !has || head == "" {
		return []string{name}
	}
	parts := []string{head}
	for {
		inner, after, closed := strings.Cut(rest, "]")
		if !closed || len(parts) >= maxDepth {
			return []string{name}
		}
		parts = append(parts, inner)
		if after == "" {
			return parts
		}
		if !strings.HasPrefix(after, "[") {
			return []string{name}
		}
		rest = after[1:]
	}
}

// put stores values under a path of names.
func put(at map[string]any, path, values []string) {
	name := path[0]
	switch {
	case len(path) == 1:
		at[name] = oneOrList(values)
	case len(path) == 2 && path[1] == "":
		list := make([]any, len(values))
		for i, v := range values {
			list[i] = v
		}
		at[name] = list
	case path[1] == "":
		// a[][b]: one object each, as far as the name says.
		list, _ := at[name].([]any)
		for i, v := range values {
			if i >= len(list) {
				list = append(list, map[string]any{})
			}
			if member, ok := list[i].(map[string]any); ok {
				put(member, path[2:], []string{v})
			}
		}
		at[name] = list
	default:
		inner, ok := at[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			at[name] = inner
		}
		put(inner, path[1:], values)
	}
}

// withLists makes lists of objects whose names are 0, 1, 2 and so on.
func withLists(value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = withLists(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = withLists(v[name])
		}
		list := make([]any, len(v))
		for i := range list {
			item, ok := v[strconv.Itoa(i)]
			if !ok {
				return v
			}
			list[i] = item
		}
		if len(list) > 0 {
			return list
		}
	}
	return value
}

func oneOrList(values []string) any {
	if len(values) == 1 {
		return values[0]
	}
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = v
	}
	return list
}
