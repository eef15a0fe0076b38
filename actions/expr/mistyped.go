package expr

import (
	"strings"

	"cel.dev/cel-go/common/types"
)

// Mistyped evaluates a condition for made-up variables, and returns what is wrong
// with its types: an operator or function that is not there for them, or a result
// that is neither true nor false. It is "" where nothing is wrong and where
// something else fails, such as a member that the made-up variables lack. Variables
// have no declared types, so that compiling cannot find this.
func (x *Expression) Mistyped(vars Vars) string {
	result, err := x.eval(vars)
	if err != nil {
		if _, reason, found := strings.Cut(err.Error(), x.text+": no such overload"); found {
			return "these types do not go together" + reason
		}
		return ""
	}
	if _, ok := result.(types.Bool); !ok {
		return "is " + result.Type().TypeName() + ", want true or false"
	}
	return ""
}
