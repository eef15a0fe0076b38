package expr_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions/expr"
)

func evaluate(t *testing.T, text string, vars expr.Vars) (any, error) {
	t.Helper()
	var names []string
	for name := range vars {
		names = append(names, name)
	}
	env, err := expr.NewEnv(names...)
	if err != nil {
		t.Fatal(err)
	}
	x, err := env.Expression(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return x.Eval(vars)
}

// A number is equal to itself however it is written, and on whichever side: a
// match that is false is an effect that nobody finds.
func TestEquality(t *testing.T) {
	vars := expr.Vars{
		"i": json.Number("7"), "d": json.Number("7.00"), "e": json.Number("0.7E+1"), "tiny": json.Number("1e-999999999"),
		"huge": json.Number("1e999999999"), "more": json.Number("10E999999998"), "over": json.Number("1e99999999999999999999"),
		"zero": json.Number("-0.0"), "near": json.Number("9007199254740993.0"),
		"list": []any{json.Number("7.00"), map[string]any{"a": json.Number("7")}},
	}
	for text, want := range map[string]bool{
		`i == d`: true, `d == i`: true, `i != d`: false, `d != i`: false, `7 == d`: true, `7.0 == d`: true, `7u == d`: true, `d == 7u`: true,
		`d == e`: true, `e == i`: true, `d in [7, 8]`: true, `d in [8]`: false, `7 in [d]`: true, `7 in list`: true, `"a" in {"a": 1}`: true,
		`[7] == [d]`: true, `[d] == [7]`: true, `{"a": 7} == {"a": d}`: true, `{"a": [d]} == {"a": [7]}`: true, `[7] == [7, d]`: false,
		`list == [7, {"a": d}]`: true, `list != [7, {"b": d}]`: true, `optional.of(d) == optional.of(7)`: true, `optional.of(d) == optional.none()`: false,
		`tiny == 0`: false, `huge == more`: true, `huge == 7`: false, `over == over`: true, `over == huge`: false,
		`zero == 0`: true, `0 == zero`: true, `near == 9007199254740993`: true, `near == 9007199254740992`: false, `near == 9007199254740992.0`: false,
		`d == "7.00"`: false, `d == null`: false, `null == d`: false, `d == [7]`: false, `d == double("NaN")`: false, `d == double("Infinity")`: false,
		`[d, 7, 7.0, e].distinct().size() == 1`: true,
	} {
		if got, err := evaluate(t, text, vars); err != nil || got != want {
			t.Errorf("%s: got %v (%v)", text, got, err)
		}
	}
}

// The same variables give the same result: Go's maps come in another order each
// time, and an attempt whose bytes differ is never sent.
func TestSameResult(t *testing.T) {
	object := map[string]any{}
	for _, name := range strings.Fields("k j i h g f e d c b a") {
		object[name] = json.Number("1")
	}
	vars := expr.Vars{"m": object}
	for text, want := range map[string]string{
		`m.map(k, k).join("")`: "abcdefghijk",
		`m.filter(k, k != "c").map(k, k + string(m[k])).join(",")`:            "a1,b1,d1,e1,f1,g1,h1,i1,j1,k1",
		`{"c": 1, "a": 2, "d": 3, "e": 4, "b": 5}.map(k, k).join("")`:         "abcde",
		`{3: "c", 1: "a", 2: "b", 10: "d"}.map(k, string(k)).join("")`:        "12310",
		`parse_json("{\"b\":1,\"c\":2,\"a\":3}").map(k, k).join("")`:          "abc",
		`json(parse_json("{\"b\":1.10,\"c\":-0.0,\"a\":1E2}"))`:               `{"a":1E2,"b":1.10,"c":-0.0}`,
		`[{"b": m, "a": 1}].map(x, x.map(k, k).join("")).join("")`:            "ab",
		`optional.ofNonZeroValue({}).hasValue() ? "" : "empty"`:               "empty",
		`optional.ofNonZeroValue(m).hasValue() ? "full" : ""`:                 "full",
		`{?"x": optional.none(), "y": [?optional.none()]}.map(k, k).join()`:   "y",
		`json({"a": optional.none(), "b": {"c": optional.none(), "d": [1]}})`: `{"b":{"d":[1]}}`,
	} {
		for range 5 {
			if got, err := evaluate(t, text, vars); err != nil || got != want {
				t.Errorf("%s: got %v (%v), want %s", text, got, err, want)
				break
			}
		}
	}
}

// One call cannot eat the machine, whatever it is called with.
func TestBounds(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	list := make([]any, 50_000)
	for i := range list {
		list[i] = json.Number("1" + strings.Repeat("0", i%9))
	}
	vars := expr.Vars{"s": long, "l": list, "q": strings.Repeat(`"`, 100_000), "never": time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)}
	for text, want := range map[string]string{
		`s.replace("x", s)`:                   "more than 8388608 bytes",
		`s.replace("", s)`:                    "more than 8388608 bytes",
		`s.replace("x", "yyy", 3).size()`:     "",
		`regex.replace(s, "x", s)`:            "more than 8388608 bytes",
		`regex.replace(s, "(x+)", "\\1\\1")`:  "",
		`regex.replace(s, "x", "\\2")`:        "no group 2",
		`l.map(x, s).join(s)`:                 "more than 8388608 bytes",
		`l.distinct()`:                        "cost limit",
		`lists.range(1000000)`:                "10000",
		`l.map(x, s + s)`:                     "cost limit",
		`l.map(x, json(l))`:                   "cost limit",
		`l.map(x, sha256hex(s))`:              "cost limit",
		`l.filter(x, x in l)`:                 "cost limit",
		`l.filter(x, l == l)`:                 "cost limit",
		`l.filter(x, s.matches("(x+x+)+y$"))`: "cost limit",
		strings.Repeat("json(", 30) + "q" + strings.Repeat(")", 30): "limit",
		strings.Repeat("xml(", 30) + "q" + strings.Repeat(")", 30):  "",
		`json(optional.none())`: "nothing in the optional",
		`rfc3339(never)`:        "out of range",
	} {
		_, err := evaluate(t, text, vars)
		if want == "" && strings.HasPrefix(text, "xml(") {
			want = "e" // either limit
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %.200v, want %q", text, err, want)
		}
	}
}
