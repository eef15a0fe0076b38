package actions

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Reasons of a [Violation] that this package gives. They are stable: planners
// and clients may decide by them. Adapters may add their own.
const (
	ReasonSyntax        = "SYNTAX"         // not JSON
	ReasonInvalidUTF8   = "INVALID_UTF8"   // bytes that are no UTF-8, or half of a surrogate pair
	ReasonDuplicateKey  = "DUPLICATE_KEY"  // an object names one member twice
	ReasonNumberInexact = "NUMBER_INEXACT" // a number that would lose digits
	ReasonTooDeep       = "TOO_DEEP"       // nested beyond MaxDepth
	ReasonTooLarge      = "TOO_LARGE"      // longer than MaxArgumentsBytes
	ReasonType          = "TYPE"           // another JSON type is wanted

	ReasonRequired     = "REQUIRED"      // missing
	ReasonUnknownField = "UNKNOWN_FIELD" // the schema knows no such field
	ReasonNotAllowed   = "NOT_ALLOWED"   // the schema allows nothing, or not this, here
	ReasonEnum         = "ENUM"          // not one of the listed values
	ReasonFormat       = "FORMAT"        // text of another format
	ReasonPattern      = "PATTERN"       // text that the pattern does not match
	ReasonLength       = "LENGTH"        // text too short or too long
	ReasonRange        = "RANGE"         // number too small or too big
	ReasonMultipleOf   = "MULTIPLE_OF"   // number that is no multiple
	ReasonItems        = "ITEMS"         // list with too few, too many, equal or the wrong items
	ReasonProperties   = "PROPERTIES"    // object with too few or too many members
	ReasonNoForm       = "NO_FORM"       // none of the allowed forms fits (anyOf, oneOf)
	ReasonAmbiguous    = "AMBIGUOUS"     // more than one of the exclusive forms fits (oneOf)
	ReasonSchema       = "SCHEMA"        // another rule of the schema

	ReasonKeyRequired    = "KEY_REQUIRED"     // nothing to compose a key from
	ReasonKeyInvalid     = "KEY_INVALID"      // a caller's key that is too long or not visible ASCII
	ReasonKeyPartMissing = "KEY_PART_MISSING" // a part of the key recipe has no value

	ReasonIntentPartMissing = "INTENT_PART_MISSING" // a part of an intent has no value
)

// Violation is one thing wrong with one field.
type Violation struct {
	// Field is the path of the field, as in "items[2].amount" and
	// `labels["due date"]`; empty for the whole.
	Field string
	// Reason is stable and in upper snake case, such as [ReasonRequired].
	Reason string
	// Message is a short sentence that says what was wanted. It never repeats
	// the text of an argument, which may be sensitive.
	Message string
}

// InRequest is the violation of an argument as a request has it: its field begins
// with "arguments".
func (v Violation) InRequest() Violation {
	switch {
	case v.Field == "" || strings.HasPrefix(v.Field, "["):
		v.Field = "arguments" + v.Field
	default:
		v.Field = "arguments." + v.Field
	}
	return v
}

// ArgumentsError says why arguments, or the key that comes from them, cannot
// be accepted. Nothing was recorded or sent. Other arguments could succeed.
type ArgumentsError struct {
	Violations []Violation // at least one
}

// Error returns all violations in one line.
func (e *ArgumentsError) Error() string {
	var b strings.Builder
	b.WriteString("arguments refused")
	for i, v := range e.Violations {
		if i == 0 {
			b.WriteString(": ")
		} else {
			b.WriteString("; ")
		}
		if v.Field != "" {
			b.WriteString(v.Field)
			b.WriteString(": ")
		}
		b.WriteString(v.Message)
	}
	return b.String()
}

// maxViolations bounds how much one request can make us say.
const maxViolations = 32

// refuse returns an *ArgumentsError with at most maxViolations.
func refuse(violations ...Violation) *ArgumentsError {
	return &ArgumentsError{Violations: violations[:min(len(violations), maxViolations)]}
}

// maxShownName bounds how much of an odd member name a path repeats, in bytes.
const maxShownName = 64

// joinName appends the member name to the path. A name that is no plain word
// is quoted, so that a path cannot be forged or break a log line.
func joinName(path, name string) string {
	switch {
	case !plainName(name):
		return path + "[" + strconv.QuoteToASCII(clip(name, maxShownName)) + "]"
	case path == "":
		return name
	default:
		return path + "." + name
	}
}

// joinIndex appends the index of a list item to the path.
func joinIndex(path, index string) string { return path + "[" + index + "]" }

func plainName(s string) bool {
	for i := range len(s) {
		if !plainNameByte(s[i]) {
			return false
		}
	}
	return s != "" && len(s) <= maxShownName
}

func plainNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// clip cuts s to at most limit bytes, at a rune's edge, and marks the cut.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const mark = "…"
	s = s[:limit-len(mark)]
	for s != "" {
		if r, size := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || size != 1 {
			break
		}
		s = s[:len(s)-1]
	}
	return s + mark
}

// pathIn renders the location tokens as a path, using root to tell list
// indexes from names that look like one.
func pathIn(root any, tokens []string) string {
	path := ""
	at := root
	for _, token := range tokens {
		switch v := at.(type) {
		case []any:
			path = joinIndex(path, token)
			at = item(v, token)
		case map[string]any:
			path = joinName(path, token)
			at = v[token]
		default:
			path = joinName(path, token)
		}
	}
	return path
}

// item returns the item of list at a decimal index without leading zeros, or
// nil where there is none.
func item(list []any, index string) any {
	i, err := strconv.Atoi(index)
	if err != nil || i < 0 || i >= len(list) || strconv.Itoa(i) != index {
		return nil
	}
	return list[i]
}
