// Package postgres is the ledger's store.
//
// [Store] has one method for each thing that can happen to an operation, each
// one statement in one transaction, with its attempt and its audit event. The
// SQL is in sql/, a file a statement. A guarded UPDATE that matches no row is
// ledger.ErrFenced; what the state machine does not have is refused by
// ledger.Next before, and by the database after.
//
// Budgets and intents that operations hold are taken by the last statement of
// the transaction that records them, and given back by that of the one that ends
// them (holds.go, docs/decisions/012).
//
// The time is the database's. statement_timestamp() finds what is due: a planner
// can estimate it, and reads an index. clock_timestamp() decides: guards, leases and
// windows ask it (docs/decisions/018).
//
// The package must never know adapters, gRPC or what an action means. It
// imports ledger, pgx and the standard library.
package postgres
