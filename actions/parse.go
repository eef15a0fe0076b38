package actions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// parseObject reads one JSON object in one pass. The error is an
// *ArgumentsError.
func parseObject(data []byte) (map[string]any, error) {
	if len(data) > MaxArgumentsBytes {
		return nil, refuse(tooLarge())
	}
	// A bytes.Buffer is decoded in place; its bytes are only read.
	// Which names there were in an object is asked of the map that they are in: the
	// decoder would keep a second one.
	p := parser{data: data, dec: jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))}
	if len(data) <= maxShared {
		p.text = string(data)
	}
	value, err := p.document()
	switch {
	case err != nil:
		return nil, refuse(append(p.violations, p.explain(err))...)
	case len(p.violations) > 0:
		return nil, refuse(p.violations...)
	}
	return value, nil
}

// parser turns tokens into values. Faults in numbers are collected, so that a
// caller sees them all; every other fault ends the parse.
type parser struct {
	data       []byte
	text       string // the same, for texts to be parts of; empty: each has memory of its own
	dec        *jsontext.Decoder
	grown      int // bytes by which canonical numbers are longer than what came
	violations []Violation
}

// maxShared is how long arguments are, in bytes, whose texts share the memory of
// the whole: whoever keeps one of them keeps all.
const maxShared = 4 << 10

// fault is a violation on its way up.
type fault struct{ Violation }

func (f *fault) Error() string { return f.Message }

func (p *parser) document() (map[string]any, error) {
	if p.dec.PeekKind() != '{' {
		if _, err := p.dec.ReadToken(); err == io.EOF {
			return map[string]any{}, nil
		} else if err != nil {
			return nil, err
		}
		return nil, &fault{Violation{Reason: ReasonType, Message: "must be a JSON object"}}
	}
	if _, err := p.dec.ReadToken(); err != nil { // the brace
		return nil, err
	}
	value, err := p.object()
	if err != nil {
		return nil, err
	}
	switch _, err := p.dec.ReadToken(); err {
	case io.EOF:
		return value, nil
	case nil:
		return nil, &fault{Violation{Reason: ReasonSyntax, Message: "must be one JSON object, with nothing after it"}}
	default:
		return nil, err
	}
}

func (p *parser) value() (any, error) {
	switch p.dec.PeekKind() {
	case '"':
		return p.string()
	case '0':
		return p.number()
	}
	token, err := p.dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '{':
		return p.object()
	case '[':
		return p.list()
	case 't', 'f':
		return token.Bool(), nil
	default: // null: the decoder lets nothing else stand here
		return nil, nil
	}
}

// scalar reads a text or a number, and returns it as it is written.
func (p *parser) scalar() (string, error) {
	raw, err := p.dec.ReadValue()
	if err != nil {
		return "", err
	}
	if end := int(p.dec.InputOffset()); end <= len(p.text) {
		return p.text[end-len(raw) : end], nil
	}
	return string(raw), nil
}

// name reads the name of a member: the decoder refuses anything else there.
func (p *parser) name() (string, error) {
	if p.dec.PeekKind() != '"' {
		_, err := p.dec.ReadToken()
		return "", err
	}
	return p.string()
}

