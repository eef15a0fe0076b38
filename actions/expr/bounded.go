package expr

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// Limits of single steps. CEL's cost is counted after a step, so that it cannot
// stop one call that makes gigabytes out of a body and a replacement, or that
// compares each item of a long list with each other one.
const (
	maxText     = 8 << 20 // bytes of a text that a function makes
	maxDistinct = 2000    // items of a list that distinct takes
	maxRange    = 10_000  // numbers of lists.range
)

var errTooLong = fmt.Errorf("would make a text of more than %d bytes", maxText)

// bounded are functions of CEL's extensions, with a limit on what one call can
// make. They mean the same as without it.
func bounded() []cel.EnvOption {
	text, whole, item := cel.StringType, cel.IntType, cel.TypeParamType("T")
	texts, items := cel.ListType(text), cel.ListType(item)
	return []cel.EnvOption{
		cel.Function("replace",
			cel.MemberOverload("string_replace_string_string", []*cel.Type{text, text, text}, text, cel.FunctionBinding(replaced)),
			cel.MemberOverload("string_replace_string_string_int", []*cel.Type{text, text, text, whole}, text, cel.FunctionBinding(replaced))),
		cel.Function("regex.replace",
			cel.Overload("regex_replace_string_string_string", []*cel.Type{text, text, text}, text, cel.FunctionBinding(replacedPattern)),
			cel.Overload("regex_replace_string_string_string_int", []*cel.Type{text, text, text, whole}, text, cel.FunctionBinding(replacedPattern))),
		cel.Function("join",
			cel.MemberOverload("list_join", []*cel.Type{texts}, text, cel.UnaryBinding(func(list ref.Val) ref.Val { return joined(list, "") })),
			cel.MemberOverload("list_join_string", []*cel.Type{texts, text}, text, cel.BinaryBinding(func(list, between ref.Val) ref.Val {
				return joined(list, string(between.(types.String))) //nolint:forcetypeassert // the signature says so
			}))),
		cel.Function("distinct", cel.MemberOverload("list_distinct", []*cel.Type{items}, items, cel.UnaryBinding(distinct))),
	}
}

// argument is one that its signature says is a text.
func argument(args []ref.Val, i int) string { return string(args[i].(types.String)) } //nolint:forcetypeassert // the signature says so

// times is the last argument of replace: how often, or -1 where it is not there.
func times(args []ref.Val) int {
	if len(args) < 4 {
		return -1
	}
	return int(args[3].(types.Int)) //nolint:forcetypeassert // the signature says so
}

func replaced(args ...ref.Val) ref.Val {
	in, from, to, most := argument(args, 0), argument(args, 1), argument(args, 2), times(args)
	found := strings.Count(in, from)
	if most >= 0 {
		found = min(found, most)
	}
	if grows := len(to) - len(from); grows > 0 && found > (maxText-min(len(in), maxText))/grows {
		return types.WrapErr(errTooLong)
	}
	return types.String(strings.Replace(in, from, to, most))
}

func replacedPattern(args ...ref.Val) ref.Val {
	in, most := argument(args, 0), times(args)
	pattern, err := regexp.Compile(argument(args, 1))
	if err != nil {
		return types.WrapErr(err)
	}
	to, err := replacement(argument(args, 2), pattern.NumSubexp())
	if err != nil {
		return types.WrapErr(err)
	}
	out, last := []byte{}, 0
	for _, match := range pattern.FindAllStringSubmatchIndex(in, most) {
		out = append(out, in[last:match[0]]...)
		out = pattern.ExpandString(out, to, in, match)
		if last = match[1]; len(out)+len(in)-last > maxText {
			return types.WrapErr(errTooLong)
		}
	}
	return types.String(append(out, in[last:]...))
}

// replacement brings \1 into the form of package regexp.
func replacement(text string, groups int) (string, error) {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '$':
			out.WriteString("$$")
		case c != '\\':
			out.WriteByte(c)
		case i+1 < len(text) && text[i+1] == '\\':
			i++
			out.WriteByte('\\')
		case i+1 < len(text) && text[i+1] >= '0' && text[i+1] <= '9':
			i++
			if n := int(text[i] - '0'); n > groups {
				return "", fmt.Errorf("regex.replace: there is no group %d in the pattern", n)
			}
			out.WriteString("${" + strconv.Itoa(int(text[i]-'0')) + "}")
		default:
			return "", fmt.Errorf(`regex.replace: want a digit or \ after \ in %q`, text)
		}
	}
	return out.String(), nil
}

func joined(list ref.Val, between string) ref.Val {
	var out strings.Builder
	first := true
	for it := list.(traits.Lister).Iterator(); it.HasNext() == types.True; { //nolint:forcetypeassert // the signature says so
		item, ok := it.Next().(types.String)
		if !ok {
			return types.NewErr("join: an item is no text")
		}
		if !first {
			out.WriteString(between)
		}
		first = false
		out.WriteString(string(item))
		if out.Len() > maxText {
			return types.WrapErr(errTooLong)
		}
	}
	return types.String(out.String())
}

func distinct(value ref.Val) ref.Val {
	list := value.(traits.Lister) //nolint:forcetypeassert // the signature says so
	if size, ok := list.Size().(types.Int); !ok || size > maxDistinct {
		return types.NewErr("distinct: the list has more than %d items", maxDistinct)
	}
	out := []ref.Val{}
next:
	for it := list.Iterator(); it.HasNext() == types.True; {
		item := it.Next()
		for _, known := range out {
			if equal(known, item) {
				continue next
			}
		}
		out = append(out, item)
	}
	return types.NewRefValList(adapter{}, out)
}

// boundedText is a text that a function made, unless it is too long.
func boundedText(text string) ref.Val {
	if len(text) > maxText {
		return types.WrapErr(errTooLong)
	}
	return types.String(text)
}
