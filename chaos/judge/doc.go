// Package judge says which laws a campaign broke ([Judge]): it holds what the target
// received and holds against what the ledger says, what the audit record says, and
// what callers were told ([Facts]).
//
// It is pure: it must never ask anybody anything, so that each of its rules can be
// shown to find what it is for. It imports history, ledger, internal/auditchain and
// the standard library.
package judge
