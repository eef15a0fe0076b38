package actions

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Limits of arguments.
const (
	// MaxArgumentsBytes bounds the arguments of one action, in bytes, as they
	// arrive and in canonical form.
	MaxArgumentsBytes = 256 << 10
	// MaxDepth bounds how deep objects and lists nest; the arguments object
	// itself is the first level.
	MaxDepth = 64
	// MaxNumberLength bounds one number, in characters. It is beyond any real
	// integer, and keeps exact arithmetic on it (schemas) from costing seconds.
	MaxNumberLength = 16 << 10
)

// emptyObject is the canonical form of no arguments.
const emptyObject = "{}"

// Arguments are the arguments of an action: a JSON object in canonical form.
//
// Two Arguments have the same canonical form, and so the same [Arguments.Hash],
// exactly when they mean the same: member order, white space, escapes (\/ and
// /) and the spelling of numbers (1, 1.0 and 1e0) do not matter; everything
// else does. Text is compared as it is: the composed and the decomposed
// spelling of é differ.
//
// The zero value is the empty object. Arguments are immutable and safe for
// concurrent use. Printing them shows their hash only, because their content
// does not belong in logs.
type Arguments struct {
	canonical []byte         // empty for the zero value
	value     map[string]any // never changed after parsing; numbers are json.Number
}

// ParseArguments reads one JSON object. Empty input is the empty object.
//
// It refuses, with an *ArgumentsError: what is not one JSON object (RFC 8259);
// duplicate member names; invalid UTF-8 and halves of surrogate pairs (RFC
// 7493); numbers that would lose digits; nesting beyond [MaxDepth]; and more
// than [MaxArgumentsBytes].
//
// No number loses a digit. An integer written in digits is exact, whatever its
// size (but see [MaxNumberLength]). One written with a fraction or an exponent
// (1.0, 12e2, 1e30) is the same as its digits, and is accepted up to 309 of
// them, the size of the largest double. Any other number must be the shortest
// decimal form of a double: 0.1 and 2.50 are accepted, 0.1000000000000000055,
// 1e400 and 1e-400 are refused.
//
// The data is not kept and may be changed afterwards.
func ParseArguments(data []byte) (Arguments, error) {
	value, err := parseObject(data)
	if err != nil {
		return Arguments{}, err
	}
	return newArguments(value, len(data)), nil
}

// newArguments takes over a checked value. The size is a guess at the length
// of its canonical form.
func newArguments(value map[string]any, size int) Arguments {
	return Arguments{canonical: appendObject(make([]byte, 0, size), value), value: value}
}

func (a Arguments) text() []byte {
	if len(a.canonical) == 0 {
		return []byte(emptyObject)
	}
	return a.canonical
}

// JSON returns the canonical form: RFC 8785, but for one rule. RFC 8785 knows
// doubles only; here every integer stands in its plain digits, so that big
// ones stay exact. The caller owns the bytes.
func (a Arguments) JSON() []byte { return bytes.Clone(a.text()) }

// AppendJSON appends what JSON returns.
func (a Arguments) AppendJSON(dst []byte) []byte { return append(dst, a.text()...) }

// Value returns the arguments as Go values: map[string]any, []any, string,
// bool, nil, and [json.Number] in canonical spelling. It is a copy that the
// caller may change.
func (a Arguments) Value() map[string]any {
	return copyObject(a.value)
}

// Text returns the scalar at a dotted path ("customer.id", "items.0.sku") as
// text: a string as it is, a number in canonical spelling, true or false.
// It reports false where there is nothing, null, an object or a list. Members
// whose name holds a dot cannot be reached.
func (a Arguments) Text(path string) (string, bool) {
	var at any = a.value
	for {
		name, rest, more := strings.Cut(path, ".")
		switch v := at.(type) {
		case map[string]any:
			at = v[name]
		case []any:
			at = item(v, name)
		default:
			return "", false
		}
		if !more {
			break
		}
		path = rest
	}
	switch v := at.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		if v {
			return "true", true
		}
		return "false", true
	default:
		return "", false
	}
}

// Identity returns the arguments without the named top-level ones: those that
// say which action is meant ([Spec.AdvisoryArgs] names the others).
func (a Arguments) Identity(advisory []string) Arguments {
	named := func(name string, _ any) bool { return slices.Contains(advisory, name) }
	if len(advisory) == 0 || !slices.ContainsFunc(advisory, a.has) {
		return a
	}
	rest := maps.Clone(a.value) // members are shared: neither side changes them
	maps.DeleteFunc(rest, named)
	return newArguments(rest, len(a.canonical))
}

func (a Arguments) has(name string) bool {
	_, ok := a.value[name]
	return ok
}

// Hash returns the SHA-256 of the canonical form.
func (a Arguments) Hash() [sha256.Size]byte { return sha256.Sum256(a.text()) }

// IdentityHash returns the SHA-256 of the canonical form without the named
// top-level arguments. Two requests under one key must agree in it.
func (a Arguments) IdentityHash(advisory []string) [sha256.Size]byte {
	if !slices.ContainsFunc(advisory, a.has) {
		return a.Hash()
	}
	return sha256.Sum256(appendMembers(make([]byte, 0, len(a.canonical)), a.value, advisory))
}

// String returns the hash, and nothing of the content.
func (a Arguments) String() string {
	h := a.Hash()
	return "arguments sha256:" + hex.EncodeToString(h[:])
}

// Format prints String for every verb: %d and %#v show no content either.
func (a Arguments) Format(out fmt.State, _ rune) {
	_, _ = io.WriteString(out, a.String())
}

func copyObject(object map[string]any) map[string]any {
	out := make(map[string]any, len(object))
	for name, v := range object {
		out[name] = copyValue(v)
	}
	return out
}

func copyValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return copyObject(v)
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = copyValue(element)
		}
		return out
	default:
		return v
	}
}
