// Package sqlaction builds actions whose effect is a row in a Postgres database.
//
// [Local] is for the ledger's own database: its statement runs in the
// transaction that settles the operation, so that the effect and its receipt
// exist both or neither, exactly once.
//
// [Remote] is for any other Postgres, which a [Database] connects to. The
// statement runs in one transaction with a row (tenant, operation id, receipt)
// in a table of ours, so that a second attempt finds the first one's receipt
// instead of writing again, and a look-up can tell whether the effect exists.
// [Database] says why that look-up is certain.
//
// Both take a [Declared] statement: SQL with parameters, and where they come
// from.
//
// The package must never know the ledger, keys or retry policy, and Remote must
// never write to the ledger's database: it refuses a database that holds one.
// Local knows no driver, it hands a statement over. The package imports the
// standard library, actions and pgx; it is the only one below actions that may
// import pgx.
package sqlaction
