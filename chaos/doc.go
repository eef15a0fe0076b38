// Command chaos puts replicas of Onceward, their clients, their provider and
// their Postgres under faults of every kind at once, and judges what is left: the
// target's effects, the ledger, and every answer that a caller got. "make chaos"
// runs it; docs/reliability.md says what it does and what came out.
//
// It is a module of its own, so that what it breaks things with never meets the
// dependencies of Onceward.
package main
