// Command bench measures Onceward beside what else does the same job on the same
// Postgres: one durable, keyed action around a provider that answers at once.
// "make bench" runs it; docs/performance.md says what is measured, how, and what
// came out.
//
// It is a module of its own, so that what it compares with never meets the
// dependencies of Onceward. It must hold no ledger code but bench/naive, which is
// there to be slower.
package main
