package policyfile

import (
	"embed"
	"fmt"
	"sync"

	"github.com/onceward/onceward/internal/strictyaml"
)

// Kinds of files.
const (
	KindPolicy = "policy"
	KindCases  = "policy_test"
)

//go:generate go run ./internal/schemagen schema

// The schemas are generated from the types of this package and their comments.
//
//go:embed schema/policy.json schema/policy_test.json
var schemas embed.FS

// JSONSchema returns the JSON Schema (2020-12) of a kind of file, for editors.
func JSONSchema(kind string) ([]byte, error) {
	text, err := schemas.ReadFile("schema/" + kind + ".json")
	if err != nil {
		return nil, fmt.Errorf("no schema for %q: want %s or %s", kind, KindPolicy, KindCases)
	}
	return text, nil
}

// Reader reads files of both kinds. It is safe for concurrent use.
type Reader struct {
	shapes map[string]func() (*strictyaml.Shape, error)
}

// NewReader makes a reader; schemas are compiled when they are needed first.
func NewReader() *Reader {
	r := &Reader{shapes: map[string]func() (*strictyaml.Shape, error){}}
	for _, kind := range []string{KindPolicy, KindCases} {
		r.shapes[kind] = sync.OnceValues(func() (*strictyaml.Shape, error) {
			text, err := JSONSchema(kind)
			if err != nil {
				return nil, err
			}
			return strictyaml.NewShape("onceward://policy/"+kind, text)
		})
	}
	return r
}

// Policy reads the policy of a tenant, in its form: what its parts mean is checked
// by package policy. Without a file and faults, the file is a table of cases, which
// may lie beside the policies.
func (r *Reader) Policy(file string, data []byte) (*File, *strictyaml.Document, []strictyaml.Fault) {
	doc, fault := strictyaml.Read(file, data, strictyaml.Wants{Kinds: "kind: policy", Each: "the policy of each tenant"})
	if fault != nil {
		return nil, nil, []strictyaml.Fault{*fault}
	}
	if kindOf(doc) == KindCases {
		return nil, nil, nil
	}
	var f File
	if faults := r.decode(doc, KindPolicy, &f); len(faults) > 0 {
		return nil, nil, faults
	}
	return &f, doc, nil
}

// Cases reads a table of cases, in its form.
func (r *Reader) Cases(file string, data []byte) (*Cases, *strictyaml.Document, []strictyaml.Fault) {
	doc, fault := strictyaml.Read(file, data, strictyaml.Wants{Kinds: "kind: policy_test", Each: "each table of cases"})
	if fault != nil {
		return nil, nil, []strictyaml.Fault{*fault}
	}
	var c Cases
	if faults := r.decode(doc, KindCases, &c); len(faults) > 0 {
		return nil, nil, faults
	}
	return &c, doc, nil
}

func kindOf(doc *strictyaml.Document) string {
	object, _ := doc.Value.(map[string]any)
	kind, _ := object["kind"].(string)
	return kind
}

func (r *Reader) decode(doc *strictyaml.Document, kind string, into any) []strictyaml.Fault {
	if _, ok := doc.Value.(map[string]any); !ok {
		return []strictyaml.Fault{{Place: doc.Place(""), Problem: "want one object: kind: " + kind}}
	}
	if kindOf(doc) != kind {
		return []strictyaml.Fault{doc.Fault("kind", "want "+kind)}
	}
	shape, err := r.shapes[kind]()
	if err != nil {
		return []strictyaml.Fault{{Place: doc.Place(""), Problem: err.Error()}}
	}
	if faults := shape.Faults(doc); len(faults) > 0 {
		return faults
	}
	if fault := doc.Decode(into); fault != nil {
		return []strictyaml.Fault{*fault}
	}
	return nil
}
