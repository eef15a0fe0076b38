// Command schemagen writes the JSON Schemas of definition files from the Go types
// and their comments. It is run by go generate.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/onceward/onceward/actions/definition"
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
	if err := reflector.AddGoComments("github.com/onceward/onceward/actions/definition", ".", jsonschema.WithFullComment()); err != nil {
		return err
	}
	for name, value := range map[string]any{"provider": definition.Provider{}, "action": definition.Action{}} {
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
	case reflect.TypeFor[definition.Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+d|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+)$`, Description: "A length of time: 300ms, 30s, 1h30m, 30d."}
	case reflect.TypeFor[definition.Size]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
			{Type: "integer", Minimum: "1"}, {Type: "string", Pattern: `^[0-9]+ ?(KiB|MiB)$`},
		}, Description: "A number of bytes: 4096, 64KiB, 1MiB."}
	case reflect.TypeFor[definition.StatusRange]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
			{Type: "integer", Minimum: "200", Maximum: "599"}, {Type: "string", Pattern: `^([2-5]xx|[2-5][0-9]{2}(-[2-5][0-9]{2})?)$`},
		}, Description: strings.TrimSpace(`An HTTP status, "5xx" or "500-504".`)}
	}
	return nil
}
