// Package storage measures the ledger alone, in this process: claim and receipt
// of new operations, with everything that the server writes and without its
// checks, its wire and its adapters.
package storage
