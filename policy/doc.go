// Package policy decides whether a request may become an operation. It is
// pure: no I/O, no clock; the zero Decision denies.
//
// It must never know the ledger, gRPC or an adapter's code; it imports actions
// for the description of an action type. Rules, budgets and intents will join
// it here.
package policy
