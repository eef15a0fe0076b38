package actions

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// structGen makes what a google.protobuf.Struct can hold.
func structGen(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.String().AsAny(),
		rapid.Float64Range(-1<<53+1, 1<<53-1).AsAny(), rapid.Map(rapid.Int64Range(-1e9, 1e9), func(n int64) float64 { return float64(n) / 100 }).AsAny(),
	}
	if depth > 0 {
		kinds = append(kinds,
			rapid.SliceOfN(structGen(depth-1), 0, 4).AsAny(),
			rapid.MapOfN(rapid.String(), structGen(depth-1), 0, 4).AsAny())
	}
	return rapid.OneOf(kinds...)
}

// Both forms of the same arguments are the same arguments.
func TestStructuredArgumentsAreThoseOfTheirText(t *testing.T) {
	t.Parallel()
	members := rapid.MapOfN(rapid.String(), structGen(3), 0, 6)
	rapid.Check(t, func(t *rapid.T) {
		object := members.Draw(t, "arguments")
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		want, err := ParseArguments(text)
		if err != nil {
			t.Skip("not to be had as text") // U+FFFD is fine; nothing else is expected here
		}
		got, err := StructuredArguments(copyObject(object))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if string(got.JSON()) != string(want.JSON()) || got.Hash() != want.Hash() {
			t.Fatalf("got %s, want %s", got.JSON(), want.JSON())
		}
		if again, err := ParseArguments(got.JSON()); err != nil || again.Hash() != got.Hash() {
			t.Fatalf("not canonical: %s, %v", got.JSON(), err)
		}
	})
}

func TestStructuredNumbers(t *testing.T) {
	t.Parallel()
	for f, want := range map[float64]string{
		0: "0", math.Copysign(0, -1): "0", 1: "1", -1.5: "-1.5", 0.1: "0.1", 1e-7: "1e-7", 5e-324: "5e-324",
		1<<53 - 1: "9007199254740991", -(1<<53 - 1): "-9007199254740991", 100: "100", 12.5e3: "12500",
	} {
		args, err := StructuredArguments(map[string]any{"n": f})
		if err != nil || string(args.JSON()) != `{"n":`+want+`}` {
			t.Errorf("%v: got %s, %v", f, args.JSON(), err)
		}
	}
}

func TestStructuredArgumentsRefuse(t *testing.T) {
	t.Parallel()
	deep := map[string]any{}
	for range MaxDepth {
		deep = map[string]any{"a": deep}
	}
	deepList := []any{}
	for range MaxDepth - 1 {
		deepList = []any{deepList}
	}
	tests := map[string]struct {
		value  map[string]any
		fields []string
		reason string
	}{
		"numbers": {map[string]any{
			"z": math.NaN(), "a": map[string]any{"b.c": []any{1.0, math.Inf(1)}}, "m": float64(1 << 53), "fine": 2.0,
		}, []string{`a["b.c"][1]`, "m", "z"}, ReasonNumberInexact},
		"text":      {map[string]any{"a": []any{"b\xff"}}, []string{"a[0]"}, ReasonInvalidUTF8},
		"name":      {map[string]any{"b\xff": 1.0}, []string{`["b\xff"]`}, ReasonInvalidUTF8},
		"too deep":  {deep, []string{""}, ReasonTooDeep},
		"deep list": {map[string]any{"a": deepList}, []string{""}, ReasonTooDeep},
		"too large": {map[string]any{"a": strings.Repeat("x", MaxArgumentsBytes)}, []string{""}, ReasonTooLarge},
	}
	for name, test := range tests {
		_, err := StructuredArguments(test.value)
		var bad *ArgumentsError
		if !errors.As(err, &bad) {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		var fields []string
		for _, v := range bad.Violations {
			fields = append(fields, v.Field)
			if v.Reason != test.reason {
				t.Errorf("%s: got %+v", name, v)
			}
		}
		if !slices.Equal(fields, test.fields) {
			t.Errorf("%s: fields %q, want %q", name, fields, test.fields)
		}
	}
	many := map[string]any{}
	for i := range 100 {
		many[strconv.Itoa(i)] = math.NaN()
	}
	var bad *ArgumentsError
	if _, err := StructuredArguments(many); !errors.As(err, &bad) || len(bad.Violations) > maxViolations {
		t.Errorf("got %v", err)
	}
	// At the limits.
	fits := []any{}
	for range MaxDepth - 2 {
		fits = []any{fits}
	}
	if _, err := StructuredArguments(map[string]any{"a": fits}); err != nil {
		t.Errorf("as deep as may be: %v", err)
	}
	if _, err := StructuredArguments(map[string]any{"a": strings.Repeat("x", MaxArgumentsBytes-8)}); err != nil {
		t.Errorf("as large as may be: %v", err)
	}
	if args, err := StructuredArguments(nil); err != nil || string(args.JSON()) != "{}" {
		t.Errorf("nothing: %s, %v", args.JSON(), err)
	}
}
