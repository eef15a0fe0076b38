// Package dispatch makes attempts: it is the only caller of Adapter.Execute.
//
// An attempt is claimed in the ledger, called, classified and settled. [decide]
// is the pure heart: given the operation as it is and what an attempt
// established, it says what the ledger is to record. The server dispatches new
// operations, the reconciler those that are tried again. What a provider says by
// itself afterwards is recorded by the same rules; [weigh] is its decide.
//
// The package must never know gRPC, SQL or a particular provider. It imports
// actions and ledger.
package dispatch
