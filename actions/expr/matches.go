package expr

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// Go's patterns take time that is at most the length of the text times the size of
// the pattern, whose {0,99} are written out. CEL counts after the match, and by the
// pattern's text: 13 characters and an argument of 60 KB take more than a second of
// each request. So a match that could take too long is not begun.
const (
	stepsPerCost = 100  // of a match: some two microseconds
	maxPattern   = 5000 // steps of a pattern for one character
)

var (
	errLongMatch   = errors.New("matches: the text is too long for this pattern")
	errLongPattern = fmt.Errorf("matches: the pattern is too large: {n,m} is written out, to more than %d steps", maxPattern)
)

// pattern is a compiled one, with its size.
type pattern struct {
	compiled *regexp.Regexp
	steps    uint64
}

func patternOf(text string) (pattern, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return pattern{}, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return pattern{}, err
	}
	if len(program.Inst) > maxPattern {
		return pattern{}, errLongPattern
	}
	compiled, err := regexp.Compile(text)
	return pattern{compiled, uint64(len(program.Inst))}, err
}

// matching puts our matches in the place of CEL's, for expressions that may cost so
// much. A constant pattern is compiled once, and refused when it is planned.
func matching(limit uint64) func(interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	return func(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		call, ok := node.(interpreter.InterpretableCall)
		if !ok || call.Function() != overloads.Matches || len(call.Args()) != 2 {
			return node, nil
		}
		known := pattern{}
		if constant, ok := call.Args()[1].(interpreter.InterpretableConst); ok {
			if text, ok := constant.Value().(types.String); ok {
				var err error
				if known, err = patternOf(string(text)); err != nil {
					return nil, err
				}
			}
		}
		return &comparison{call, func(left, right ref.Val) ref.Val { return matched(left, right, known, limit) }}, nil
	}
}

func matched(left, right ref.Val, p pattern, limit uint64) ref.Val {
	in, ok := left.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(left)
	}
	if p.compiled == nil {
		text, ok := right.(types.String)
		if !ok {
			return types.MaybeNoSuchOverloadErr(right)
		}
		var err error
		if p, err = patternOf(string(text)); err != nil {
			return types.WrapErr(err)
		}
	}
	if uint64(len(in))*p.steps > limit*stepsPerCost {
		return types.WrapErr(errLongMatch)
	}
	return types.Bool(p.compiled.MatchString(string(in)))
}
