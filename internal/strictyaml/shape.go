package strictyaml

import (
	"bytes"
	"cmp"
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

// Shape is a compiled JSON Schema of a kind of file. It is immutable and safe for
// concurrent use.
type Shape struct{ schema *jsonschema.Schema }

// NewShape compiles a JSON Schema (2020-12) under an address of its own, such as
// onceward://definition/action.
func NewShape(address string, text []byte) (*Shape, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(address, doc); err != nil {
		return nil, err
	}
	schema, err := c.Compile(address)
	if err != nil {
		return nil, err
	}
	return &Shape{schema}, nil
}

// Faults lists where a document does not fit. A choice of forms says the last
// one's complaint.
func (s *Shape) Faults(d *Document) []Fault {
	var invalid *jsonschema.ValidationError
	if err := s.schema.Validate(d.Value); !errors.As(err, &invalid) {
		return nil
	}
	return d.Misfits(nil, invalid)
}

// maxMisfits bounds the complaints about one document. Nobody reads more, and to
// find the places of thousands takes seconds.
const maxMisfits = 100

// Misfits are the complaints of a validation about what is at a path of the
// document: the first hundred, and how many more there are.
func (d *Document) Misfits(path []string, e *jsonschema.ValidationError) []Fault {
	all := leaves(e)
	// The validator walks maps: which are the first must not change from time to time.
	slices.SortFunc(all, func(a, b misfit) int {
		return cmp.Or(slices.Compare(a.tokens, b.tokens), strings.Compare(a.problem, b.problem))
	})
	var faults []Fault
	for _, m := range all[:min(len(all), maxMisfits)] {
		faults = append(faults, d.Fault(d.Field(slices.Concat(path, m.tokens)...), m.problem))
	}
	if more := len(all) - maxMisfits; more > 0 {
		faults = append(faults, d.Fault(d.Field(path...), fmt.Sprintf("%d more things are wrong", more)))
	}
	return faults
}

// misfit is one place where a document does not fit its schema.
type misfit struct {
	tokens  []string
	problem string
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
