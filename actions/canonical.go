package actions

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// appendObject appends the canonical form of a parsed object (RFC 8785,
// section 3.2): no white space, shortest strings, members sorted by the UTF-16
// code units of their names. Numbers are canonical already.
func appendObject(dst []byte, object map[string]any) []byte {
	return appendMembers(dst, object, nil)
}

// usualMembers is how many members most objects have: their names are sorted
// without memory of their own.
const usualMembers = 16

// appendMembers is appendObject without the named members.
func appendMembers(dst []byte, object map[string]any, without []string) []byte {
	names := make([]string, 0, usualMembers)
	for name := range object {
		if !slices.Contains(without, name) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, compareUTF16)

	dst = append(dst, '{')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, name)
		dst = append(dst, ':')
		dst = appendValue(dst, object[name])
	}
	return append(dst, '}')
}

func appendValue(dst []byte, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		return appendObject(dst, v)
	case []any:
		dst = append(dst, '[')
		for i, element := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, element)
		}
		return append(dst, ']')
	case string:
		return appendText(dst, v)
	case json.Number:
		return append(dst, v...)
	case bool:
		return strconv.AppendBool(dst, v)
	default: // the parser makes nothing else but nil
		return append(dst, "null"...)
	}
}

func appendText(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // fails on invalid UTF-8 only, which the parser refused
	return dst
}

// compareUTF16 orders valid UTF-8 strings by their UTF-16 code units. That is
// the order of their bytes, except that a rune beyond U+FFFF (which begins
// with a surrogate, U+D800 and up) comes before U+E000 to U+FFFF.
func compareUTF16(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	if i == len(a) || i == len(b) {
		return cmp.Compare(len(a), len(b))
	}
	if a[i] < 0xee || b[i] < 0xee { // one of them is below U+E000, or both share a first byte
		return cmp.Compare(a[i], b[i])
	}
	beyondA, beyondB := a[i] >= 0xf0, b[i] >= 0xf0
	if beyondA != beyondB {
		if beyondA {
			return -1
		}
		return +1
	}
	return cmp.Compare(a[i], b[i])
}

// maxDoubleDigits is how many digits the largest double has before the point.
const maxDoubleDigits = 309

// maxFractionDigits is how many significant digits tell all doubles apart.
const maxFractionDigits = 17

// canonicalNumber returns the one spelling of a JSON number's value, or false
// where it cannot be kept exactly. The number must follow the grammar of RFC
// 8259. Work and memory are linear in the length of the text, whatever the
// exponent says.
func canonicalNumber(text string) (string, bool) {
	if !strings.ContainsAny(text, ".eE") {
		if text == "-0" {
			return "0", true
		}
		return text, true
	}
	d := parseDecimal(text)
	switch {
	case d.digits == "":
		return "0", true
	case d.exponent >= 0:
		if len(d.digits)+d.exponent > maxDoubleDigits {
			return "", false
		}
		return d.sign() + d.digits + strings.Repeat("0", d.exponent), true
	case len(d.digits) > maxFractionDigits:
		return "", false
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil { // out of range
		return "", false
	}
	// Exact means: the shortest text that stands for this double is this very
	// number, so that no other accepted number has the same double.
	if parseDecimal(strconv.FormatFloat(f, 'e', -1, 64)) != d {
		return "", false
	}
	return string(jsontext.AppendFloat(nil, f, 64)), true
}

// decimal is the exact value of a JSON number: digits times ten to the power
// of exponent. The digits begin and end with no zero; zero has none.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

func (d decimal) sign() string {
	if d.negative {
		return "-"
	}
	return ""
}

// exponentBound is far beyond what any text of MaxArgumentsBytes could make up
// for, and far from overflow.
const exponentBound = 1 << 30

func parseDecimal(text string) decimal {
	var d decimal
	text, d.negative = strings.CutPrefix(text, "-")
	mantissa, exponent := text, ""
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa, exponent = text[:i], text[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	d.digits = strings.TrimRight(digits, "0")
	if d.digits == "" {
		return decimal{}
	}
	d.exponent = parseExponent(exponent) - len(fraction) + len(digits) - len(d.digits)
	return d
}

// parseExponent reads an exponent and stops counting at exponentBound.
func parseExponent(text string) int {
	text, negative := strings.CutPrefix(text, "-")
	n := 0
	for _, c := range []byte(strings.TrimPrefix(text, "+")) {
		n = min(n*10+int(c-'0'), exponentBound)
	}
	if negative {
		return -n
	}
	return n
}

// CheckStructNumber reports whether a number of a google.protobuf.Struct is
// certainly the one that the caller wrote. A Struct carries doubles, and an
// integer that needs more than 53 bits has lost its digits on the way: 2^53 is
// refused too, because 2^53+1 arrives as 2^53. So are infinities and NaN,
// which JSON does not know. Such arguments must come as JSON text instead.
func CheckStructNumber(f float64) bool {
	return math.Abs(f) < 1<<53 // false for NaN
}
