// Package signing makes the signed statements of an installation: operation
// tokens for internal services (package guard verifies them), and receipts that
// can be checked without asking anybody. It serves the public keys as well.
//
// It imports guard for the form of a token, ledger for operations, and
// internal/jws. It must not know where keys come from, when something is sent,
// or who asks.
package signing
