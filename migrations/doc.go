// Package migrations holds the ledger's schema as forward-only SQL files, and
// applies them.
//
// Each version of the program runs on the schema before and after its own
// migration, so that replicas can be replaced one by one. The package must not
// know what the tables mean; it imports golang-migrate and pgx.
package migrations
