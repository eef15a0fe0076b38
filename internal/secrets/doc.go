// Package secrets holds the two secrets of an installation: the one that
// provider keys are derived from, and the keyset that seals stored arguments.
//
// They are files in one folder, readable by their owner only. Every replica of
// an installation must have the same ones. The package imports tink and the
// standard library and must know nothing of operations.
package secrets
