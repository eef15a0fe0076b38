package actions

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func compile(t testing.TB, text string) *Schema {
	t.Helper()
	s, err := CompileSchema("test.action", json.RawMessage(text))
	if err != nil {
		t.Fatalf("CompileSchema(%s): %v", text, err)
	}
	return s
}

// property makes the schema of an object with the one member "a".
func property(schema string) string {
	return `{"type":"object","properties":{"a":` + schema + `}}`
}

func TestSchemaValidates(t *testing.T) {
	closed := `{"type":"object","required":["amount","items"],"additionalProperties":false,"properties":{
		"amount":{"type":"integer","minimum":1},
		"items":{"type":"array","items":{"type":"object","required":["sku"],"properties":{"sku":{"type":"string"}}}}}}`
	forms := property(`{"oneOf":[{"type":"integer"},{"type":"object","required":["id"]}]}`)
	for _, c := range []struct {
		name, schema, in string
		want             []string // none: valid
	}{
		{"valid", closed, `{"amount":9007199254740993,"items":[{"sku":"a"}]}`, nil},
		{"integer spellings", closed, `{"amount":1.0e2,"items":[]}`, nil},
		{"everything wrong", closed, `{"amount":0.5,"items":[{"sku":"a"},{"sku":7},{}],"more":1}`,
			[]string{"amount: TYPE", "items[1].sku: TYPE", "items[2].sku: REQUIRED", "more: UNKNOWN_FIELD"}},
		{"empty", closed, ``, []string{"amount: REQUIRED", "items: REQUIRED"}},
		{"odd names", closed, `{"amount":1,"items":[],"a b\n":1}`, []string{`["a b\n"]: UNKNOWN_FIELD`}},

		{"big integer above", property(`{"maximum":9007199254740992}`), `{"a":9007199254740993}`, []string{"a: RANGE"}},
		{"big integer at", property(`{"maximum":9007199254740993}`), `{"a":9007199254740993}`, nil},
		{"big integer below", property(`{"exclusiveMinimum":9007199254740993}`), `{"a":9007199254740993}`, []string{"a: RANGE"}},
		{"exclusive maximum", property(`{"exclusiveMaximum":1}`), `{"a":1}`, []string{"a: RANGE"}},
		{"big enum", property(`{"enum":[9007199254740992]}`), `{"a":9007199254740993}`, []string{"a: ENUM"}},
		{"const", property(`{"const":9007199254740993}`), `{"a":9007199254740993}`, nil},
		{"cents", property(`{"multipleOf":0.01}`), `{"a":19.99}`, nil},
		{"less than cents", property(`{"multipleOf":0.01}`), `{"a":19.999}`, []string{"a: MULTIPLE_OF"}},

		{"email", property(`{"format":"email"}`), `{"a":"nobody"}`, []string{"a: FORMAT"}},
		{"date", property(`{"format":"date"}`), `{"a":"2026-02-30"}`, []string{"a: FORMAT"}},
		{"uuid", property(`{"format":"uuid"}`), `{"a":"0197b3c0-0000-7000-8000-000000000000"}`, nil},
		{"pattern", property(`{"pattern":"^inv_[0-9]+$"}`), `{"a":"inv_x"}`, []string{"a: PATTERN"}},
		{"too short", property(`{"minLength":1}`), `{"a":""}`, []string{"a: LENGTH"}},
		{"too long", property(`{"maxLength":1}`), `{"a":"ab"}`, []string{"a: LENGTH"}},
		{"length counts runes", property(`{"maxLength":1}`), `{"a":"😀"}`, nil},

		{"few items", property(`{"minItems":1}`), `{"a":[]}`, []string{"a: ITEMS"}},
		{"many items", property(`{"maxItems":1}`), `{"a":[1,2]}`, []string{"a: ITEMS"}},
		{"equal items", property(`{"uniqueItems":true}`), `{"a":[1,2,1.0]}`, []string{"a: ITEMS"}},
		{"contains", property(`{"contains":{"const":1}}`), `{"a":[2]}`, []string{"a: ITEMS"}},
		{"few members", property(`{"minProperties":1}`), `{"a":{}}`, []string{"a: PROPERTIES"}},
		{"many members", property(`{"maxProperties":0}`), `{"a":{"b":1}}`, []string{"a: PROPERTIES"}},
		{"member names", property(`{"propertyNames":{"pattern":"^[a-z]+$"}}`), `{"a":{"B":1}}`, []string{"a.B: UNKNOWN_FIELD"}},
		{"unevaluated", `{"type":"object","allOf":[{"properties":{"a":true}}],"unevaluatedProperties":false}`, `{"a":1,"b":1}`,
			[]string{"b: NOT_ALLOWED"}},
		{"dependent", property(`{"dependentRequired":{"b":["c"]}}`), `{"a":{"b":1}}`, []string{"a.c: REQUIRED"}},

		{"all of", property(`{"allOf":[{"minimum":2},{"multipleOf":2}]}`), `{"a":1}`, []string{"a: MULTIPLE_OF", "a: RANGE"}},
		{"no form", forms, `{"a":{"x":1}}`, []string{"a: NO_FORM", "a: TYPE", "a.id: REQUIRED"}},
		{"any form", property(`{"anyOf":[{"type":"integer"},{"const":"x"}]}`), `{"a":"y"}`, []string{"a: ENUM", "a: NO_FORM", "a: TYPE"}},
		{"two forms", property(`{"oneOf":[{"minimum":1},{"minimum":2}]}`), `{"a":3}`, []string{"a: AMBIGUOUS"}},
		{"not", property(`{"not":{"const":1}}`), `{"a":1}`, []string{"a: NOT_ALLOWED"}},
		{"condition", property(`{"if":{"required":["b"]},"then":{"required":["c"]}}`), `{"a":{"b":1}}`, []string{"a.c: REQUIRED"}},
		{"inner reference", `{"type":"object","properties":{"a":{"$ref":"#/$defs/id"}},"$defs":{"id":{"type":"string"}}}`, `{"a":1}`,
			[]string{"a: TYPE"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := compile(t, c.schema).Validate(parse(t, c.in))
			if c.want == nil {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if err == nil {
				t.Fatal("accepted")
			}
			refused(t, err, c.want...)
		})
	}
}

func TestSchemaMessages(t *testing.T) {
	for _, c := range []struct{ schema, in, want string }{
		{`{"type":"integer"}`, `"secret"`, "must be integer, not string"},
		{`{"type":["integer","null"]}`, `"secret"`, "must be null or integer, not string"},
		{`{"enum":["EUR","USD"]}`, `"secret"`, `must be one of "EUR", "USD"`},
		{`{"const":"EUR"}`, `"secret"`, `must be "EUR"`},
		{`{"format":"email"}`, `"secret"`, "must be a valid email"},
		{`{"pattern":"^a$"}`, `"secret"`, "must match the pattern ^a$"},
		{`{"maxLength":1}`, `"secret"`, "must have at most 1 character, has 6"},
		{`{"minLength":12}`, `"secret"`, "must have at least 12 characters, has 6"},
		{`{"minimum":9007199254740993}`, `1`, "must be at least 9007199254740993"},
		{`{"exclusiveMaximum":0.25}`, `1`, "must be less than 0.25"},
		{`{"multipleOf":1e-7}`, `1e-8`, "must be a multiple of 0.0000001"},
		{`{"minimum":1e300}`, `1`, "must be at least 1" + strings.Repeat("0", 60) + "…"},
		{`{"const":"` + strings.Repeat("é", 200) + `"}`, `"secret"`, `must be "` + strings.Repeat("é", 30) + "…"},
		{`{"pattern":"` + strings.Repeat("x", 1000) + `"}`, `"secret"`, "must match the pattern " + strings.Repeat("x", 230) + "…"},
		{`{"anyOf":[{"type":"null"},{"type":"integer"}]}`, `"secret"`,
			"form 1: must be null, not string; a: form 2: must be integer, not string"},
		{`{"contentEncoding":"base64","not":{"type":"string"}}`, `"secret"`, "has a form that is not allowed"},
	} {
		err := compile(t, property(c.schema)).Validate(parse(t, `{"a":`+c.in+`}`))
		if err == nil {
			t.Errorf("%.100s accepts %s", c.schema, c.in)
			continue
		}
		if !strings.HasSuffix(err.Error(), ": "+c.want) {
			t.Errorf("%.100s says %q, want %q", c.schema, err, c.want)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("error repeats the argument: %v", err)
		}
	}
}

// TestSchemaReportIsBoundedAndStable checks that hostile arguments cannot make
// us say without end, nor in a different order each time.
func TestSchemaReportIsBoundedAndStable(t *testing.T) {
	s := compile(t, `{"type":"object","additionalProperties":{"type":"string"}}`)
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, `,"m%d":1`, i)
	}
	args := parse(t, "{"+text.String()[1:]+"}")
	first := s.Validate(args)
	var bad *ArgumentsError
	if !errors.As(first, &bad) || len(bad.Violations) != maxViolations {
		t.Fatalf("error is %.300v, want %d violations", first, maxViolations)
	}
	for range 5 {
		if again := s.Validate(args); again.Error() != first.Error() {
			t.Fatalf("the same arguments gave\n%v\nand then\n%v", first, again)
		}
	}
}

func TestCompileSchemaRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(file, []byte(`{"type":"string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, schema, want string }{
		{"nothing", ``, "schema is missing"},
		{"no JSON", `{`, "not valid JSON"},
		{"true", `true`, "must be a JSON object"},
		{"no type", `{}`, `"type" must be "object"`},
		{"another type", `{"type":"array"}`, `"type" must be "object"`},
		{"several types", `{"type":["object","null"]}`, `"type" must be "object"`},
		{"duplicate key", `{"type":"object","properties":{"a":{"type":"string","type":"integer"}}}`, "properties.a.type: is named twice"},
		{"wrong keyword value", property(`{"type":"text"}`), "/properties/a/type"},
		{"bad pattern", property(`{"pattern":"("}`), "pattern"},
		{"look-ahead", property(`{"pattern":"(?=a)"}`), "pattern"},
		{"file reference", property(`{"$ref":"file://` + file + `"}`), "must stand alone"},
		{"web reference", property(`{"$ref":"https://example.com/schema.json"}`), "must stand alone"},
		{"relative reference", property(`{"$ref":"other.json"}`), "must stand alone"},
		{"reference to nowhere", property(`{"$ref":"#/$defs/none"}`), "$defs/none"},
		{"reference under an id", `{"$id":"file://` + filepath.Dir(file) + `/s.json","type":"object","properties":{"a":{"$ref":"other.json"}}}`, "must stand alone"},
		{"unknown format", property(`{"type":"string","format":"iban"}`), `format "iban" is not known`},
		{"old draft", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`, "$schema"},
		{"own dialect", `{"$schema":"https://example.com/dialect","type":"object"}`, "$schema"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := CompileSchema("test.action", json.RawMessage(c.schema))
			if err == nil {
				t.Fatalf("compiled %v", s)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %q, want something with %q", err, c.want)
			}
		})
	}
}

