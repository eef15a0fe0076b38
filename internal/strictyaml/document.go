package strictyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits of one file. What is below them is read in a blink; YAML libraries take
// time that grows with the square of some of these.
const (
	MaxFileBytes  = 256 << 10
	maxTokens     = 30_000 // words and signs
	maxDepth      = 40     // objects and lists inside of each other
	maxBlankLines = 2000   // lines that are empty, or have white space alone
)

// Document is one file that was read: what it says, and where.
type Document struct {
	File string
	// Value is what it says: map[string]any, []any, string, bool, nil and
	// json.Number.
	Value any
	root  ast.Node
}

// Read parses a file, which must hold exactly one document that means what
// everybody sees in it: no anchors, aliases, tags or merges, no number that
// readers of YAML disagree about, no name that is no text. Wants says what the
// file should hold, for its faults.
func Read(file string, data []byte, wants Wants) (*Document, *Fault) {
	root, value, fault := read(file, data, wants)
	if fault != nil {
		return nil, fault
	}
	return &Document{File: file, Value: value, root: root}, nil
}

// Wants are words about what a file should hold.
type Wants struct {
	Kinds string // "kind: provider, or kind: action"
	Each  string // "each provider and each action": what has a file of its own
}

func read(file string, data []byte, wants Wants) (ast.Node, any, *Fault) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // a byte order mark
	if fault := checkText(file, data); fault != nil {
		return nil, nil, fault
	}
	tokens := lexer.Tokenize(string(data))
	if fault := checkTokens(file, tokens, wants); fault != nil {
		return nil, nil, fault
	}
	parsed, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, nil, faultOf(file, nil, err)
	}
	if len(parsed.Docs) != 1 || parsed.Docs[0].Body == nil {
		return nil, nil, &Fault{Place: Place{file, 1, 1}, Problem: "is empty: want " + wants.Kinds}
	}
	root := parsed.Docs[0].Body
	if odd := firstOddNode(root); odd != nil {
		return nil, nil, &Fault{Place: placeOf(file, odd), Problem: oddity}
	}
	r := &reader{file: file, root: root}
	value := r.value(root, nil)
	return root, value, r.fault
}

const oddity = "anchors, aliases, tags and merges are not allowed"

// checkText refuses what is no text of lines.
func checkText(file string, data []byte) *Fault {
	if len(data) > MaxFileBytes {
		return &Fault{Place: Place{file, 1, 1}, Problem: fmt.Sprintf("is longer than %d bytes", MaxFileBytes)}
	}
	line, column, blank, empty, last := 1, 1, 0, true, rune(0)
	bad := func(problem string) *Fault { return &Fault{Place: Place{file, line, column}, Problem: problem} }
	for rest := data; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			return bad("is no UTF-8: save the file as UTF-8")
		case r < ' ' && r != '\n' && r != '\r' && r != '\t', r == 0x7f:
			return bad(fmt.Sprintf("has the control character U+%04X, which nobody sees", r))
		}
		switch {
		case last == '\r' && r == '\n': // one end of a line
		case r == '\n' || r == '\r':
			if empty {
				blank++
			}
			if empty = true; blank > maxBlankLines {
				return bad(fmt.Sprintf("has more than %d empty lines", maxBlankLines))
			}
		case r != ' ' && r != '\t':
			empty = false
		}
		if column++; r == '\n' {
			line, column = line+1, 1
		}
		last, rest = r, rest[size:]
	}
	return nil
}

