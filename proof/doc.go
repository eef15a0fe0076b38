// Package proof proves an adapter safe, or shows where it is not.
//
// It runs a real Onceward in this process (API, dispatcher, reconciler, ledger
// on Postgres) against a provider that misbehaves on request, walks every ugly
// path of the design with one operation each, and judges by what the provider
// holds in the end: never two effects, and never a claim that is not so.
// [Dangers] reads a contract without running anything.
//
//   - A [Subject] is an adapter with a valid example of its arguments and a
//     [Target], the provider that it talks to. [Fake] is the usual target.
//   - [Run] walks the paths ([Paths]) and returns a [Report].
//   - actions/actionstest is Run as a Go test, onceward verify is Run as a
//     command.
//
// Waits are shortened (see hurry.go), decisions are not: what comes after what,
// and what is proved by what, is the real runner's.
//
// The package must never know a particular provider or adapter, and must never
// excuse one: a path that cannot be walked says why. It imports internal/app and
// what a service is made of, and package fakeprovider for the words of its
// faults. It does not import testing.
package proof