func TestCompileSchemaAccepts(t *testing.T) {
	for _, text := range []string{
		`{"type":"object"}`,
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object"}`,
		`{"$id":"https://example.com/a.json","type":"object","properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":{}}}`,
		`{"type":"object","properties":{"format":{"type":"string","format":"date"},"x":{"const":{"format":"iban"}}}}`,
	} {
		compile(t, text)
	}
	if _, err := CompileSchema("../odd name?#", json.RawMessage(`{"type":"object"}`)); err != nil {
		t.Errorf("odd name: %v", err)
	}
}

func TestSchemaIsSafeForConcurrentUse(t *testing.T) {
	s := compile(t, property(`{"type":"integer","minimum":1}`))
	good, bad := parse(t, `{"a":1}`), parse(t, `{"a":0}`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if err := s.Validate(good); err != nil {
					t.Error(err)
				}
				if s.Validate(bad) == nil {
					t.Error("accepted")
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkValidate(b *testing.B) {
	s := compile(b, `{"type":"object","required":["payment_id","amount"],"additionalProperties":false,"properties":{
		"payment_id":{"type":"string","pattern":"^pay_"},"amount":{"type":"integer","minimum":1},"note":{"type":"string","maxLength":200}}}`)
	args := parse(b, `{"payment_id":"pay_8f2c11","amount":1250,"note":"asked twice"}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Validate(args); err != nil {
			b.Fatal(err)
		}
	}
}
