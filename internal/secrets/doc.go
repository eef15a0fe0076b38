// Package secrets holds the secrets of an installation: the one that provider
// keys are derived from, the keyset that seals stored arguments, and the keys
// that sign operation tokens and receipts.
//
// They are files in one folder, readable by their owner only. Every replica of
// an installation must have the same ones. The secret of provider keys never
// changes. The other keys are rotated in steps, so that no replica meets the
// work of a key that it does not know: Add, wait until all have it, Promote, and
// much later Retire.
//
// The package imports tink, the standard library and golang.org/x/sys; it must
// know nothing of operations, tokens or the ledger.
package secrets
