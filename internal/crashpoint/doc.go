// Package crashpoint names the moments in the life of an operation at which a
// process that dies leaves something else behind, and ends the process at one of
// them: for tests and fault campaigns, which put a [Crasher] between the parts of
// Onceward and its store.
//
// It must never know what runs its processes. It imports ledger and the Ledger of
// internal/app, and no code that ships imports it.
package crashpoint
