package actions

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// StructuredArguments returns the arguments that a google.protobuf.Struct holds,
// given as Go values: map[string]any, []any, string, bool, nil and, for numbers,
// float64. It takes the value over.
//
// It refuses, with an *ArgumentsError: numbers that may have lost digits on
// their way here ([CheckStructNumber]), text that is no UTF-8, nesting beyond
// [MaxDepth], and more than [MaxArgumentsBytes]. The result is the one that
// [ParseArguments] has for the same arguments as text.
func StructuredArguments(value map[string]any) (Arguments, error) {
	size, ok := spell(value, 1)
	if !ok {
		var bad []Violation
		explainValue(&bad, value, "", 1)
		slices.SortFunc(bad, func(a, b Violation) int { return strings.Compare(a.Field, b.Field) })
		return Arguments{}, refuse(bad...)
	}
	args := newArguments(value, size)
	if len(args.canonical) > MaxArgumentsBytes {
		return Arguments{}, refuse(tooLarge())
	}
	return args, nil
}

// spell puts the numbers in an object or list into canonical spelling. It
// returns about how long the canonical form is, or false where something must
// be refused.
func spell(v any, depth int) (size int, ok bool) {
	if depth > MaxDepth {
		return 0, false
	}
	// Each element is seen here, so that it can be replaced in its place.
	element := func(v any) (any, bool) {
		n, ok := 5, true
		switch e := v.(type) {
		case float64:
			v, ok = structNumber(e), CheckStructNumber(e)
			if !ok {
				v = e
			}
			n = 16
		case string:
			n, ok = len(e)+3, utf8.ValidString(e)
		case map[string]any, []any:
			n, ok = spell(e, depth+1)
		}
		size += n
		return v, ok
	}
	ok = true
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			spelt, fine := element(e)
			v[name] = spelt
			size += len(name) + 4
			ok = ok && fine && utf8.ValidString(name)
		}
	case []any:
		for i, e := range v {
			spelt, fine := element(e)
			v[i] = spelt
			ok = ok && fine
		}
	}
	return size + 2, ok
}

func structNumber(f float64) json.Number {
	if f == 0 {
		return "0" // and not -0
	}
	return json.Number(jsontext.AppendFloat(nil, f, 64))
}

// explainValue collects what is wrong with a value that spell refused.
func explainValue(bad *[]Violation, v any, path string, depth int) {
	if len(*bad) >= maxViolations {
		return
	}
	say := func(reason, message string) {
		*bad = append(*bad, Violation{Field: path, Reason: reason, Message: message})
	}
	switch v := v.(type) {
	case float64: // a good one has become a json.Number
		say(ReasonNumberInexact, "a Struct carries numbers as doubles, exact to 2^53 only: send arguments_json")
	case string:
		if !utf8.ValidString(v) {
			say(ReasonInvalidUTF8, "must be valid UTF-8")
		}
	case map[string]any:
		if depth > MaxDepth {
			*bad = append(*bad, tooDeep())
			return
		}
		for name, e := range v {
			if at := joinName(path, name); utf8.ValidString(name) {
				explainValue(bad, e, at, depth+1)
			} else {
				*bad = append(*bad, Violation{Field: at, Reason: ReasonInvalidUTF8, Message: "must be valid UTF-8"})
			}
		}
	case []any:
		if depth > MaxDepth {
			*bad = append(*bad, tooDeep())
			return
		}
		for i, e := range v {
			explainValue(bad, e, joinIndex(path, strconv.Itoa(i)), depth+1)
		}
	}
}
