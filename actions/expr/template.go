package expr

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Template is a text with expressions in "${…}". It is immutable and safe for
// concurrent use.
type Template struct {
	parts []part
}

// part is a literal text, or an expression.
type part struct {
	literal    string
	expression *Expression
}

// Template compiles a text. "$${" stands for "${". A closing brace inside an
// expression must be part of a pair, of a string or of a comment.
func (e *Env) Template(text string) (*Template, error) {
	t := &Template{}
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			t.parts = append(t.parts, part{literal: literal.String()})
			literal.Reset()
		}
	}
	for rest := text; rest != ""; {
		at := strings.Index(rest, "${")
		if at < 0 {
			literal.WriteString(rest)
			break
		}
		if at > 0 && rest[at-1] == '$' {
			literal.WriteString(rest[:at-1] + "${")
			rest = rest[at+2:]
			continue
		}
		literal.WriteString(rest[:at])
		end := closing(rest[at+2:])
		if end < 0 {
			return nil, fmt.Errorf("%q has no closing brace", rest[at:])
		}
		x, err := e.Expression(rest[at+2 : at+2+end])
		if err != nil {
			return nil, fmt.Errorf("${%s}: %w", rest[at+2:at+2+end], err)
		}
		flush()
		t.parts = append(t.parts, part{expression: x})
		rest = rest[at+2+end+1:]
	}
	flush()
	return t, nil
}

// Literal returns the text of a template without expressions.
func (t *Template) Literal() (string, bool) {
	switch {
	case len(t.parts) == 0:
		return "", true
	case len(t.parts) == 1 && t.parts[0].expression == nil:
		return t.parts[0].literal, true
	}
	return "", false
}

// Value returns what the template stands for: the value of its expression with
// its type where it is one expression, else text.
func (t *Template) Value(vars Vars) (any, error) {
	if len(t.parts) == 1 && t.parts[0].expression != nil {
		return t.parts[0].expression.Eval(vars)
	}
	return t.Text(vars, nil)
}

// Text returns the template as text. Each value in it goes through escape, if
// that is not nil. An empty optional or null in it is an error: half a text is
// worse than none.
func (t *Template) Text(vars Vars, escape func(string) (string, error)) (string, error) {
	var out strings.Builder
	for _, p := range t.parts {
		if p.expression == nil {
			out.WriteString(p.literal)
			continue
		}
		text, ok, err := p.expression.Text(vars)
		if err == nil && !ok {
			err = fmt.Errorf("%s: there is nothing to put into the text", p.expression)
		}
		if err == nil && escape != nil {
			text, err = escape(text)
		}
		if err != nil {
			return "", err
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

// Tree is a value of objects, lists and scalars whose texts are templates. It is
// immutable and safe for concurrent use.
type Tree struct {
	members  map[string]*Tree
	items    []*Tree
	template *Template
	scalar   any // of the document: nil, bool, number
	kind     treeKind
}

type treeKind int

const (
	isScalar treeKind = iota
	isTemplate
	isObject
	isList
)

// TreeError says where in a tree something is wrong.
type TreeError struct {
	Path string // "metadata.operation_id", "items[0]"; empty: the whole
	Err  error
}

func (e *TreeError) Error() string {
	if e.Path == "" {
		return e.Err.Error()
	}
	return e.Path + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *TreeError) Unwrap() error { return e.Err }

// Tree compiles a value: map[string]any, []any, string, bool, nil, and numbers
// (json.Number, integers). It fails with a *TreeError.
func (e *Env) Tree(value any) (*Tree, error) { return e.tree(value, "") }

func (e *Env) tree(value any, path string) (*Tree, error) {
	switch v := value.(type) {
	case string:
		t, err := e.Template(v)
		if err != nil {
			return nil, &TreeError{path, err}
		}
		return &Tree{kind: isTemplate, template: t}, nil
	case map[string]any:
		out := &Tree{kind: isObject, members: make(map[string]*Tree, len(v))}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if strings.Contains(name, "${") {
				return nil, &TreeError{path, fmt.Errorf("the name %q is no template: it would be sent as it is; an object with computed names is one ${…}", name)}
			}
			member, err := e.tree(v[name], strings.TrimPrefix(path+"."+name, "."))
			if err != nil {
				return nil, err
			}
			out.members[name] = member
		}
		return out, nil
	case []any:
		out := &Tree{kind: isList}
		for i, item := range v {
			t, err := e.tree(item, fmt.Sprintf("%s[%d]", path, i))
			if err != nil {
				return nil, err
			}
			out.items = append(out.items, t)
		}
		return out, nil
	default:
		scalar, err := scalarOf(value)
		if err != nil {
			return nil, &TreeError{path, err}
		}
		return &Tree{scalar: scalar}, nil
	}
}

// Value returns the tree with its templates filled in. Members and items that are
// empty optionals are left out; the whole may be Omitted. It fails with a
// *TreeError.
func (t *Tree) Value(vars Vars) (any, error) { return t.value(vars, "") }

func (t *Tree) value(vars Vars, path string) (any, error) {
	switch t.kind {
	case isTemplate:
		value, err := t.template.Value(vars)
		if err != nil {
			return nil, &TreeError{path, err}
		}
		return value, nil
	case isObject:
		out := make(map[string]any, len(t.members))
		for _, name := range slices.Sorted(maps.Keys(t.members)) { // so that the same fault is the first one
			member := t.members[name]
			value, err := member.value(vars, strings.TrimPrefix(path+"."+name, "."))
			if err != nil {
				return nil, err
			}
			if value != Omitted {
				out[name] = value
			}
		}
		return out, nil
	case isList:
		out := make([]any, 0, len(t.items))
		for i, item := range t.items {
			value, err := item.value(vars, fmt.Sprintf("%s[%d]", path, i))
			if err != nil {
				return nil, err
			}
			if value != Omitted {
				out = append(out, value)
			}
		}
		return out, nil
	default:
		return t.scalar, nil
	}
}

var errScalar = errors.New(`a number must be a whole one: put it in quotes for a text, or write "${parse_json('12.50')}" for a number with a point`)
