// Package ledger says what Onceward remembers: operations, their states, the
// moves between them and the errors of a store. It holds no I/O.
//
// The state machine is one table (moves.go); [Next] reads it, the store's one
// guarded UPDATE is built on it, the database's own check is tested against
// it, and STATES.md is rendered from it.
//
// The package must never know adapters, gRPC or a database driver. It imports
// only the standard library. ledger/postgres is the store.
package ledger

//go:generate go run ./internal/renderstates STATES.md
