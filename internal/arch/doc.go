// Package arch holds the rules of the house that no compiler holds: which
// package may import which, what a package may be called, where it says what it
// is, that nothing runs by being imported, and that links between our pages lead
// somewhere and each law of docs/laws.md has tests.
//
// It has tests only. They read source files, need nothing that is built, and
// must never import another package of this module. The rules are one table in
// rules_test.go, each with its reason; whoever changes the layout in
// ARCHITECTURE.md changes the table with it.
package arch