// checkTokens refuses, before it is parsed, what would make the parser slow or
// the document mean more than it says.
func checkTokens(file string, tokens token.Tokens, wants Wants) *Fault {
	at := func(t *token.Token, problem string) *Fault {
		return &Fault{Place: Place{file, t.Position.Line, t.Position.Column}, Problem: problem}
	}
	var open []*token.Token // brackets
	var columns []int       // of what the lines before are indented to
	documents, content, line := 0, false, 0
	for i, t := range tokens {
		if i >= maxTokens {
			return at(t, fmt.Sprintf("the file has more than %d words and signs: split it", maxTokens))
		}
		switch t.Type { //nolint:exhaustive // the others are plain content
		case token.AnchorType, token.AliasType, token.TagType, token.MergeKeyType:
			return at(t, oddity)
		case token.DirectiveType:
			return at(t, "directives (%) are not allowed")
		case token.MappingKeyType:
			return at(t, "names with ? are not allowed: write name: value")
		case token.DocumentHeaderType, token.DocumentEndType:
			if content {
				documents++
			}
			content = false
			continue
		case token.CommentType:
			continue
		case token.SequenceStartType, token.MappingStartType:
			open = append(open, t)
		case token.SequenceEndType, token.MappingEndType:
			if len(open) == 0 {
				return at(t, fmt.Sprintf("there is no open bracket for this %s", t.Value))
			}
			open = open[:len(open)-1]
		}
		if !content && documents > 0 {
			return at(t, "want exactly one document in a file: "+wants.Each+" has its own")
		}
		content = true
		if t.Position.Line != line || t.Type == token.SequenceEntryType {
			line = t.Position.Line
			for len(columns) > 0 && columns[len(columns)-1] >= t.Position.Column {
				columns = columns[:len(columns)-1]
			}
			columns = append(columns, t.Position.Column)
		}
		if len(open)+len(columns) > maxDepth {
			return at(t, fmt.Sprintf("is more than %d objects and lists deep", maxDepth))
		}
	}
	if len(open) > 0 {
		return at(open[len(open)-1], "this bracket is never closed")
	}
	return nil
}

// reader makes values of a document: map[string]any, []any, string, bool, nil,
// json.Number. It keeps the first fault.
type reader struct {
	file  string
	root  ast.Node
	fault *Fault
}

func (r *reader) bad(node ast.Node, path []string, format string, args ...any) any {
	if r.fault == nil {
		r.fault = &Fault{Place: placeOf(r.file, node), Field: joinTokens(r.root, path), Problem: fmt.Sprintf(format, args...)}
	}
	return nil
}

func (r *reader) value(node ast.Node, path []string) any {
	switch n := node.(type) {
	case *ast.MappingNode:
		return r.object(n.Values, path)
	case *ast.MappingValueNode:
		return r.object([]*ast.MappingValueNode{n}, path)
	case *ast.SequenceNode:
		items := make([]any, 0, len(n.Values))
		for i, item := range n.Values {
			items = append(items, r.value(item, below(path, strconv.Itoa(i))))
		}
		return items
	case *ast.StringNode:
		if n.Token.Type == token.StringType && looksLikeNumber.MatchString(n.Value) {
			return r.bad(node, path, "%s: readers disagree whether this is a number: put it in quotes for a text, or write a number that fits into 64 bits in plain digits", n.Value)
		}
		return n.Value
	case *ast.LiteralNode:
		return n.Value.Value
	case *ast.BoolNode:
		return n.Value
	case *ast.NullNode:
		return nil
	case *ast.IntegerNode, *ast.FloatNode:
		return r.number(node, path)
	case *ast.InfinityNode, *ast.NanNode:
		return r.bad(node, path, "%s is no number that can be sent", node.GetToken().Value)
	default:
		return r.bad(node, path, "%s cannot be here", node.Type())
	}
}

func (r *reader) object(members []*ast.MappingValueNode, path []string) any {
	out := make(map[string]any, len(members))
	for _, m := range members {
		var key ast.Node = m.Key
		var text string
		switch k := key.(type) {
		case *ast.StringNode:
			text = k.Value
		case *ast.LiteralNode:
			text = k.Value.Value
		default:
			return r.bad(key, path, "the name %s is no text: put it in quotes", key.GetToken().Value)
		}
		own := below(path, text)
		if _, twice := out[text]; twice {
			return r.bad(key, own, "is there twice")
		}
		out[text] = r.value(m.Value, own)
	}
	return out
}

// below is a path with one more step, and its own memory.
func below(path []string, step string) []string { return append(slices.Clone(path), step) }

