package expr_test

import (
	"encoding/json"
	"testing"

	"github.com/onceward/onceward/actions/expr"
)

// No text breaks the compiler or the evaluation, and the same variables give the
// same bytes.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{
		`a ${args.n} b`, `$${x} ${args.?x}`, `${ r"\" + '}' }`, `${"""a"}b"""}`, `${args.map(k, k)}`, `${[1, 2.0].map(x, x)}`,
		`${args.n // }`, "${\x00}", `${args.n == 1e999999999}`, `${parse_json("[")}`, `${json({"a": args})}`,
	} {
		f.Add(seed)
	}
	env, err := expr.NewEnv("args")
	if err != nil {
		f.Fatal(err)
	}
	vars := expr.Vars{"args": map[string]any{"n": json.Number("7.00"), "b": "x", "a": []any{json.Number("1e999999999"), nil, true}}}
	f.Fuzz(func(t *testing.T, text string) {
		if x, err := env.Expression(text); err == nil {
			_, _ = x.Eval(vars)
			_, _ = x.Bool(vars)
		}
		template, err := env.Template(text)
		if err != nil {
			return
		}
		first, err1 := template.Value(vars)
		second, err2 := template.Value(vars)
		if (err1 == nil) != (err2 == nil) {
			t.Fatalf("%v, then %v", err1, err2)
		}
		if err1 != nil || first == expr.Omitted {
			return
		}
		a, err1 := expr.Encode(first)
		b, err2 := expr.Encode(second)
		if (err1 == nil) != (err2 == nil) || string(a) != string(b) {
			t.Fatalf("%s (%v), then %s (%v)", a, err1, b, err2)
		}
	})
}
