package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// adapter gives CEL our values: numbers of JSON without loss, and maps whose keys
// come in one order.
type adapter struct{}

// NativeToValue implements types.Adapter.
func (a adapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case map[string]any:
		return ordered{types.NewStringInterfaceMap(a, v)}
	case []any:
		return types.NewDynamicList(a, v)
	case json.Number:
		return numberOf(v.String())
	case Decimal:
		return decimal(v)
	case time.Time:
		if year := v.UTC().Year(); year < 1 || year > 9999 {
			return types.NewErr("the time is out of range")
		}
		return types.Timestamp{Time: v}
	case omitted:
		return types.OptionalNone
	case Some:
		return types.OptionalOf(a.NativeToValue(v.Value))
	default:
		return types.DefaultTypeAdapter.NativeToValue(value)
	}
}

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