// Numbers as JSON writes them; everything else means something else elsewhere:
// 0777 and 0o777, 1_000, 0x1F, 12e3 (a text for some).
var (
	plainNumber     = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)
	looksLikeNumber = regexp.MustCompile(`^[-+]?(\.[0-9]|[0-9])[0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?$|^[-+]?0[xob][0-9a-fA-F_]+$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$`)
)

func (r *reader) number(node ast.Node, path []string) any {
	text := node.GetToken().Value
	if !plainNumber.MatchString(text) {
		return r.bad(node, path, "%s: readers disagree about this number: write it in plain digits, or put it in quotes for a text", text)
	}
	if strings.Contains(text, ".") {
		// It is held as a float64 further on.
		near, err := strconv.ParseFloat(text, 64)
		exact, ok := new(big.Rat).SetString(text)
		short, ok2 := new(big.Rat).SetString(strconv.FormatFloat(near, 'f', -1, 64))
		if err != nil || !ok || !ok2 || exact.Cmp(short) != 0 {
			return r.bad(node, path, "%s has too many digits to be kept: put it in quotes", text)
		}
	}
	return json.Number(text)
}

// Decode stores what the document says in a struct with yaml tags. Fields that it
// does not have are faults.
func (d *Document) Decode(into any) *Fault {
	if err := yaml.NodeToValue(d.root, into, yaml.Strict()); err != nil {
		return faultOf(d.File, d.root, err)
	}
	return nil
}

// RefusedError is a value that its type refuses, with where it is: what
// UnmarshalYAML returns.
type RefusedError struct {
	node    ast.Node
	problem string
}

// Refuse makes the error of a value that its type refuses.
func Refuse(node ast.Node, format string, args ...any) error {
	return &RefusedError{node, fmt.Sprintf(format, args...)}
}

func (e *RefusedError) Error() string { return e.problem }

// Text is a scalar as it is written in the file.
func Text(node ast.Node) string { return node.GetToken().Value }

// faultOf says where an error of the parser or of a value is; root may be nil.
func faultOf(file string, root ast.Node, err error) *Fault {
	fault := &Fault{Place: Place{File: file, Line: 1, Column: 1}}
	var at *token.Token
	var refused *RefusedError
	var known yaml.Error
	switch {
	case errors.As(err, &refused):
		fault.Problem, at = refused.problem, refused.node.GetToken()
	case errors.As(err, &known):
		fault.Problem, at = known.GetMessage(), known.GetToken()
		if strings.HasPrefix(fault.Problem, "mapping value is not allowed") {
			fault.Problem += `: a text with ": " in it needs quotes, and members of one object are indented alike`
		}
	default:
		fault.Problem, _, _ = strings.Cut(err.Error(), "\n")
	}
	if at != nil && at.Position != nil {
		fault.Place.Line, fault.Place.Column = max(at.Position.Line, 1), max(at.Position.Column, 1)
		if root != nil {
			fault.Field = joinTokens(root, pathTo(root, at))
		}
	}
	return fault
}

// pathTo returns the way from a node to the one that has a token; nil where there
// is none.
func pathTo(node ast.Node, at *token.Token) []string {
	within := func(name string, value ast.Node) []string {
		if value == nil {
			return nil
		}
		if value.GetToken() == at {
			return []string{name}
		}
		if rest := pathTo(value, at); rest != nil {
			return append([]string{name}, rest...)
		}
		return nil
	}
	switch n := node.(type) { //nolint:exhaustive // other nodes have no children
	case *ast.MappingNode:
		for _, m := range n.Values {
			if path := within(m.Key.GetToken().Value, m.Value); path != nil {
				return path
			}
		}
	case *ast.MappingValueNode:
		return within(n.Key.GetToken().Value, n.Value)
	case *ast.SequenceNode:
		for i, item := range n.Values {
			if path := within(strconv.Itoa(i), item); path != nil {
				return path
			}
		}
	}
	return nil
}
