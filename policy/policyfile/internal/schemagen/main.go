// Command schemagen writes the JSON Schemas of policies and their tests from the
// Go types and their comments. It is run by go generate.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"github.com/invopop/jsonschema"

	"github.com/onceward/onceward/policy/policyfile"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "schemagen:", err)
		os.Exit(1)
	}
}

// run writes the schemas to a folder.
func run(dir string) error {
	reflector := &jsonschema.Reflector{
		Anonymous:      true,
		ExpandedStruct: true,
		FieldNameTag:   "yaml",
		Mapper:         mapped,
	}
	if err := reflector.AddGoComments("github.com/onceward/onceward/policy/policyfile", ".", jsonschema.WithFullComment()); err != nil {
		return err
	}
	for name, value := range map[string]any{policyfile.KindPolicy: policyfile.File{}, policyfile.KindCases: policyfile.Cases{}} {
		schema := reflector.Reflect(value)
		schema.Title = "Onceward " + name
		text, err := json.MarshalIndent(schema, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name+".json"), append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// mapped gives the types that are texts in files their patterns.
func mapped(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[policyfile.Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+d|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+)$`, Description: "A length of time: 30s, 1h30m, 30d."}
	case reflect.TypeFor[policyfile.Decimal]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
			{Type: "number", Minimum: "0"}, {Type: "string", Pattern: policyfile.DecimalPattern},
		}, Description: `An exact number that is not negative, in plain digits: 500, "1250.00".`}
	}
	return nil
}
