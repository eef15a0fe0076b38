package proof

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"

	"github.com/onceward/onceward/actions"
)

// findOther finds valid arguments that name another action than the example, and
// says why where there are none.
func (s *sample) findOther() (why string, err error) {
	if s.OtherArguments != nil {
		if s.other, err = actions.ParseArguments(s.OtherArguments); err != nil {
			return "", err
		}
		return "", s.action.Validate(s.other)
	}
	value := s.example.Value()
	for _, name := range slices.Sorted(maps.Keys(value)) {
		for _, changed := range s.variants(name, value[name]) {
			candidate := maps.Clone(value)
			candidate[name] = changed
			text, err := json.Marshal(candidate)
			if err != nil {
				return "", err
			}
			args, err := actions.ParseArguments(text)
			if err == nil && s.differs(args) && s.action.Validate(args) == nil {
				s.other = args
				return "", nil
			}
		}
	}
	return "no argument of the example can be changed into another valid one: name other arguments", nil
}

// differs reports whether arguments are another identity than the example's.
func (s *sample) differs(args actions.Arguments) bool {
	return args.IdentityHash(s.spec.AdvisoryArgs) != s.example.IdentityHash(s.spec.AdvisoryArgs)
}

// variants are guesses at other valid values of a top-level argument.
func (s *sample) variants(name string, v any) []any {
	var out []any
	switch v := v.(type) {
	case json.Number:
		if n, ok := new(big.Int).SetString(v.String(), 10); ok {
			for _, step := range []int64{1, -1} {
				out = append(out, json.Number(new(big.Int).Add(n, big.NewInt(step)).String()))
			}
		}
	case bool:
		out = append(out, !v)
	case string:
		out = append(append(out, s.choices(name)...), otherText(v)...)
	}
	return out
}

// choices are the values that the schema lists for a top-level argument.
func (s *sample) choices(name string) []any {
	var schema struct {
		Properties map[string]struct {
			Enum []any `json:"enum"`
		} `json:"properties"`
	}
	_ = json.Unmarshal(s.spec.Schema, &schema) // it was compiled; forms that this does not know have no choices
	return schema.Properties[name].Enum
}

// otherText changes one character, so that patterns and lengths still hold where
// they can: texts often end in digits, and addresses begin with a name.
func otherText(text string) []any {
	var out []any
	for _, at := range []int{len(text) - 1, 0, len(text) / 2} {
		if at < 0 || at >= len(text) {
			continue
		}
		changed := []byte(text)
		switch c := changed[at]; {
		case '0' <= c && c < '9', 'a' <= c && c < 'z', 'A' <= c && c < 'Z':
			changed[at]++
		case c == '9', c == 'z', c == 'Z':
			changed[at]--
		default:
			continue
		}
		out = append(out, string(changed))
	}
	return append(out, text+"2")
}
