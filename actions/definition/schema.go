package definition

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
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
type shapes map[string]*jsonschema.Schema

func compileShapes() (shapes, error) {
	out := shapes{}
	for _, kind := range []string{kindProvider, kindAction} {
		text, err := JSONSchema(kind)
		if err != nil {
			return nil, err
		}
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
		if err != nil {
			return nil, err
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource("onceward://definition/"+kind, doc); err != nil {
			return nil, err
		}
		if out[kind], err = c.Compile("onceward://definition/" + kind); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// misfit is one place where a document does not fit its schema.
type misfit struct {
	tokens  []string
	problem string
}

// misfits lists what does not fit. A choice of forms says the last one's
// complaint.
func (s shapes) misfits(kind string, doc any) []misfit {
	var invalid *jsonschema.ValidationError
	if err := s[kind].Validate(doc); !errors.As(err, &invalid) {
		return nil
	}
	return leaves(invalid)
}

// leaves are the complaints at the ends of a tree of them.
func leaves(e *jsonschema.ValidationError) []misfit {
	if len(e.Causes) == 0 {
		return misfitsOf(e)
	}
	if _, choice := e.ErrorKind.(*oneOf); choice {
		return leaves(e.Causes[len(e.Causes)-1])
	}
	var out []misfit
	for _, cause := range e.Causes {
		out = append(out, leaves(cause)...)
	}
	return out
}

type oneOf = kind.OneOf

// misfitsOf says a complaint in the words of these files.
func misfitsOf(e *jsonschema.ValidationError) []misfit {
	var out []misfit
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			out = append(out, misfit{append(slices.Clone(e.InstanceLocation), name), "there is no such field"})
		}
	case *kind.Required:
		out = append(out, misfit{e.InstanceLocation, "missing: " + strings.Join(k.Missing, ", ")})
	case *kind.Enum:
		want, err := json.Marshal(k.Want)
		if err != nil {
			want = []byte("[]")
		}
		out = append(out, misfit{e.InstanceLocation, "want one of " + strings.Trim(string(want), "[]")})
	case *kind.Type:
		out = append(out, misfit{e.InstanceLocation, fmt.Sprintf("is %s, want %s%s", k.Got, strings.Join(k.Want, " or "), hint(e, k))})
	case *kind.Pattern:
		problem := fmt.Sprintf("%q does not match %s", k.Got, k.Want)
		if strings.Contains(k.Want, "ns|us|ms") {
			problem = fmt.Sprintf("%q is no length of time: want a number with a unit, such as 300ms, 30s, 1h30m or 30d", k.Got)
		}
		out = append(out, misfit{e.InstanceLocation, problem})
	default:
		out = append(out, misfit{e.InstanceLocation, e.ErrorKind.LocalizedString(message.NewPrinter(language.English))})
	}
	return out
}

// hint says what was probably meant.
func hint(e *jsonschema.ValidationError, k *kind.Type) string {
	switch {
	case k.Got == "number" && slices.Contains(k.Want, "string"):
		return " (put it in quotes)"
	case k.Got == "string" && strings.HasSuffix(e.SchemaURL, "/Secret"):
		return ": a reference, {env: NAME} or {file: PATH}; the secret itself is never in a file"
	}
	return ""
}
