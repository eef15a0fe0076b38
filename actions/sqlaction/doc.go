// Package sqlaction builds actions whose effect is a row in a database.
//
// [Local] is for the ledger's own database: its statement runs in the
// transaction that settles the operation, so that the effect and its receipt
// exist both or neither, exactly once. Other databases will join it here.
//
// The package must never know a driver or the ledger: it hands a statement
// over. It imports actions only.
package sqlaction
