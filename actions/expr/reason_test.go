package expr_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/onceward/onceward/actions/expr"
)

// What failed is said without what it failed for.
func TestErrorsRepeatNoValue(t *testing.T) {
	t.Parallel()
	env, err := expr.NewEnv("args")
	if err != nil {
		t.Fatal(err)
	}
	const secret = "4000-0566-5566-5556"
	vars := expr.Vars{"args": map[string]any{
		"card": secret, "pattern": "[" + secret, "n": json.Number("1.5"), "list": []any{secret}, "at": json.Number("40000566"),
	}}
	for text, want := range map[string]string{
		"int(args.card)":                 "",
		"timestamp(args.card)":           "",
		"duration(args.card)":            "",
		"double(args.card)":              "",
		"bool(args.card)":                "",
		`"a".matches(args.pattern)`:      "",
		"{'a': 1}[args.card]":            "no such key",
		"args[args.card]":                "no such key",
		"args.price":                     "no such key: price",
		"args.list[args.at]":             "index out of bounds",
		"args.card + 1":                  "no such overload",
		"args.card.substring(args.at)":   "",
		"base64.decode(args.card)":       "",
		"parse_json(args.card)":          "parse_json: the text is no JSON",
		"decimal_to_minor(args.card, 2)": "decimal_to_minor: want",
		"1 / 0":                          "division by zero",
		`timestamp("2026-01-01T00:00:00Z").getHours(args.card)`: "",
		"args.n": "",
		`regex.replace("a", "a", "\\" + args.card)`: "",
	} {
		x, err := env.Expression(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		value, err := x.Eval(vars)
		if err == nil {
			if text != "args.n" {
				t.Errorf("%s is %v, want an error", text, value)
			}
			continue
		}
		said := strings.TrimPrefix(err.Error(), text)
		if strings.Contains(said, "4000") || !strings.Contains(said, want) {
			t.Errorf("%s: %v, want %q and no value", text, err, want)
		}
	}
}
