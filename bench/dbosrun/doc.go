// Package dbosrun is DBOS Transact for Go as its documentation shows it: a
// workflow whose id is the key, with the provider's call as its one step. The
// caller runs it in its own process and waits for the result; the same id again
// gets the result that is on record.
package dbosrun
