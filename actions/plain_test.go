package actions

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// Names, texts and numbers are few, so that schemas and arguments meet.
var (
	someNames   = rapid.SampledFrom([]string{"a", "b", "c"})
	someTexts   = rapid.SampledFrom([]string{"", "x", "ab", "😀é", "abc", "2026-02-28", "2026-02-30"})
	someNumbers = rapid.SampledFrom([]string{"0", "1", "-1", "2", "3", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "12345678901234567890123"})
	someSizes   = rapid.IntRange(0, 3)
)

// schemaGen makes schemas. Where plainly is set they are such that plain decides
// about all arguments without fractions and numbers beyond 64 bits.
func schemaGen(depth int, plainly bool) *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		s := map[string]any{}
		if rapid.IntRange(0, 9).Draw(t, "empty") == 0 {
			return s
		}
		// A keyword is there or not.
		put := func(keyword string, value func() any) {
			if rapid.IntRange(0, 3).Draw(t, keyword+"?") == 0 {
				s[keyword] = value()
			}
		}
		types := rapid.SampledFrom([]string{"object", "array", "string", "integer", "number", "boolean", "null"})
		put("type", func() any { return types.Draw(t, "type") })
		if s["type"] == nil {
			put("type", func() any { return rapid.SliceOfNDistinct(types, 1, 3, rapid.ID[string]).Draw(t, "types") })
		}
		for _, keyword := range []string{"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"} {
			put(keyword, func() any { return someSizes.Draw(t, keyword) })
		}
		bound := rapid.Map(rapid.Int64Range(-2, 3), func(n int64) json.Number { return json.Number(fmt.Sprint(n)) })
		if !plainly {
			bound = rapid.OneOf(bound, rapid.Map(someNumbers, func(n string) json.Number { return json.Number(n) }), rapid.Just(json.Number("0.5")))
		}
		for _, keyword := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"} {
			put(keyword, func() any { return bound.Draw(t, keyword) })
		}
		put("pattern", func() any { return rapid.SampledFrom([]string{"^a", "b$", "^.{0,2}$"}).Draw(t, "pattern") })
		put("format", func() any { return "date" })
		put("enum", func() any {
			return rapid.SliceOfNDistinct(someTexts, 1, 3, rapid.ID[string]).Draw(t, "enum")
		})
		put("required", func() any { return rapid.SliceOfNDistinct(someNames, 0, 2, rapid.ID[string]).Draw(t, "required") })
		put("additionalProperties", func() any { return rapid.Bool().Draw(t, "others") })
		put("description", func() any { return "says nothing" })
		if depth > 0 {
			member := schemaGen(depth-1, plainly)
			put("properties", func() any {
				return rapid.MapOfN(someNames, member, 0, 3).Draw(t, "properties")
			})
			put("items", func() any { return member.Draw(t, "items") })
		}
		if plainly {
			return s
		}
		put("const", func() any { return someTexts.Draw(t, "const") })
		put("multipleOf", func() any { return 2 })
		put("uniqueItems", func() any { return true })
		put("propertyNames", func() any { return map[string]any{"maxLength": 0} })
		put("dependentRequired", func() any { return map[string]any{"a": []string{"b"}} })
		put("contentEncoding", func() any { return "base64" })
		if depth > 0 {
			other := schemaGen(depth-1, plainly)
			for _, keyword := range []string{"not", "contains", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "if", "then", "else"} {
				put(keyword, func() any { return other.Draw(t, keyword) })
			}
			for _, keyword := range []string{"anyOf", "oneOf", "allOf", "prefixItems"} {
				put(keyword, func() any { return rapid.SliceOfN(other, 1, 2).Draw(t, keyword) })
			}
			for _, keyword := range []string{"patternProperties", "dependentSchemas", "$defs"} {
				put(keyword, func() any { return map[string]any{"a": other.Draw(t, keyword)} })
			}
			put("$ref", func() any { return "#" })
		}
		return s
	})
}

// valueGen makes arguments. Where plainly is set, without fractions and numbers
// beyond 64 bits.
func valueGen(depth int, plainly bool) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		someTexts.AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil), rapid.Int64Range(-3, 4).AsAny(),
	}
	if !plainly {
		kinds = append(kinds, rapid.Map(someNumbers, func(n string) any { return json.Number(n) }), rapid.Just[any](0.5))
	}
	if depth > 0 {
		kinds = append(kinds, rapid.MapOfN(someNames, valueGen(depth-1, plainly), 0, 3).AsAny(), rapid.SliceOfN(valueGen(depth-1, plainly), 0, 3).AsAny())
	}
	return rapid.OneOf(kinds...)
}

func plainCase(t *rapid.T, plainly bool) (s *Schema, args Arguments, text string) {
	of := schemaGen(2, plainly).Draw(t, "schema")
	of["type"] = "object"
	raw, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = CompileSchema("test.action", raw); err != nil {
		t.Skip(err)
	}
	in, err := json.Marshal(rapid.MapOfN(someNames, valueGen(2, plainly), 0, 3).Draw(t, "arguments"))
	if err != nil {
		t.Fatal(err)
	}
	if args, err = ParseArguments(in); err != nil {
		t.Fatal(err)
	}
	return s, args, fmt.Sprintf("%s\nfor %s", raw, in)
}

