// Package guard lets an internal service accept only writes that come from
// Onceward, and make each of them once.
//
// A request carries an operation token: a statement, signed by Onceward, that
// this operation, of this action type, with these arguments, may be performed by
// this service now. A [Verifier] believes it or not; a [Guard] is net/http
// middleware that refuses writes without one, and answers a second request of an
// operation with what the first one got. For gRPC see guard/guardgrpc; guard/guardsql
// remembers operations in the service's own Postgres, also in the transaction of
// its own write. docs/enforce.md is the whole story, examples/guard a service.
//
// Everything that is in doubt is refused, and whoever is refused learns a
// [Reason] and nothing more.
//
// The package is for services outside Onceward. It imports actions, for the
// hash of arguments, and must never know the ledger, the server or policy.
package guard
