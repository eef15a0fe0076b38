package definition

import "github.com/onceward/onceward/internal/strictyaml"

// Place is a place in a file.
type Place = strictyaml.Place

// Fault is one thing that is wrong in a file.
type Fault = strictyaml.Fault

// FaultsError is everything that is wrong in a set of files, by file and line.
type FaultsError = strictyaml.FaultsError

// Place returns where a field is in a file; where it is not there, the nearest
// part that holds it. The field is a path: "keys.window", "outcomes[2].if",
// `http.headers["Stripe-Version"]`.
func (s *Set) Place(file, field string) Place {
	doc := s.docs[file]
	if doc == nil {
		return Place{File: file}
	}
	return doc.Place(field)
}

// Fault makes a fault of a field of a file.
func (s *Set) Fault(file, field, problem string) Fault {
	return Fault{Place: s.Place(file, field), Field: field, Problem: problem}
}
