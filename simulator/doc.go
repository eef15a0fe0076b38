// Package simulator makes a fake provider of a provider contract and its action
// types: key rules, windows, errors, look-ups, rate limits and credentials as
// the files say, so that a declared action runs from end to end without the
// provider. [New] returns a [fakeprovider.Provider], which misbehaves on request
// and counts its effects.
//
// It is a witness, so it shares no code with the adapter that it is used to
// test (actions/declared): it parses requests by itself, places keys and
// credentials by its own reading of the contract, and classifies answers by
// itself. What the contract does not say is played in the way that is worst for
// a client that relies on it: a key whose window is unpublished protects
// nothing, and a failure sticks to its key where the contract does not say what
// is stored.
//
// What it cannot know: whether the contract is true. It plays the file.
//
// Secrets are fixed values that mean nothing anywhere else ([Secret]).
//
// The package imports definition, expr and fakeprovider. It must never know a
// ledger, an adapter or an outcome of Onceward's.
package simulator
