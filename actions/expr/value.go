package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// adapter gives CEL our values: numbers of JSON without loss.
type adapter struct{}

// NativeToValue implements types.Adapter.
func (a adapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case []any:
		return types.NewDynamicList(a, v)
	case json.Number:
		return numberOf(v.String())
	default:
		return types.DefaultTypeAdapter.NativeToValue(value)
	}
}

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
	var text string
	switch o := other.(type) {
	case decimal:
		text = string(o)
	case types.Int:
		text = strconv.FormatInt(int64(o), 10)
	case types.Double:
		text = strconv.FormatFloat(float64(o), 'g', -1, 64)
	default:
		return types.False
	}
	a, ok1 := rational(string(d))
	b, ok2 := rational(text)
	return types.Bool(ok1 && ok2 && a.Cmp(b) == 0)
}

// maxExponent bounds what comparing a number can cost.
const maxExponent = 400

func rational(text string) (*big.Rat, bool) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != 0 && math.Abs(math.Log10(math.Abs(f))) > maxExponent || len(text) > 2*maxExponent {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

// Type implements ref.Val.
func (decimal) Type() ref.Type { return decimalType }

// Value implements ref.Val.
func (d decimal) Value() any { return json.Number(d) }

var errDouble = errors.New("is a computed double, which may have lost digits: use whole numbers or text")

// toNative turns a result into the values that Eval returns.
func toNative(value ref.Val) (any, error) {
	switch v := value.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.String:
		return string(v), nil
	case types.Int:
		return json.Number(strconv.FormatInt(int64(v), 10)), nil
	case types.Uint:
		return json.Number(strconv.FormatUint(uint64(v), 10)), nil
	case types.Double:
		return nil, errDouble
	case decimal:
		return json.Number(v), nil
	case types.Timestamp:
		return v.Time, nil
	case types.Bytes:
		return nil, errors.New("is bytes: use base64.encode")
	case types.Duration:
		return nil, errors.New("is a duration: use int(x.getSeconds())")
	case *types.Optional:
		if !v.HasValue() {
			return Omitted, nil
		}
		return toNative(v.GetValue())
	case traits.Mapper:
		return mapOf(v)
	case traits.Lister:
		return listOf(v)
	case *types.Err:
		return nil, v
	default:
		return nil, fmt.Errorf("is %s, which has no form in JSON", value.Type().TypeName())
	}
}

func mapOf(m traits.Mapper) (any, error) {
	out := map[string]any{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, errors.New("has a key that is no text")
		}
		value, err := toNative(m.Get(key))
		if err != nil {
			return nil, err
		}
		if value != Omitted {
			out[string(name)] = value
		}
	}
	return out, nil
}

func listOf(l traits.Lister) (any, error) {
	out := []any{}
	for it := l.Iterator(); it.HasNext() == types.True; {
		value, err := toNative(it.Next())
		if err != nil {
			return nil, err
		}
		if value != Omitted {
			out = append(out, value)
		}
	}
	return out, nil
}

// textOf is a scalar as text.
func textOf(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return strconv.FormatBool(v), nil
	case time.Time:
		return "", errors.New("is a time: use rfc3339(), unix() or date()")
	case nil:
		return "", errors.New("is null")
	default:
		return "", errors.New("is a list or an object, which is no text: use json()")
	}
}
