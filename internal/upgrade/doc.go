// Package upgrade holds the test that a running installation can be upgraded: the
// program of a former revision, named in the file base, and that of this tree
// serve one ledger at once, while the new one migrates it and takes over. It has
// no code of its own.
//
// Set base to the revision of the last release when one is made. The test builds
// it, so that it is behind the build tag "upgrade" and runs with make test-upgrade.
//
// It judges by what the provider holds and what the ledger has on record. It works
// with the programs, the API and the provider's witness, and must never import what
// it tests: the two programs do not have the same.
package upgrade