// Each keyword, alone and with each other one, for each kind of value.
func TestPlainKeywords(t *testing.T) {
	t.Parallel()
	plainly := []string{
		``, `"type":"object"`, `"type":"array"`, `"type":"string"`, `"type":"integer"`, `"type":"number"`, `"type":"boolean"`, `"type":"null"`,
		`"type":["string","integer"]`, `"type":["array","null","number"]`, `"minimum":1`, `"maximum":1`, `"exclusiveMinimum":1`, `"exclusiveMaximum":1`,
		`"minimum":-3.0`, `"minLength":2`, `"maxLength":2`, `"pattern":"^a"`, `"format":"date"`, `"enum":["ab","c"]`, `"minItems":1`, `"maxItems":1`,
		`"items":{"type":"string"}`, `"items":{}`, `"items":false`, `"minProperties":1`, `"maxProperties":1`, `"required":["b"]`, `"properties":{"b":{"type":"string"}}`,
		`"properties":{"b":false}`, `"additionalProperties":false`, `"additionalProperties":true`, `"title":"t"`, `"default":1`, `"examples":[1]`, `"x-other":1`,
	}
	otherwise := []string{
		`"minimum":0.5`, `"maximum":9223372036854775808`, `"exclusiveMinimum":9223372036854775807`, `"exclusiveMaximum":-9223372036854775808`,
		`"const":"ab"`, `"enum":["ab",1,null]`, `"multipleOf":2`, `"uniqueItems":true`, `"prefixItems":[{"type":"string"}]`, `"contains":{"type":"string"}`,
		`"additionalProperties":{"type":"string"}`, `"patternProperties":{"^b":{"type":"string"}}`, `"propertyNames":{"maxLength":0}`,
		`"dependentRequired":{"b":["c"]}`, `"dependentSchemas":{"b":false}`, `"unevaluatedProperties":false`, `"unevaluatedItems":false`,
		`"not":{"type":"string"}`, `"anyOf":[{"type":"string"},{"type":"array"}]`, `"oneOf":[{"type":"string"},{"maxLength":2}]`, `"allOf":[{"type":"string"}]`,
		`"if":{"type":"string"},"then":false`, `"$ref":"#/properties/a/$defs/d","$defs":{"d":{"type":"string"}}`, `"items":{"const":1}`, `"properties":{"b":{"const":1}}`,
	}
	values := []string{
		`{}`, `{"b":"x"}`, `{"b":1}`, `{"c":1}`, `{"b":"x","c":"y"}`, `[]`, `["x"]`, `[1]`, `["x","x"]`, `[1,"x",null]`, `""`, `"a"`, `"ab"`, `"abc"`, `"😀é"`,
		`"2026-02-28"`, `-4`, `-3`, `0`, `1`, `2`, `9223372036854775807`, `-9223372036854775808`, `9223372036854775808`, `0.5`, `1e-7`, `true`, `null`,
	}
	beyond := []string{`9223372036854775808`, `0.5`, `1e-7`}
	accepted := 0
	for i, one := range append(plainly, otherwise...) {
		for _, two := range append(plainly, otherwise...)[i:] {
			text := property("{" + strings.Trim(one+","+two, ",") + "}")
			s, err := CompileSchema("test.action", json.RawMessage(text))
			if err != nil {
				continue // a keyword twice
			}
			for _, value := range values {
				args := parse(t, `{"a":`+value+`}`)
				err, got := s.compiled.Validate(args.value), s.plain.accepts(args.value)
				if got && err != nil {
					t.Errorf("accepted: %s for %s: %v", text, value, err)
				}
				surely := !slices.Contains(otherwise, one) && !slices.Contains(otherwise, two) && !slices.Contains(beyond, value)
				if surely && !got && err == nil {
					t.Errorf("not accepted: %s for %s", text, value)
				}
				if got {
					accepted++
				}
			}
		}
	}
	if accepted < 1000 {
		t.Errorf("%d accepted", accepted)
	}
}

// What the short way accepts, the validator accepts, whatever a schema says.
func TestPlainAcceptsNothingElse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, args, text := plainCase(t, false)
		if err := s.compiled.Validate(args.value); err != nil && s.plain.accepts(args.value) {
			t.Fatalf("accepted: %s\n%v", text, err)
		}
	})
}

// Where all is plain, it accepts what the validator accepts.
func TestPlainAcceptsAllThatIsPlain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, args, text := plainCase(t, true)
		if err := s.compiled.Validate(args.value); (err == nil) != s.plain.accepts(args.value) {
			t.Fatalf("accepts is %t: %s\n%v", s.plain.accepts(args.value), text, err)
		}
	})
}

// The fields have these names, or one that a schema may have would not count.
func TestPlainFieldsAreThere(t *testing.T) {
	t.Parallel()
	for _, name := range plainFields() {
		if _, ok := reflect.TypeFor[jsonschema.Schema]().FieldByName(name); !ok {
			t.Errorf("the validator has no %s", name)
		}
	}
}

// What most requests are takes no memory to accept.
func TestPlainArgumentsAreAcceptedWithoutMemory(t *testing.T) {
	s := compile(t, `{"type":"object","required":["payment_id","amount"],"additionalProperties":false,"properties":{
		"payment_id":{"type":"string","pattern":"^pay_"},"amount":{"type":"integer","minimum":1},"note":{"type":"string","maxLength":200}}}`)
	args := parse(t, `{"payment_id":"pay_8f2c11","amount":1250,"note":"asked twice"}`)
	if n := testing.AllocsPerRun(100, func() {
		if err := s.Validate(args); err != nil {
			t.Error(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
