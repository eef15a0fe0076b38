package expr_test

import (
	"encoding/json"
	"testing"

	"github.com/onceward/onceward/actions/expr"
)

// A variable can be an optional, empty or not.
func TestOptionalVariables(t *testing.T) {
	for text, want := range map[string]struct{ empty, full any }{
		`args`:                {expr.Omitted, json.Number("2")},
		`args.orValue(1) + 1`: {json.Number("2"), json.Number("3")},
		`args.hasValue()`:     {false, true},
	} {
		x, err := newEnv(t).Expression(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := x.Eval(expr.Vars{"args": expr.Omitted}); err != nil || got != want.empty {
			t.Errorf("%s, empty: %v, %v", text, got, err)
		}
		if got, err := x.Eval(expr.Vars{"args": expr.Some{Value: json.Number("2")}}); err != nil || got != want.full {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func TestParseJSONReadsToTheEnd(t *testing.T) {
	for _, text := range []string{`{}]`, `{}}`, `[]]`, `1 2`} {
		if got, err := expr.ParseJSON([]byte(text)); err == nil {
			t.Errorf("%s: %v", text, got)
		}
	}
}
