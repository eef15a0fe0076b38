package expr

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// functions are ours, beside CEL's own and its extensions for text, lists,
// encodings and patterns.
func functions() []cel.EnvOption {
	text, whole, at, anything := cel.StringType, cel.IntType, cel.TimestampType, cel.DynType
	return []cel.EnvOption{
		cel.Function("string", cel.Overload("decimal_to_string", []*cel.Type{decimalType}, text, cel.UnaryBinding(func(v ref.Val) ref.Val {
			return v.ConvertToType(types.StringType)
		}))),
		cel.Function("double", cel.Overload("decimal_to_double", []*cel.Type{decimalType}, cel.DoubleType, cel.UnaryBinding(func(v ref.Val) ref.Val {
			return v.ConvertToType(types.DoubleType)
		}))),
		// Its result is of an open type, so that it can be compared with every number.
		unary("decimal", anything, anything, toDecimal),
		unary("unix", at, whole, func(v ref.Val) ref.Val {
			return withTime(v, func(t time.Time) ref.Val { return types.Int(t.Unix()) })
		}),
		unary("rfc3339", at, text, func(v ref.Val) ref.Val {
			return withTime(v, func(t time.Time) ref.Val { return types.String(t.UTC().Format(time.RFC3339)) })
		}),
		unary("date", at, text, func(v ref.Val) ref.Val {
			return withTime(v, func(t time.Time) ref.Val { return types.String(t.UTC().Format(time.DateOnly)) })
		}),
		unary("sha256hex", text, text, onText(func(s string) ref.Val {
			sum := sha256.Sum256([]byte(s))
			return types.String(hex.EncodeToString(sum[:]))
		})),
		unary("uuid_of", text, text, onText(func(s string) ref.Val { return types.String(UUIDOf(s)) })),
		unary("xml", text, text, onText(func(s string) ref.Val {
			var out strings.Builder
			if err := xml.EscapeText(&out, []byte(s)); err != nil {
				return types.WrapErr(err)
			}
			return boundedText(out.String())
		})),
		unary("json", anything, text, func(v ref.Val) ref.Val {
			native, err := toNative(v)
			if err == nil && native == Omitted {
				err = errors.New("json: there is nothing in the optional")
			}
			if err != nil {
				return types.WrapErr(err)
			}
			encoded, err := Encode(native)
			if err != nil {
				return types.WrapErr(err)
			}
			return boundedText(string(encoded))
		}),
		unary("parse_json", text, anything, onText(func(s string) ref.Val {
			value, err := ParseJSON([]byte(s))
			if err != nil {
				return types.NewErr("parse_json: the text is no JSON")
			}
			return adapter{}.NativeToValue(value)
		})),
		binary("minor_to_decimal", []*cel.Type{whole, whole}, text, func(a, b ref.Val) ref.Val {
			return minorToDecimal(int64(a.(types.Int)), int64(b.(types.Int))) //nolint:forcetypeassert // the signature says so
		}),
		binary("decimal_to_minor", []*cel.Type{text, whole}, whole, func(a, b ref.Val) ref.Val {
			return decimalToMinor(string(a.(types.String)), int64(b.(types.Int))) //nolint:forcetypeassert // the signature says so
		}),
	}
}

// plainDecimal is a text that decimal() takes for a number.
var plainDecimal = regexp.MustCompile(`^-?[0-9]{1,30}(\.[0-9]{1,30})?$`)

// toDecimal makes a number of its text; a number stays what it is. A computed
// double is refused, as in results.
func toDecimal(v ref.Val) ref.Val {
	switch n := v.(type) { //nolint:exhaustive // the others are refused
	case decimal, types.Int, types.Uint:
		return v
	case types.String:
		if plainDecimal.MatchString(string(n)) {
			return decimal(n)
		}
	case types.Double:
		return types.WrapErr(errDouble)
	}
	return types.NewErr("decimal: want a number, or one in plain digits as text")
}

func unary(name string, in, out *cel.Type, do func(ref.Val) ref.Val) cel.EnvOption {
	return cel.Function(name, cel.Overload(name+"_"+in.String(), []*cel.Type{in}, out, cel.UnaryBinding(do)))
}

func binary(name string, in []*cel.Type, out *cel.Type, do func(a, b ref.Val) ref.Val) cel.EnvOption {
	return cel.Function(name, cel.Overload(name+"_2", in, out, cel.BinaryBinding(do)))
}

func withTime(v ref.Val, do func(time.Time) ref.Val) ref.Val {
	t, ok := v.(types.Timestamp)
	if !ok {
		return types.MaybeNoSuchOverloadErr(v)
	}
	return do(t.Time)
}

func onText(do func(string) ref.Val) func(ref.Val) ref.Val {
	return func(v ref.Val) ref.Val {
		s, ok := v.(types.String)
		if !ok {
			return types.MaybeNoSuchOverloadErr(v)
		}
		return do(string(s))
	}
}

// maxScale bounds the digits behind the point of an amount of money.
const maxScale = 9

// minorToDecimal writes an amount of minor units as a decimal: 1234 at a scale
// of 2 is "12.34".
func minorToDecimal(minor, scale int64) ref.Val {
	if scale < 0 || scale > maxScale {
		return types.NewErr("minor_to_decimal: the scale must be from 0 to %d", maxScale)
	}
	digits, sign := strconv.FormatInt(minor, 10), ""
	if strings.HasPrefix(digits, "-") {
		digits, sign = digits[1:], "-"
	}
	if scale == 0 {
		return types.String(sign + digits)
	}
	if missing := int(scale) + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	cut := len(digits) - int(scale)
	return types.String(sign + digits[:cut] + "." + digits[cut:])
}

// decimalToMinor is the other way round. More digits than the scale are refused:
// they would be lost.
func decimalToMinor(text string, scale int64) ref.Val {
	wrong := types.NewErr("decimal_to_minor: want a decimal with at most %d digits behind the point", scale)
	if scale < 0 || scale > maxScale {
		return types.NewErr("decimal_to_minor: the scale must be from 0 to %d", maxScale)
	}
	whole, fraction, point := strings.Cut(text, ".")
	if len(fraction) > int(scale) || point && fraction == "" || whole == "" || whole == "-" {
		return wrong
	}
	digits := whole + fraction + strings.Repeat("0", int(scale)-len(fraction))
	minor, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || strings.Contains(fraction, "-") || strings.Contains(digits, "+") {
		return wrong
	}
	return types.Int(minor)
}

// UUIDOf derives a UUID from a text: the first 16 bytes of its SHA-256, shaped
// as version 4 (RFC 9562, section 5.4). The same text gives the same UUID.
func UUIDOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	u := sum[:16]
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// ParseJSON reads one JSON value; numbers keep their digits (json.Number).
func ParseJSON(data []byte) (any, error) {
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	// Not More: it takes a closing bracket for the end.
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("the text goes on after its JSON value")
	}
	return value, nil
}

// Encode writes a value of Eval as JSON: members sorted by name, no white space,
// numbers as they were written, no HTML escapes.
func Encode(value any) ([]byte, error) {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return []byte(strings.TrimSuffix(out.String(), "\n")), nil
}
