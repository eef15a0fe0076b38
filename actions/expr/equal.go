package expr

import (
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// CEL asks the left value whether it is equal to the right one, and its own
// numbers know no decimals: args.amount == item.amount would be false for 7 and
// 7.00 where the other way round it is true. A match that is false is an effect
// that nobody finds. So ==, != and in are compared here, and so is the order of
// numbers: 12.50 > 12 for whatever types they came in.

// comparison is ==, !=, in, an ordering or matches. It is no InterpretableCall, so that CEL's optimizer
// does not put another comparison in its place.
type comparison struct {
	call    interpreter.InterpretableCall
	compare func(left, right ref.Val) ref.Val
}

var _ interpreter.InterpretableV2 = (*comparison)(nil)

// compared puts our comparisons in the place of CEL's.
func compared(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := node.(interpreter.InterpretableCall)
	if !ok || len(call.Args()) != 2 {
		return node, nil
	}
	switch call.Function() {
	case operators.Equals:
		return &comparison{call, func(l, r ref.Val) ref.Val { return types.Bool(equal(l, r)) }}, nil
	case operators.NotEquals:
		return &comparison{call, func(l, r ref.Val) ref.Val { return types.Bool(!equal(l, r)) }}, nil
	case operators.In, operators.OldIn:
		return &comparison{call, contained}, nil
	case operators.Less:
		return &comparison{call, inOrderOf(func(c int) bool { return c < 0 })}, nil
	case operators.LessEquals:
		return &comparison{call, inOrderOf(func(c int) bool { return c <= 0 })}, nil
	case operators.Greater:
		return &comparison{call, inOrderOf(func(c int) bool { return c > 0 })}, nil
	case operators.GreaterEquals:
		return &comparison{call, inOrderOf(func(c int) bool { return c >= 0 })}, nil
	}
	return node, nil
}

// inOrderOf is an ordering: numbers of all types by their exact value, everything
// else as CEL does.
func inOrderOf(holds func(int) bool) func(left, right ref.Val) ref.Val {
	return func(left, right ref.Val) ref.Val {
		l, ok1 := numberText(left)
		r, ok2 := numberText(right)
		if ok1 && ok2 {
			order, ok := compareNumbers(l, r)
			if !ok {
				return types.NewErr("a number that is none, or has no end, cannot be compared")
			}
			return types.Bool(holds(order))
		}
		comparer, ok := left.(traits.Comparer)
		if !ok || ok1 != ok2 {
			return types.MaybeNoSuchOverloadErr(left)
		}
		order, ok := comparer.Compare(right).(types.Int)
		if !ok {
			return types.MaybeNoSuchOverloadErr(right)
		}
		return types.Bool(holds(int(order)))
	}
}

// ID implements interpreter.Interpretable.
func (c *comparison) ID() int64 { return c.call.ID() }

// Eval implements interpreter.Interpretable.
func (c *comparison) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, c.Exec)
}

// Exec implements interpreter.InterpretableV2.
func (c *comparison) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	args := c.call.Args()
	left := args[0].Exec(frame)
	if types.IsUnknownOrError(left) {
		return left
	}
	right := args[1].Exec(frame)
	if types.IsUnknownOrError(right) {
		return right
	}
	result := c.compare(left, right)
	if costs := frame.CostTracker(); costs != nil {
		costs.EvalBinary(frame, c.ID(), c.call, left, right, result)
	}
	return result
}

// equal is equality of values, whichever side a decimal is on and however deep.
func equal(left, right ref.Val) bool {
	switch l := left.(type) { //nolint:exhaustive // the others hold no decimal
	case decimal:
		return l.Equal(right) == types.True
	case *types.Optional:
		r, ok := right.(*types.Optional)
		if !ok || l.HasValue() != r.HasValue() {
			return false
		}
		return !l.HasValue() || equal(l.GetValue(), r.GetValue())
	case traits.Lister:
		r, ok := right.(traits.Lister)
		return ok && equalLists(l, r)
	case traits.Mapper:
		r, ok := right.(traits.Mapper)
		return ok && equalMaps(l, r)
	}
	if r, ok := right.(decimal); ok {
		return r.Equal(left) == types.True
	}
	return types.Equal(left, right) == types.True
}

func equalLists(left, right traits.Lister) bool {
	if left.Size() != right.Size() {
		return false
	}
	l, r := left.Iterator(), right.Iterator()
	for l.HasNext() == types.True {
		if !equal(l.Next(), r.Next()) {
			return false
		}
	}
	return true
}

func equalMaps(left, right traits.Mapper) bool {
	if left.Size() != right.Size() {
		return false
	}
	for it := left.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		other, there := right.Find(key)
		if !there || !equal(left.Get(key), other) {
			return false
		}
	}
	return true
}

// contained is in: an item of a list, or a key of a map.
func contained(value, of ref.Val) ref.Val {
	if list, ok := of.(traits.Lister); ok {
		for it := list.Iterator(); it.HasNext() == types.True; {
			if equal(value, it.Next()) {
				return types.True
			}
		}
		return types.False
	}
	if container, ok := of.(traits.Container); ok {
		return container.Contains(value)
	}
	return types.MaybeNoSuchOverloadErr(of)
}
