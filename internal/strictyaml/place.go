package strictyaml

import (
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Place returns where a field is in a file; where it is not there, the nearest
// part that holds it. The field is a path: "keys.window", "outcomes[2].if",
// `http.headers["Stripe-Version"]`.
func (d *Document) Place(field string) Place {
	node, place := d.root, placeOf(d.File, d.root)
	for _, token := range splitField(field) {
		key, value := child(node, token)
		if value == nil {
			break
		}
		node = value
		if key != nil {
			place = placeOf(d.File, key)
		} else {
			place = placeOf(d.File, value)
		}
	}
	return place
}

// Fault makes a fault of a field.
func (d *Document) Fault(field, problem string) Fault {
	return Fault{Place: d.Place(field), Field: field, Problem: problem}
}

// Field writes the steps to a part of the document as a field path.
func (d *Document) Field(steps ...string) string { return joinTokens(d.root, steps) }

// child returns the node of a member or item, with its key where it has one.
func child(node ast.Node, token string) (key, value ast.Node) {
	switch n := node.(type) { //nolint:exhaustive // other nodes have no children
	case *ast.MappingNode:
		for _, member := range n.Values {
			if member.Key.GetToken().Value == token {
				return member.Key, member.Value
			}
		}
	case *ast.MappingValueNode:
		if n.Key.GetToken().Value == token {
			return n.Key, n.Value
		}
	case *ast.SequenceNode:
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(n.Values) {
			return nil, n.Values[i]
		}
	}
	return nil, nil
}

func placeOf(file string, node ast.Node) Place {
	// A mapping's own token is its first colon; its key is what people look for.
	if m, ok := node.(*ast.MappingNode); ok && len(m.Values) > 0 {
		node = m.Values[0].Key
	}
	if m, ok := node.(*ast.MappingValueNode); ok {
		node = m.Key
	}
	position := node.GetToken().Position
	return Place{File: file, Line: position.Line, Column: position.Column}
}

// joinTokens writes tokens of a JSON pointer as a field path.
func joinTokens(root ast.Node, tokens []string) string {
	path, node := "", root
	for _, token := range tokens {
		_, isList := node.(*ast.SequenceNode)
		switch {
		case isList:
			path += "[" + token + "]"
		case !plain(token):
			path += "[" + strconv.Quote(token) + "]"
		case path == "":
			path = token
		default:
			path += "." + token
		}
		_, node = child(node, token)
	}
	return path
}

// splitField is the way back.
func splitField(field string) []string {
	var tokens []string
	for field != "" {
		switch {
		case field[0] == '.':
			field = field[1:]
		case strings.HasPrefix(field, `["`):
			quoted, err := strconv.QuotedPrefix(field[1:])
			if err != nil {
				return append(tokens, field)
			}
			name, err := strconv.Unquote(quoted)
			if err != nil {
				return append(tokens, field)
			}
			tokens = append(tokens, name)
			field = strings.TrimPrefix(field[1+len(quoted):], "]")
		case field[0] == '[':
			index, rest, _ := strings.Cut(field[1:], "]")
			tokens, field = append(tokens, index), rest
		default:
			end := strings.IndexAny(field, ".[")
			if end < 0 {
				end = len(field)
			}
			tokens, field = append(tokens, field[:end]), field[end:]
		}
	}
	return tokens
}

func plain(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// firstOddNode finds what makes a file mean more than it says.
func firstOddNode(root ast.Node) ast.Node {
	finder := &oddFinder{}
	ast.Walk(finder, root)
	return finder.found
}

type oddFinder struct{ found ast.Node }

// Visit implements ast.Visitor.
func (f *oddFinder) Visit(node ast.Node) ast.Visitor {
	switch node.(type) { //nolint:exhaustive // the odd ones
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		if f.found == nil {
			f.found = node
		}
	}
	return f
}
