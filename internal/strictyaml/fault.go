package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Place is a place in a file.
type Place struct {
	File         string
	Line, Column int // from 1; 0 when unknown
}

func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Fault is one thing that is wrong in a file.
type Fault struct {
	Place   Place
	Field   string // path of the field: "keys.window", "outcomes[2].if"; empty: the file
	Problem string // what is wrong and what is wanted
}

func (f Fault) String() string {
	if f.Field == "" && f.Place == (Place{}) {
		return f.Problem // of all files together
	}
	if f.Field == "" {
		return fmt.Sprintf("%s: %s", f.Place, f.Problem)
	}
	return fmt.Sprintf("%s: %s: %s", f.Place, f.Field, f.Problem)
}

// FaultsError is everything that is wrong in a set of files, by file and line.
type FaultsError struct{ Faults []Fault }

// Error returns one line for each fault.
func (e *FaultsError) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// Sorted sorts faults by file and place, in their own memory.
func Sorted(faults []Fault) []Fault {
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(strings.Compare(a.Place.File, b.Place.File), cmp.Compare(a.Place.Line, b.Place.Line), cmp.Compare(a.Place.Column, b.Place.Column),
			strings.Compare(a.Field, b.Field), strings.Compare(a.Problem, b.Problem))
	})
	return faults
}
