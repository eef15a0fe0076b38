package expr_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions/expr"
)

func newEnv(t *testing.T) *expr.Env {
	t.Helper()
	env, err := expr.NewEnv("args", "at")
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func vars() expr.Vars {
	return expr.Vars{
		"at": time.Date(2026, 11, 29, 23, 5, 6, 0, time.FixedZone("", 3600)),
		"args": map[string]any{
			"name": "Dana", "n": json.Number("7"), "big": json.Number("90071992547409931234"), "price": json.Number("12.50"),
			"list": []any{map[string]any{"id": json.Number("9007199254740993")}}, "null": nil,
		},
	}
}

func TestEval(t *testing.T) {
	for text, want := range map[string]any{
		`args.name`:                                "Dana",
		`args.n + 1`:                               json.Number("8"),
		`args.big`:                                 json.Number("90071992547409931234"),
		`args.price`:                               json.Number("12.50"),
		`string(args.price)`:                       "12.50",
		`string(args.n)`:                           "7",
		`args.price == 12.5`:                       true,
		`args.list[0].id`:                          json.Number("9007199254740993"),
		`args.?missing`:                            expr.Omitted,
		`args.?name`:                               "Dana",
		`args.?missing.orValue("x")`:               "x",
		`args["null"]`:                             nil,
		`{"a": args.?missing, "b": [args.n]}`:      map[string]any{"b": []any{json.Number("7")}, "a": nil},
		`unix(at)`:                                 json.Number("1795989906"),
		`date(at)`:                                 "2026-11-29",
		`rfc3339(at)`:                              "2026-11-29T22:05:06Z",
		`json({"b": args.price, "a": "<é>"})`:      `{"a":"<é>","b":12.50}`,
		`parse_json("{\"a\":[1.10]}").a[0]`:        json.Number("1.10"),
		`minor_to_decimal(5, 2)`:                   "0.05",
		`minor_to_decimal(-1234, 2)`:               "-12.34",
		`minor_to_decimal(1234, 0)`:                "1234",
		`decimal_to_minor("12.3", 2)`:              json.Number("1230"),
		`regex.extract("id: 42.", "id: ([0-9]+)")`: "42",
		`sha256hex("a").size()`:                    json.Number("64"),
		`xml("<a&b>")`:                             "&lt;a&amp;b&gt;",
		`uuid_of("a") == uuid_of("a") && uuid_of("a") != uuid_of("b") && uuid_of("a").size() == 36`: true,
	} {
		x, err := newEnv(t).Expression(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := x.Eval(vars())
		if text == `{"a": args.?missing, "b": [args.n]}` { // an optional that is a member's value is left out
			want = map[string]any{"b": []any{json.Number("7")}}
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %#v (%v), want %#v", text, got, err, want)
		}
	}
}

func TestEvalRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`args.missing`:                 "no such key",
		`double(args.price) * 2.0`:     "computed double",
		`1.5`:                          "computed double",
		`args.name + args.n`:           "no such overload",
		`decimal_to_minor("1.234", 2)`: "at most 2 digits",
		`decimal_to_minor("1.-2", 2)`:  "at most 2 digits",
		`minor_to_decimal(1, 40)`:      "scale",
		`b"raw"`:                       "bytes",
		`[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d, [0,1,2,3,4,5,6,7,8,9].all(e, [0,1,2,3,4,5,6,7,8,9].all(f, [0,1,2,3,4,5,6,7,8,9].all(g, true)))))))`: "cost",
	} {
		x, err := newEnv(t).Expression(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := x.Eval(vars()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestExpressionRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                              "empty",
		`body.id`:                       `there is no "body" here; there are args, at`,
		`args.`:                         "at character",
		`"a" + 1`:                       "at character",
		strings.Repeat("1+", 300) + "1": "recursion",
		strings.Repeat("a", 9<<10):      "size",
	} {
		_, err := newEnv(t).Expression(text)
		if want == "" {
			if err != nil {
				t.Errorf("%.20s: %v", text, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", text, err, want)
		}
	}
}

func TestTemplate(t *testing.T) {
	for text, want := range map[string]any{
		`plain`:                         "plain",
		``:                              "",
		`${args.n}`:                     json.Number("7"),
		`n is ${args.n}, ${args.name}!`: "n is 7, Dana!",
		`$${args.n} and ${args.n}`:      "${args.n} and 7",
		`${ {"a": "}"}["a"] }`:          "}",
		`${args.?missing}`:              expr.Omitted,
		`${ r"\" + '}' }`:               `\}`,
		`${ """a"}b""" }`:               `a"}b`,
		`${ '\'}' }`:                    `'}`,
		"${ args.n // a brace }\n}":     json.Number("7"),
		`$$${args.n}`:                   `$${args.n}`,
		`$${${args.n}}`:                 `${7}`,
		`${args.n}$${x}`:                `7${x}`,
		`100$`:                          `100$`,
		`${"$"}${args.n}`:               `$7`,
	} {
		tmpl, err := newEnv(t).Template(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := tmpl.Value(vars()); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %#v (%v), want %#v", text, got, err, want)
		}
	}
	for _, text := range []string{`${args.n`, `${}`, `${nothing}`, `${"}`, `${ // }`, `${ {} `, `${'''a'}`} {
		if _, err := newEnv(t).Template(text); err == nil {
			t.Errorf("%s: accepted", text)
		}
	}
	for _, text := range []string{`a ${args.?missing}`, `a ${args["null"]}`, `a ${args.list}`, `a ${at}`} {
		tmpl, err := newEnv(t).Template(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tmpl.Value(vars()); err == nil {
			t.Errorf("%s: got %v", text, got)
		}
	}
}

func TestTree(t *testing.T) {
	env := newEnv(t)
	tree, err := env.Tree(map[string]any{
		"a": "${args.n}", "gone": "${args.?missing}", "list": []any{"x", "${args.?missing}", 1, nil, true}, "in": map[string]any{"n": "n${args.n}"},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := tree.Value(vars())
	want := map[string]any{"a": json.Number("7"), "list": []any{"x", json.Number("1"), nil, true}, "in": map[string]any{"n": "n7"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v (%v), want %#v", got, err, want)
	}
	for path, value := range map[string]any{
		"a.b[0]": map[string]any{"a": map[string]any{"b": []any{"${"}}},
		"a":      map[string]any{"a": 1.5},
		"b":      map[string]any{"b": map[string]any{"${args.n}": 1}},
	} {
		if _, err := env.Tree(value); err == nil || !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("%v: %v", value, err)
		}
	}
	broken, err := env.Tree(map[string]any{"a": []any{"${args.missing}"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := broken.Value(vars()); err == nil || !strings.HasPrefix(err.Error(), "a[0]: ") {
		t.Errorf("got %v", err)
	}
}
