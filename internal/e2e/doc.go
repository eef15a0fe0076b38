// Package e2e holds the end-to-end tests: whole Onceward processes, a real
// Postgres and a provider that misbehaves. It has no code of its own, one file
// of tests for each kind of trouble, and its harness in harness_test.go.
//
// A test judges by what the target holds and by what the ledger has on record
// (operations, attempts, audit), and only then by replies. Nothing in it waits
// for a lease or a window: wantSound says what must hold at the end of each.
//
// The package must never reach into a part: it works through the API, the
// ledger's store and the provider's witness. It imports internal/apptest and
// what that one is made of.
package e2e
