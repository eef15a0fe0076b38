// Package auditchain verifies the audit record: that no event was removed from it,
// changed or added in between. It reads events as lines of JSON, as exports have
// them and as the ledger hands them over. docs/audit.md says what the chain is,
// and what cannot be seen by it.
//
// It must never know where lines come from, nor the ledger's types: who verifies
// an export needs no ledger. It imports the standard library only.
package auditchain
