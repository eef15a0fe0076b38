// Package actions defines what Onceward can do: action types, the adapters that
// perform them on a provider, and what an adapter may say about one attempt.
//
// Start with [Adapter] to write one and with [Outcome] to report what happened;
// [NewRegistry] makes a set of them usable. Subpackages hold what adapters are
// built from (httpaction: a transport that knows what was sent; sqlaction: rows
// in the ledger's own database).
//
// The package must never know the ledger, a database driver, gRPC or the
// server: an adapter describes and performs, others decide and remember. It
// imports only the standard library and the JSON libraries; a test in
// internal/arch holds that.
package actions
