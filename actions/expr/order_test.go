package expr_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/actions/expr"
)

// TestOrderOfNumbers: numbers are ordered by their exact value, whatever types
// they come in.
func TestOrderOfNumbers(t *testing.T) {
	t.Parallel()
	ascending := []string{
		"-1e30", "-90071992547409931234.5", "-9007199254740993", "-12.50", "-12", "-0.1", "-1e-9", "0", "1e-9", "0.1", "0.10000001", "1",
		"9.99", "10", "12", "12.5", "12.500001", "9007199254740992", "9007199254740993", "9223372036854775807", "9223372036854775808",
		"90071992547409931234.5", "1e30",
	}
	env, err := expr.NewEnv("a", "b")
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range ascending {
		for j, b := range ascending {
			for op, want := range map[string]bool{"<": i < j, "<=": i <= j, ">": i > j, ">=": i >= j, "==": i == j} {
				x, err := env.Expression("a " + op + " b")
				if err != nil {
					t.Fatal(err)
				}
				got, err := x.Bool(expr.Vars{"a": json.Number(a), "b": json.Number(b)})
				if err != nil || got != want {
					t.Errorf("%s %s %s: got %v, %v", a, op, b, got, err)
				}
			}
		}
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	env, err := expr.NewEnv("n", "text", "at")
	if err != nil {
		t.Fatal(err)
	}
	vars := expr.Vars{"n": json.Number("499.99"), "text": "500.00", "at": expr.Decimal("7")}
	for text, want := range map[string]string{
		"n > 499.98":                     "true",
		"n >= 499.99 && n <= 499.99":     "true",
		"500 > n && 499 < n":             "true",
		"n < 500u":                       "true",
		"decimal(text) > n":              "true",
		"decimal(text) == 500":           "true",
		`decimal("0.1") < 0.2`:           "true",
		"decimal(n) > decimal(text)":     "false",
		`"a" < "b" && 1 < 2 && !(2 < 1)`: "true",
		`timestamp("2026-01-01T00:00:00Z") < timestamp("2026-01-01T00:00:01Z")`: "true",
		"[1, 2].exists(x, n < x)":                  "false",
		`at == 7 && at < 7.5 && string(at) == "7"`: "true",
		// What cannot be compared is an error, and a decimal is never calculated with.
		"at + 1 > 0":             "error",
		"text > n":               "error",
		"n > text":               "error",
		"n > double(\"NaN\")":    "error",
		"n < null":               "error",
		`decimal("12,50") > 1`:   "error",
		`decimal("1e9") > 1`:     "error",
		`decimal("") > 1`:        "error",
		`decimal(0.1 + 0.2) > 1`: "error",
	} {
		x, err := env.Expression(text)
		if err != nil {
			if want != "error" {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		got, err := x.Bool(vars)
		if (err != nil) != (want == "error") || err == nil && fmt.Sprint(got) != want {
			t.Errorf("%s: got %v, %v, want %s", text, got, err, want)
		}
	}
}

func TestUses(t *testing.T) {
	t.Parallel()
	env, err := expr.NewEnv("args", "budgets", "now")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]string{
		"1 + 1":                              nil,
		"args.amount":                        {"args.amount"},
		`args["amount"] > 1`:                 {"args.amount"},
		"args.lines[0].sku":                  {"args.lines.0.sku"},
		"args.?order.?id.orValue(1)":         {"args.order.id"},
		`budgets["a-b"].left > args.n`:       {"args.n", "budgets.a-b.left"},
		"budgets[args.which].left > 1":       {"args.which", "budgets"},
		"has(args.x) && size(budgets) > 0":   {"args.x", "budgets"},
		"args.list.exists(x, x == args.one)": {"args.list", "args.one"},
		"[1].exists(args, .args.one == 1)":   {"args.one"},
		`"budgets" == args.word`:             {"args.word"},
	} {
		x, err := env.Expression(text)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, u := range x.Uses() {
			if u.Variable == "args" || u.Variable == "budgets" || u.Variable == "now" {
				got = append(got, strings.Join(append([]string{u.Variable}, u.Path...), "."))
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: uses %q, want %q", text, got, want)
		}
		if x.Reads("budgets") != slices.ContainsFunc(want, func(s string) bool { return strings.HasPrefix(s, "budgets") }) {
			t.Errorf("%s: Reads(budgets) is %v", text, x.Reads("budgets"))
		}
	}
}

// TestWithin: a smaller limit ends an evaluation sooner.
func TestWithin(t *testing.T) {
	t.Parallel()
	env, err := expr.NewEnv("list")
	if err != nil {
		t.Fatal(err)
	}
	list := make([]any, 200)
	for i := range list {
		list[i] = json.Number("1")
	}
	const text = "list.all(a, list.all(b, a == b))"
	for limit, wantError := range map[uint64]bool{20_000: true, 1 << 40: false} {
		x, err := env.Within(limit).Expression(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := x.Bool(expr.Vars{"list": list}); (err != nil) != wantError {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}
