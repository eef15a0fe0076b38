package expr

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// scalarOf brings a value of a YAML document into the form of Eval's results.
func scalarOf(value any) (any, error) {
	switch v := value.(type) {
	case nil, bool, json.Number:
		return v, nil
	case int:
		return json.Number(strconv.Itoa(v)), nil
	case int64:
		return json.Number(strconv.FormatInt(v, 10)), nil
	case uint64:
		return json.Number(strconv.FormatUint(v, 10)), nil
	case float64:
		return nil, errScalar
	case time.Time:
		return nil, fmt.Errorf("a time must be in quotes")
	default:
		return nil, fmt.Errorf("%T cannot be here", value)
	}
}
