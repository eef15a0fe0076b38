package expr

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
)

// Limits of one expression.
const (
	maxExpressionBytes = 8 << 10
	maxCost            = 2_000_000 // in CEL's units; some tens of milliseconds
)

// Env is what expressions of one kind can see. It is immutable and safe for
// concurrent use.
type Env struct {
	cel       *cel.Env
	variables []string
	cost      uint64 // that an evaluation may cost
}

// Language is what all environments share. To make it takes much longer than to
// make an environment of it. It is immutable and safe for concurrent use.
type Language struct{ base *cel.Env }

// NewLanguage makes the language.
func NewLanguage() (*Language, error) {
	options := []cel.EnvOption{
		cel.CustomTypeAdapter(adapter{}),
		cel.OptionalTypes(),
		// Versions, so that a newer library brings no function that nobody looked at.
		ext.Strings(ext.StringsVersion(5)), ext.Encoders(ext.EncodersVersion(0)),
		ext.Lists(ext.ListsVersion(4), ext.ListsMaxRangeSize(maxRange)), ext.Regex(ext.RegexVersion(0)),
		cel.ParserRecursionLimit(100),
		cel.ParserExpressionSizeLimit(maxExpressionBytes),
	}
	base, err := cel.NewEnv(slices.Concat(options, functions(), bounded())...)
	if err != nil {
		return nil, fmt.Errorf("expressions: %w", err)
	}
	return &Language{base}, nil
}

// Env makes an environment with the named variables; their types are open.
func (l *Language) Env(variables ...string) (*Env, error) {
	var options []cel.EnvOption
	for _, v := range variables {
		options = append(options, cel.Variable(v, cel.DynType))
	}
	env, err := l.base.Extend(options...)
	if err != nil {
		return nil, fmt.Errorf("expressions: %w", err)
	}
	return &Env{cel: env, variables: slices.Clone(variables), cost: maxCost}, nil
}

// Within returns an environment whose expressions may cost at most so much, in
// CEL's units: a million are some ten milliseconds.
func (e *Env) Within(cost uint64) *Env {
	return &Env{cel: e.cel, variables: e.variables, cost: min(cost, maxCost)}
}

// NewEnv makes an environment of a language of its own.
func NewEnv(variables ...string) (*Env, error) {
	l, err := NewLanguage()
	if err != nil {
		return nil, err
	}
	return l.Env(variables...)
}

// Expression is a compiled expression. It is immutable and safe for concurrent
// use.
type Expression struct {
	text    string
	program cel.Program
	uses    []Use
}

// Expression compiles an expression. Its error names the position in the text
// and what was not understood.
func (e *Env) Expression(text string) (*Expression, error) {
	if strings.TrimSpace(text) == "" {
		return nil, errors.New("the expression is empty")
	}
	ast, issues := e.cel.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, compileError(issues, e.variables)
	}
	program, err := e.cel.Program(ast, cel.CostLimit(e.cost), cel.CostTracking(estimator{}), costs(), cel.EvalOptions(cel.OptOptimize), cel.CustomDecoratorV2(compared), cel.CustomDecoratorV2(matching(e.cost)), cel.CustomDecoratorV2(inOrder))
	if err != nil {
		return nil, fmt.Errorf("expression: %w", err)
	}
	return &Expression{text: text, program: program, uses: usesOf(ast)}, nil
}

// compileError says the first thing that is wrong in one line.
func compileError(issues *cel.Issues, variables []string) error {
	first := issues.Errors()[0]
	message := first.Message
	if name, ok := strings.CutPrefix(message, "undeclared reference to '"); ok {
		name, _, _ = strings.Cut(name, "'")
		return fmt.Errorf("at character %d: there is no %q here; there are %s", first.Location.Column()+1, name, strings.Join(variables, ", "))
	}
	message, _, _ = strings.Cut(message, "\n")
	return fmt.Errorf("at character %d: %s", first.Location.Column()+1, message)
}

// String returns the expression as it was written.
func (x *Expression) String() string { return x.text }

// Vars are the values of variables: nil, bool, string, json.Number, Decimal, integers,
// time.Time, []any and map[string]any of such values, Omitted for an empty
// optional and Some for one with a value. They are not changed.
type Vars map[string]any

// Some is a variable's value that is an optional which is not empty.
type Some struct{ Value any }

// Decimal is a variable's value that is a number in plain digits, and a decimal
// although it may be whole: it can be compared and turned into text, and arithmetic
// on it fails for every value, not only for those with a fraction.
type Decimal string

// omitted is the type of Omitted.
type omitted struct{}

// Omitted is the result of an expression that is an empty optional: the member,
// parameter or header that it stands for is left out.
var Omitted any = omitted{} //nolint:gochecknoglobals // a sentinel value, never changed

// Eval returns the value of the expression: nil, bool, string, json.Number,
// time.Time, []any, map[string]any, or Omitted for an empty optional. It fails
// when a member is missing, types do not fit, the result is a double, or it costs
// too much. Its errors name the expression and repeat no value.
func (x *Expression) Eval(vars Vars) (any, error) {
	result, err := x.eval(vars)
	if err != nil {
		return nil, err
	}
	native, err := toNative(result)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", x.text, err)
	}
	return native, nil
}

func (x *Expression) eval(vars Vars) (ref.Val, error) {
	result, _, err := x.program.Eval(map[string]any(vars))
	if err != nil {
		return nil, fmt.Errorf("%s: %s", x.text, reasonOf(err, x.text))
	}
	return result, nil
}

// Bool returns whether the expression is true. What is no bool is an error.
func (x *Expression) Bool(vars Vars) (bool, error) {
	result, err := x.eval(vars)
	if err != nil {
		return false, err
	}
	b, ok := result.(types.Bool)
	if !ok {
		return false, fmt.Errorf("%s: is %s, want true or false", x.text, result.Type().TypeName())
	}
	return bool(b), nil
}

// Text returns the value of the expression as text: a string as it is, a number
// in its digits, true or false; "" with false for null and an empty optional.
// Lists, objects and times are errors.
func (x *Expression) Text(vars Vars) (string, bool, error) {
	value, err := x.Eval(vars)
	if err != nil {
		return "", false, err
	}
	if value == nil || value == Omitted {
		return "", false, nil
	}
	text, err := textOf(value)
	if err != nil {
		return "", false, fmt.Errorf("%s: %w", x.text, err)
	}
	return text, true, nil
}
