package definition

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Kinds of files.
const (
	kindProvider = "provider"
	kindAction   = "action"
)

// Set is what a number of files declare, checked. It is immutable and safe for
// concurrent use.
type Set struct {
	Providers map[string]*Provider // by name
	Actions   map[string]*Action   // by type
	// Files are the names of the files that were read, sorted.
	Files []string
	roots map[string]ast.Node // by file
	docs  map[string]any      // by file
}

// Load reads files and folders (every .yaml and .yml below them, hidden ones
// left out) and checks them together. It fails with a *FaultsError that has every
// fault, or with the error of the file system; then there is no set.
//
// It checks what can be seen without running anything; package declared
// compiles the expressions.
func Load(paths ...string) (*Set, error) {
	files := map[string][]byte{}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, err
		}
		if p = filepath.Clean(p); !info.IsDir() {
			if files[p], err = readBounded(os.DirFS(filepath.Dir(p)), filepath.Base(p)); err != nil {
				return nil, fmt.Errorf("%s: %w", p, err)
			}
			continue
		}
		found, err := readTree(os.DirFS(p))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		for name, data := range found {
			files[filepath.Join(p, filepath.FromSlash(name))] = data
		}
	}
	return parse(paths, files)
}

// LoadFS is Load for every file of a file system, or of the named folders and
// files in it.
func LoadFS(fsys fs.FS, names ...string) (*Set, error) {
	files := map[string][]byte{}
	for _, name := range names {
		info, err := fs.Stat(fsys, name)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			if files[name], err = readBounded(fsys, name); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			continue
		}
		sub, err := fs.Sub(fsys, name)
		if err != nil {
			return nil, err
		}
		found, err := readTree(sub)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for below, data := range found {
			files[path.Join(name, below)] = data
		}
	}
	return parse(names, files)
}

func readTree(fsys fs.FS) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != "." && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir() || path.Ext(name) != ".yaml" && path.Ext(name) != ".yml":
			return nil
		}
		data, err := readBounded(fsys, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		files[name] = data
		return nil
	})
	return files, err
}

func readBounded(fsys fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // a pipe would be waited for
		return nil, errors.New("is no regular file")
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFileBytes+1)) // one more is a fault
}

// parse reads all files and checks them together.
func parse(from []string, files map[string][]byte) (*Set, error) {
	shapes, err := compileShapes()
	if err != nil {
		return nil, err
	}
	s := &Set{Providers: map[string]*Provider{}, Actions: map[string]*Action{}, roots: map[string]ast.Node{}, docs: map[string]any{}}
	for name := range files {
		s.Files = append(s.Files, name)
	}
	slices.Sort(s.Files)
	var faults []Fault
	if len(files) == 0 {
		return nil, &FaultsError{[]Fault{{Place: Place{File: strings.Join(from, ", ")}, Problem: "no .yaml files there"}}}
	}
	for _, name := range s.Files {
		faults = append(faults, s.add(shapes, name, files[name])...)
	}
	if len(faults) == 0 {
		faults = s.check()
	}
	if len(faults) > 0 {
		return nil, &FaultsError{sorted(faults)}
	}
	return s, nil
}

// add reads one file into the set.
func (s *Set) add(shapes shapes, file string, data []byte) []Fault {
	root, doc, fault := readDocument(file, data)
	if fault != nil {
		return []Fault{*fault}
	}
	s.roots[file], s.docs[file] = root, doc
	object, ok := doc.(map[string]any)
	if !ok {
		return []Fault{{Place: placeOf(file, root), Problem: "want one object: kind: provider, or kind: action"}}
	}
	kind, _ := object["kind"].(string)
	if kind != kindProvider && kind != kindAction {
		return []Fault{{Place: s.Place(file, "kind"), Field: "kind", Problem: "want provider or action"}}
	}
	var faults []Fault
	for _, m := range shapes.misfits(kind, doc) {
		field := joinTokens(root, m.tokens)
		faults = append(faults, Fault{Place: s.Place(file, field), Field: field, Problem: m.problem})
	}
	if len(faults) > 0 {
		return faults
	}
	if kind == kindProvider {
		return s.addProvider(file, root)
	}
	return s.addAction(file, root)
}

func (s *Set) addProvider(file string, root ast.Node) []Fault {
	var p Provider
	if fault := decode(file, root, &p); fault != nil {
		return []Fault{*fault}
	}
	p.Place = Place{File: file, Line: 1, Column: 1}
	if other, taken := s.Providers[p.Name]; taken {
		return []Fault{{Place: s.Place(file, "name"), Field: "name", Problem: fmt.Sprintf("%s is declared in %s too", p.Name, other.Place.File)}}
	}
	s.Providers[p.Name] = &p
	return nil
}

func (s *Set) addAction(file string, root ast.Node) []Fault {
	var a Action
	if fault := decode(file, root, &a); fault != nil {
		return []Fault{*fault}
	}
	a.Place = Place{File: file, Line: 1, Column: 1}
	if other, taken := s.Actions[a.Type]; taken {
		return []Fault{{Place: s.Place(file, "type"), Field: "type", Problem: fmt.Sprintf("%s is declared in %s too", a.Type, other.Place.File)}}
	}
	s.Actions[a.Type] = &a
	return nil
}
