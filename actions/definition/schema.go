package definition

import (
	"embed"
	"fmt"

	"github.com/onceward/onceward/internal/strictyaml"
)

//go:generate go run ./internal/schemagen schema

// The schemas are generated from the types of this package and their comments.
//
//go:embed schema/provider.json schema/action.json
var schemas embed.FS

// JSONSchema returns the JSON Schema (2020-12) of a kind of file, "provider" or
// "action", for editors.
func JSONSchema(kind string) ([]byte, error) {
	text, err := schemas.ReadFile("schema/" + kind + ".json")
	if err != nil {
		return nil, fmt.Errorf("no schema for %q: want provider or action", kind)
	}
	return text, nil
}

// shapes are the compiled schemas by kind.
type shapes map[string]*strictyaml.Shape

func compileShapes() (shapes, error) {
	out := shapes{}
	for _, kind := range []string{kindProvider, kindAction} {
		text, err := JSONSchema(kind)
		if err != nil {
			return nil, err
		}
		if out[kind], err = strictyaml.NewShape("onceward://definition/"+kind, text); err != nil {
			return nil, err
		}
	}
	return out, nil
}