// string reads a text.
func (p *parser) string() (string, error) {
	raw, err := p.scalar()
	if err != nil {
		return "", err
	}
	if !strings.Contains(raw, `\`) {
		return raw[1 : len(raw)-1], nil
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	return string(text), err
}

// object reads what follows an opening brace.
func (p *parser) object() (map[string]any, error) {
	if err := p.checkDepth(); err != nil {
		return nil, err
	}
	out := make(map[string]any)
	for p.dec.PeekKind() != '}' {
		name, err := p.name()
		if err != nil {
			return nil, err
		}
		if _, twice := out[name]; twice {
			return nil, &fault{Violation{Field: p.field(p.dec.StackPointer()), Reason: ReasonDuplicateKey, Message: "is named twice in one object"}}
		}
		if out[name], err = p.value(); err != nil {
			return nil, err
		}
	}
	_, err := p.dec.ReadToken()
	return out, err
}

// list reads what follows an opening bracket.
func (p *parser) list() ([]any, error) {
	if err := p.checkDepth(); err != nil {
		return nil, err
	}
	out := []any{}
	for p.dec.PeekKind() != ']' {
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := p.dec.ReadToken()
	return out, err
}

func (p *parser) checkDepth() error {
	if p.dec.StackDepth() <= MaxDepth {
		return nil
	}
	return &fault{tooDeep()}
}

// tooDeep names no path: it would be as long as the nesting, and helps nobody.
func tooDeep() Violation {
	return Violation{Reason: ReasonTooDeep, Message: fmt.Sprintf("must not nest more than %d levels", MaxDepth)}
}

func (p *parser) number() (any, error) {
	raw, err := p.scalar()
	if err != nil {
		return nil, err
	}
	if len(raw) > MaxNumberLength {
		return p.badNumber(ReasonTooLarge, fmt.Sprintf("must not be written with more than %d characters", MaxNumberLength))
	}
	text, ok := canonicalNumber(raw)
	if !ok {
		return p.badNumber(ReasonNumberInexact, "must be a number that can be kept exactly: an integer in plain digits, "+
			"or at most 17 significant digits in the range of a double")
	}
	// "1e308" is short and stands for 309 digits: a few of them must not fill
	// the memory.
	p.grown += max(len(text)-len(raw), 0)
	if len(p.data)+p.grown > MaxArgumentsBytes {
		return nil, &fault{tooLarge()}
	}
	return json.Number(text), nil
}

// badNumber notes what is wrong with the number just read. The parse goes on
// and ends in a refusal.
func (p *parser) badNumber(reason, message string) (any, error) {
	if len(p.violations) < maxViolations {
		p.violations = append(p.violations, Violation{Field: p.field(p.dec.StackPointer()), Reason: reason, Message: message})
	}
	return nil, nil
}

func tooLarge() Violation {
	return Violation{Reason: ReasonTooLarge, Message: fmt.Sprintf("must not be longer than %d bytes", MaxArgumentsBytes)}
}

// explain turns what stopped the parse into a violation.
func (p *parser) explain(err error) Violation {
	var f *fault
	if errors.As(err, &f) {
		return f.Violation
	}
	v := Violation{Reason: ReasonSyntax, Message: "is not valid JSON"}
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return v
	}
	v.Field = p.field(syntax.JSONPointer)
	at := min(max(int(syntax.ByteOffset), 0), len(p.data))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		v.Message = "is not valid JSON: it ends too early"
	case brokenRune(p.data[at:]):
		v.Reason, v.Message = ReasonInvalidUTF8, "must be valid UTF-8"
	case isSurrogate(p.data[at:]):
		v.Reason, v.Message = ReasonInvalidUTF8, "holds half of a surrogate pair"
	default:
		v.Message = fmt.Sprintf("is not valid JSON (at byte %d)", at)
	}
	return v
}

// brokenRune reports whether b begins with bytes that are no UTF-8.
func brokenRune(b []byte) bool {
	r, size := utf8.DecodeRune(b)
	return r == utf8.RuneError && size == 1
}

// isSurrogate reports whether b begins with the escape of a surrogate.
func isSurrogate(b []byte) bool {
	return len(b) > 3 && b[0] == '\\' && b[1] == 'u' && (b[2]|0x20) == 'd' && bytes.IndexByte([]byte("89abcdefABCDEF"), b[3]) >= 0
}

// field renders a pointer to where the decoder stands as a path. The decoder
// knows which levels are lists.
func (p *parser) field(pointer jsontext.Pointer) string {
	path, level := "", 0
	for token := range pointer.Tokens() {
		level++
		if level <= p.dec.StackDepth() {
			if kind, _ := p.dec.StackIndex(level); kind == '[' {
				path = joinIndex(path, token)
				continue
			}
		}
		path = joinName(path, token)
	}
	return path
}
