// Package naive has the ledger's two hot writes, claim and receipt, as they would
// be written without group commit: [Steps] in one transaction a step with
// statements one by one, [Single] in one statement a step that commits by itself.
// Both write the same rows as ledger/postgres: operation, lease and audit event,
// with the same guards, kill switches and restores among them. Everything else is left to the store that they wrap.
//
// It is for comparison only. It must not be faster or slower than it has to be:
// statements are prepared once, arguments are not parsed again, and what comes
// back is no more than needed.
package naive
