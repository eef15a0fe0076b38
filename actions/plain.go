package actions

import (
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// plain is a schema of the kind that most action types have: types, members,
// lengths, patterns, formats, bounds that are integers, lists of texts. It says of
// most valid arguments that they are, and does not allocate for it. That is all it
// says: what it cannot say yes to, valid or not, the validator decides about, and
// words what is wrong. It looks at the validator's own compiled schema, so that the
// two read it alike.
type plain struct {
	of                              *jsonschema.Schema
	object, list, text, truth, null bool // types that are accepted
	integer, fraction               bool

	members map[string]*plain // nil in it: a member that is not plain
	closed  bool              // no other members
	items   *plain
	texts   []string // of an enum; nil: any

	low, high int64 // of integers
}

// plainFields are those fields of a compiled schema that plain heeds, and those
// that no value depends on.
func plainFields() []string {
	return []string{
		"Bool", "Types", "Required", "Properties", "AdditionalProperties", "MinProperties", "MaxProperties", "Items2020", "MinItems", "MaxItems",
		"Enum", "MinLength", "MaxLength", "Pattern", "Format", "Minimum", "Maximum", "ExclusiveMinimum", "ExclusiveMaximum",

		"DraftVersion", "Location", "ID", "Anchor", "Title", "Description", "Default", "Comment", "ReadOnly", "WriteOnly", "Examples", "Deprecated",
	}
}

// newPlain returns nil for a schema that is not plain: one that says anything else,
// whatever the validator may learn to check.
func newPlain(s *jsonschema.Schema) *plain {
	known, fields := plainFields(), reflect.ValueOf(s).Elem()
	for field, value := range fields.Fields() {
		if field.IsExported() && !slices.Contains(known, field.Name) && !value.IsZero() {
			return nil
		}
	}
	p := &plain{of: s, members: map[string]*plain{}, low: math.MinInt64, high: math.MaxInt64}
	switch others := s.AdditionalProperties.(type) {
	case nil:
	case bool:
		p.closed = !others
	default:
		return nil
	}
	ok := p.bounded(s.Minimum, s.Maximum, 0) && p.bounded(s.ExclusiveMinimum, s.ExclusiveMaximum, 1) && p.listed()
	if s.Items2020 != nil {
		p.items = newPlain(s.Items2020)
		ok = ok && p.items != nil
	}
	if !ok {
		return nil
	}
	for name, member := range s.Properties {
		p.members[name] = newPlain(member)
	}
	p.typed()
	return p
}

// typed takes over the types. A schema without any has all.
func (p *plain) typed() {
	has := func(string) bool { return true }
	if p.of.Types != nil && !p.of.Types.IsEmpty() {
		names := p.of.Types.ToStrings()
		has = func(name string) bool { return slices.Contains(names, name) }
	}
	p.object, p.list, p.text, p.truth, p.null = has("object"), has("array"), has("string"), has("boolean"), has("null")
	p.integer, p.fraction = has("integer") || has("number"), has("number")
}

// bounded takes over bounds, which are off by so much. It reports false for those
// that are no integers of 64 bits.
func (p *plain) bounded(low, high *big.Rat, off int64) bool {
	fits := func(r *big.Rat) bool {
		return r == nil || r.IsInt() && r.Num().IsInt64() && r.Num().Int64() > math.MinInt64 && r.Num().Int64() < math.MaxInt64
	}
	if !fits(low) || !fits(high) {
		return false
	}
	if low != nil {
		p.low = max(p.low, low.Num().Int64()+off)
	}
	if high != nil {
		p.high = min(p.high, high.Num().Int64()-off)
	}
	return true
}

// listed takes over the texts of an enum. It reports false where it lists anything
// else.
func (p *plain) listed() bool {
	if p.of.Enum == nil {
		return true
	}
	p.texts = []string{}
	for _, v := range p.of.Enum.Values {
		text, ok := v.(string)
		if !ok {
			return false
		}
		p.texts = append(p.texts, text)
	}
	return true
}

// accepts reports whether a value is certainly valid. Numbers are canonical.
func (p *plain) accepts(v any) bool {
	if p == nil || p.of.Bool != nil {
		return p != nil && *p.of.Bool // {} is compiled to true
	}
	text, isText := v.(string)
	if p.texts != nil && (!isText || !slices.Contains(p.texts, text)) {
		return false
	}
	if p.of.Format != nil && p.of.Format.Validate(v) != nil {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		return p.object && p.acceptsObject(v)
	case []any:
		return p.list && within(len(v), p.of.MinItems, p.of.MaxItems) &&
			(p.items == nil || !slices.ContainsFunc(v, func(item any) bool { return !p.items.accepts(item) }))
	case string:
		return p.text && p.acceptsText(v)
	case json.Number:
		return p.acceptsNumber(v.String())
	case bool:
		return p.truth
	case nil:
		return p.null
	default:
		return false
	}
}

func (p *plain) acceptsObject(object map[string]any) bool {
	if !within(len(object), p.of.MinProperties, p.of.MaxProperties) {
		return false
	}
	for _, name := range p.of.Required {
		if _, ok := object[name]; !ok {
			return false
		}
	}
	for name, value := range object {
		member, known := p.members[name]
		if known && !member.accepts(value) || !known && p.closed {
			return false
		}
	}
	return true
}

func (p *plain) acceptsText(text string) bool {
	if p.of.MinLength != nil || p.of.MaxLength != nil {
		if !within(utf8.RuneCountInString(text), p.of.MinLength, p.of.MaxLength) {
			return false
		}
	}
	return p.of.Pattern == nil || p.of.Pattern.MatchString(text)
}

func (p *plain) acceptsNumber(text string) bool {
	if strings.ContainsAny(text, ".e") {
		return p.fraction && p.low == math.MinInt64 && p.high == math.MaxInt64 // no bounds
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return err == nil && p.integer && p.low <= n && n <= p.high
}

func within(n int, low, high *int) bool {
	return (low == nil || *low <= n) && (high == nil || n <= *high)
}
