package expr_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions/expr"
)

// TestMatchesIsBounded: what could take long is not begun, whatever the text is; the
// rest matches as before.
func TestMatchesIsBounded(t *testing.T) {
	t.Parallel()
	env, err := expr.NewEnv("args")
	if err != nil {
		t.Fatal(err)
	}
	small := env.Within(20_000)
	for _, c := range []struct {
		expression, text string
		want             string // true, false, or of an error
	}{
		{`args.text.matches("^[a-z]+$")`, strings.Repeat("a", 50_000), "true"},
		{`args.text.matches("^[a-z]+$")`, strings.Repeat("a", 1000) + "1", "false"},
		{`matches(args.text, "b$")`, "ab", "true"},
		{`"ab".matches("a") && args.text.matches("(?i)X")`, "x", "true"},
		{`args.text.matches("(a{0,99}){9}b")`, strings.Repeat("a", 60_000), "the text is too long for this pattern"},
		{`args.text.matches("(a{0,99}){9}b")`, strings.Repeat("a", 900) + "b", "true"},
		{`args.text.matches(args.pattern)`, strings.Repeat("a", 60_000), "the text is too long for this pattern"},
		{`args.text.matches(args.bad)`, "a", "fails for these values"},
		{`args.text.matches(args.huge)`, "a", "the pattern is too large"},
		{`args.list.matches("a")`, "a", "no such overload"},
		{`args.text.matches(args.list)`, "a", "no such overload"},
		{`args.text.matches("a{999}b{999}c{999}d{999}e{999}f{999}")`, "", "the pattern is too large"},
		{`args.text.matches("(")`, "", "missing closing )"},
	} {
		start := time.Now()
		x, err := small.Expression(c.expression)
		got := ""
		if err == nil {
			var holds bool
			holds, err = x.Bool(expr.Vars{"args": map[string]any{
				"text": c.text, "pattern": "(a{0,99}){9}b", "bad": "(secret", "huge": "a{999}b{999}c{999}d{999}e{999}f{999}", "list": []any{},
			}})
			got = map[bool]string{true: "true", false: "false"}[holds]
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) || strings.Contains(got, "secret") {
			t.Errorf("%s: got %s, want %s", c.expression, got, c.want)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("%s: it took %s", c.expression, took)
		}
	}
}
