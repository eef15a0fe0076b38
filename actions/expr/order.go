package expr

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// ordered is a map whose keys come in one order: those of Go's maps come in
// another one each time, and an attempt whose bytes differ is never sent.
type ordered struct{ traits.Mapper }

// IsZeroValue implements traits.Zeroer.
func (m ordered) IsZeroValue() bool { return m.Size() == types.IntZero }

// Iterator implements traits.Iterable.
func (m ordered) Iterator() traits.Iterator {
	keys := []ref.Val{}
	for it := m.Mapper.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, it.Next())
	}
	slices.SortFunc(keys, compareKeys)
	return types.NewRefValList(adapter{}, keys).Iterator()
}

func compareKeys(a, b ref.Val) int {
	switch x := a.(type) { //nolint:exhaustive // the others are rare
	case types.String:
		if y, ok := b.(types.String); ok {
			return strings.Compare(string(x), string(y))
		}
	case types.Int:
		if y, ok := b.(types.Int); ok {
			return cmp.Compare(x, y)
		}
	}
	return cmp.Or(strings.Compare(a.Type().TypeName(), b.Type().TypeName()), strings.Compare(fmt.Sprint(a.Value()), fmt.Sprint(b.Value())))
}

// orderedObject is an object that an expression makes.
type orderedObject struct{ interpreter.InterpretableV2 }

// Exec implements interpreter.InterpretableV2.
func (o orderedObject) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	value := o.InterpretableV2.Exec(frame)
	if m, ok := value.(traits.Mapper); ok {
		return ordered{m}
	}
	return value
}

// Eval implements interpreter.Interpretable.
func (o orderedObject) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, o.Exec)
}

// inOrder puts the keys of objects that expressions make in order.
func inOrder(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	if made, ok := node.(interpreter.InterpretableConstructor); ok && made.Type() == types.MapType {
		return orderedObject{node}, nil
	}
	return node, nil
}
