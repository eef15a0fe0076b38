package mutants

import (
	"fmt"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
)

// Mutant is a fault to be seeded.
type Mutant struct {
	Name  string // what is wrong with it
	Law   string // that it breaks, as docs/laws.md has it
	Edits []Edit
	// Package, by its path in the module, and Run, as -run takes it, are of the
	// quickest test that must fail.
	Package, Run string
}

// Edit changes a file: Old must be in it exactly once.
type Edit struct{ File, Old, New string }

// Changed returns the files of a mutant as it has them, by their paths in the
// module. read is the file as it is. It fails where an edit does not apply, and
// where a Go file is no Go any more.
func (m Mutant) Changed(read func(path string) ([]byte, error)) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, e := range m.Edits {
		text, ok := files[e.File]
		if !ok {
			var err error
			if text, err = read(e.File); err != nil {
				return nil, err
			}
		}
		if n := strings.Count(string(text), e.Old); n != 1 {
			return nil, fmt.Errorf("%s has %d times, not once: %s", e.File, n, e.Old)
		}
		if e.Old == e.New {
			return nil, fmt.Errorf("%s: nothing changes: %s", e.File, e.Old)
		}
		files[e.File] = []byte(strings.Replace(string(text), e.Old, e.New, 1))
	}
	for path, text := range files {
		if filepath.Ext(path) != ".go" {
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// All are the faults that are seeded.
func All() []Mutant {
	var all []Mutant
	for _, some := range [][]Mutant{inTheTable(), inStatements(), inVerdicts(), inRepairs(), inAnswers()} {
		all = append(all, some...)
	}
	return all
}
