// Package mutants breaks Onceward on purpose, one law at a time, and wants a test
// to notice. Each [Mutant] is a small change of the transition table, a guarded
// statement, a verdict, the reconciler or a cache, that a tired person could make;
// and the test that must fail with it.
//
// Nothing in the tree is touched: the go command gets the changed files as an
// overlay, statements in .sql files included.
//
//	make mutants                # all of them
//	go test ./internal/mutants  # only that each still applies, and names a test
//
// The package must never know what it breaks: it reads files. It imports the
// standard library, and only tests import it.
package mutants
