package definition

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/onceward/onceward/internal/strictyaml"
	"github.com/onceward/onceward/internal/yamlfiles"
)

// Kinds of files.
const (
	kindProvider = "provider"
	kindAction   = "action"
	wantKinds    = "kind: provider, or kind: action"
)

// Set is what a number of files declare, checked. It is immutable and safe for
// concurrent use.
type Set struct {
	Providers map[string]*Provider // by name
	Actions   map[string]*Action   // by type
	// Files are the names of the files that were read, sorted.
	Files []string
	docs  map[string]*strictyaml.Document // by file
}

// Load reads files and folders (every .yaml and .yml below them, hidden ones
// left out) and checks them together. It fails with a *FaultsError that has every
// fault, or with the error of the file system; then there is no set.
//
// It checks what can be seen without running anything; package declared
// compiles the expressions.
func Load(paths ...string) (*Set, error) {
	files, err := yamlfiles.Read(paths...)
	if err != nil {
		return nil, err
	}
	return parse(paths, files)
}

// LoadFS is Load for every file of a file system, or of the named folders and
// files in it.
func LoadFS(fsys fs.FS, names ...string) (*Set, error) {
	files, err := yamlfiles.ReadFS(fsys, names...)
	if err != nil {
		return nil, err
	}
	return parse(names, files)
}

// parse reads all files and checks them together.
func parse(from []string, files map[string][]byte) (*Set, error) {
	shapes, err := compileShapes()
	if err != nil {
		return nil, err
	}
	s := &Set{Providers: map[string]*Provider{}, Actions: map[string]*Action{}, docs: map[string]*strictyaml.Document{}}
	for name := range files {
		s.Files = append(s.Files, name)
	}
	slices.Sort(s.Files)
	var faults []Fault
	if len(files) == 0 {
		return nil, &FaultsError{Faults: []Fault{{Place: Place{File: strings.Join(from, ", ")}, Problem: "no .yaml files there"}}}
	}
	for _, name := range s.Files {
		faults = append(faults, s.add(shapes, name, files[name])...)
	}
	if len(faults) == 0 {
		faults = s.check()
	}
	if len(faults) > 0 {
		return nil, &FaultsError{Faults: strictyaml.Sorted(faults)}
	}
	return s, nil
}

// add reads one file into the set.
func (s *Set) add(shapes shapes, file string, data []byte) []Fault {
	doc, fault := strictyaml.Read(file, data, strictyaml.Wants{Kinds: wantKinds, Each: "each provider and each action"})
	if fault != nil {
		return []Fault{*fault}
	}
	s.docs[file] = doc
	object, ok := doc.Value.(map[string]any)
	if !ok {
		return []Fault{{Place: doc.Place(""), Problem: "want one object: " + wantKinds}}
	}
	kind, _ := object["kind"].(string)
	if kind != kindProvider && kind != kindAction {
		return []Fault{doc.Fault("kind", "want provider or action")}
	}
	if faults := shapes[kind].Faults(doc); len(faults) > 0 {
		return faults
	}
	if kind == kindProvider {
		return s.addProvider(file, doc)
	}
	return s.addAction(file, doc)
}

func (s *Set) addProvider(file string, doc *strictyaml.Document) []Fault {
	var p Provider
	if fault := doc.Decode(&p); fault != nil {
		return []Fault{*fault}
	}
	p.Place = Place{File: file, Line: 1, Column: 1}
	if other, taken := s.Providers[p.Name]; taken {
		return []Fault{{Place: s.Place(file, "name"), Field: "name", Problem: fmt.Sprintf("%s is declared in %s too", p.Name, other.Place.File)}}
	}
	s.Providers[p.Name] = &p
	return nil
}

func (s *Set) addAction(file string, doc *strictyaml.Document) []Fault {
	var a Action
	if fault := doc.Decode(&a); fault != nil {
		return []Fault{*fault}
	}
	a.Place = Place{File: file, Line: 1, Column: 1}
	if other, taken := s.Actions[a.Type]; taken {
		return []Fault{{Place: s.Place(file, "type"), Field: "type", Problem: fmt.Sprintf("%s is declared in %s too", a.Type, other.Place.File)}}
	}
	s.Actions[a.Type] = &a
	return nil
}
