package expr

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// numberOf is an int where the digits are one of 64 bits, else a decimal.
func numberOf(text string) ref.Val {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return types.Int(n)
	}
	return decimal(text)
}

// decimalType is the type of numbers that are no 64 bit integer.
var decimalType = types.NewOpaqueType("decimal") //nolint:gochecknoglobals // a type

// decimal is a number as it was written.
type decimal string

var _ ref.Val = decimal("")

// ConvertToNative implements ref.Val.
func (d decimal) ConvertToNative(to reflect.Type) (any, error) {
	if to == reflect.TypeFor[json.Number]() || to == reflect.TypeFor[any]() {
		return json.Number(d), nil
	}
	return nil, fmt.Errorf("a decimal cannot be held as %v", to)
}

// ConvertToType implements ref.Val.
func (d decimal) ConvertToType(to ref.Type) ref.Val {
	switch to {
	case types.StringType:
		return types.String(d)
	case types.DoubleType:
		f, err := strconv.ParseFloat(string(d), 64)
		if err != nil {
			return types.NewErr("number is out of range")
		}
		return types.Double(f)
	case types.TypeType:
		return decimalType
	default:
		return types.NewErr("a decimal is no %s", to.TypeName())
	}
}

// Equal implements ref.Val: by value, so that 1.50 is 1.5 and 2.0 is 2.
func (d decimal) Equal(other ref.Val) ref.Val {
	switch o := other.(type) {
	case decimal:
		return types.Bool(d == o || sameNumber(string(d), string(o)))
	case types.Int:
		return types.Bool(sameNumber(string(d), strconv.FormatInt(int64(o), 10)))
	case types.Uint:
		return types.Bool(sameNumber(string(d), strconv.FormatUint(uint64(o), 10)))
	case types.Double:
		return types.Bool(sameNumber(string(d), strconv.FormatFloat(float64(o), 'g', -1, 64)))
	default:
		return types.False
	}
}

// Type implements ref.Val.
func (decimal) Type() ref.Type { return decimalType }

// Value implements ref.Val.
func (d decimal) Value() any { return json.Number(d) }

// sameNumber compares by value without calculating it: 1e999999999 would be a
// number of a billion digits.
func sameNumber(a, b string) bool {
	x, ok1 := scientificOf(a)
	y, ok2 := scientificOf(b)
	return ok1 && ok2 && x == y
}

// scientific is a number in the one form 0.digits × 10^exponent, where digits
// begin and end with none that is 0; no digits: zero.
type scientific struct {
	negative bool
	digits   string
	exponent int64
}

// maxExponent bounds exponents, so that no sum of them overflows.
const maxExponent = 1 << 60

func scientificOf(text string) (scientific, bool) {
	number, negative := strings.CutPrefix(text, "-")
	mantissa, power := number, int64(0)
	if at := strings.IndexAny(number, "eE"); at >= 0 {
		n, err := strconv.ParseInt(number[at+1:], 10, 64)
		if err != nil || n > maxExponent || n < -maxExponent {
			return scientific{}, false
		}
		mantissa, power = number[:at], n
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return scientific{}, false
	}
	significant := strings.TrimLeft(digits, "0")
	exponent := power + int64(len(whole)) - int64(len(digits)-len(significant))
	significant = strings.TrimRight(significant, "0")
	if significant == "" {
		return scientific{}, true
	}
	return scientific{negative, significant, exponent}, true
}

// numberText is a number of any of our types in its digits; false for what is no
// number. A double is the shortest decimal that reads back as it, which is what
// stands in an expression: 0.1 means a tenth.
func numberText(value ref.Val) (string, bool) {
	switch v := value.(type) { //nolint:exhaustive // the others are no numbers
	case decimal:
		return string(v), true
	case types.Int:
		return strconv.FormatInt(int64(v), 10), true
	case types.Uint:
		return strconv.FormatUint(uint64(v), 10), true
	case types.Double:
		return strconv.FormatFloat(float64(v), 'g', -1, 64), true
	}
	return "", false
}

// compareNumbers orders two numbers by value, without calculating them. It fails
// for what has no order: NaN, infinity, an exponent beyond any number.
func compareNumbers(a, b string) (int, bool) {
	x, ok1 := scientificOf(a)
	y, ok2 := scientificOf(b)
	if !ok1 || !ok2 {
		return 0, false
	}
	return x.compare(y), true
}

func (s scientific) sign() int {
	switch {
	case s.digits == "":
		return 0
	case s.negative:
		return -1
	}
	return 1
}

// compare is as cmp.Compare.
func (s scientific) compare(o scientific) int {
	sign := s.sign()
	if sign != o.sign() || sign == 0 {
		return cmp.Compare(sign, o.sign())
	}
	return sign * cmp.Or(cmp.Compare(s.exponent, o.exponent), strings.Compare(s.digits, o.digits))
}
