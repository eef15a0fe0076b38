// Package hostile holds the tests in which callers mean harm: random messages to
// every method, connections that hold what they can and say nothing, messages
// beyond every limit, planted secrets that must not come out anywhere, and more
// tenants, actors and keys than a map should ever hold. It has no code of its own.
//
// A test judges by whether others are still served, by what the process holds and
// by what the ledger and the provider have on record; never by the clock alone.
//
// The package must never reach into a part where the wire, the API, the log or
// the ledger's tables will do. It imports internal/apptest and what that one is
// made of.
package hostile
