package actions

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemaDialect is the one dialect of JSON Schema that action types may use.
const schemaDialect = "https://json-schema.org/draft/2020-12/schema"

// Schema is a compiled JSON Schema of an arguments object. It is immutable and
// safe for concurrent use.
type Schema struct {
	compiled *jsonschema.Schema
	plain    *plain // nil for one that is not
}

// CompileSchema compiles the JSON Schema (draft 2020-12) of the arguments of
// the action type that name names.
//
// A schema is required and must say "type": "object". It is read as strictly
// as arguments are ([ParseArguments]); references that leave it are refused,
// and so are unknown formats, because a check that silently does nothing is
// worse than none. Formats are asserted. Patterns are Go's (RE2), which cannot
// be made slow: look-ahead and back-references do not compile.
func CompileSchema(name string, raw json.RawMessage) (*Schema, error) {
	if len(raw) == 0 {
		return nil, errors.New(`schema is missing: every action type needs one, at least {"type": "object"}`)
	}
	doc, err := parseObject(raw)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	if dialect, ok := doc["$schema"]; ok && dialect != schemaDialect {
		return nil, fmt.Errorf("schema: $schema is %v, want %s", dialect, schemaDialect)
	}
	if doc["type"] != "object" {
		return nil, errors.New(`schema: "type" must be "object": arguments are one`)
	}

	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.AssertFormat()
	c.AssertVocabs()
	c.RegisterVocabulary(knownFormats())

	// A base of our own, since one without a scheme would be taken for a file.
	location := "onceward://schema/" + url.PathEscape(name)
	if err := c.AddResource(location, doc); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	compiled, err := c.Compile(location)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return &Schema{compiled: compiled, plain: newPlain(compiled)}, nil
}

// noLoader keeps schemas from reading files and networks.
type noLoader struct{}

func (noLoader) Load(location string) (any, error) {
	return nil, fmt.Errorf("reference to %s: a schema must stand alone, use $defs", location)
}

// knownFormats is a vocabulary without keywords. The compiler shows it every
// schema object, and it refuses formats that would not be checked.
func knownFormats() *jsonschema.Vocabulary {
	known := map[string]bool{}
	for _, format := range []string{
		"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "iri", "iri-reference",
		"json-pointer", "period", "regex", "relative-json-pointer", "semver", "time", "uri",
		"uri-reference", "uri-template", "uuid",
	} {
		known[format] = true
	}
	return &jsonschema.Vocabulary{
		URL: "onceward://vocabulary/known-formats",
		Compile: func(_ *jsonschema.CompilerContext, schema map[string]any) (jsonschema.SchemaExt, error) {
			if format, ok := schema["format"].(string); ok && !known[format] {
				return nil, fmt.Errorf("format %q is not known", format)
			}
			return nil, nil
		},
	}
}

// Validate checks arguments. It returns nil or an *ArgumentsError with one
// violation for each thing that is wrong (the first 32 by path), in a stable
// order. Numbers are compared exactly. Messages name what the schema wants and
// never what the arguments hold.
func (s *Schema) Validate(args Arguments) error {
	value := args.value
	if value == nil {
		value = map[string]any{}
	}
	if s.plain.accepts(value) {
		return nil
	}
	err := s.compiled.Validate(value)
	if err == nil {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return fmt.Errorf("schema: %w", err)
	}
	r := report{root: value}
	r.add(invalid, "")
	return r.refusal()
}
