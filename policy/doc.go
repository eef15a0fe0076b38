// Package policy decides whether a request may become an operation, and what it
// holds while it is one. It is pure: no I/O, no clock; the zero [Policy] and the
// zero [Decision] deny.
//
// [Load] compiles the policies of tenants (docs/policies.md); [Compile] the
// expressions of an action type; [Policy.Decide] answers. In this order: who asks
// and what Allow lists; what the arguments spend and which goals they serve; rules;
// budgets; approvals. Whether a budget has room and an intent is free is decided by
// the ledger, in the transaction that records the operation.
//
// The package must never know a store, gRPC or an adapter's code. It imports
// actions for the description of an action type, actions/expr for CEL, ledger for
// the words of what is held, and policyfile for the language.
package policy
