// Package history records what callers asked and were told, and checks that every
// key behaved as one write-once register with unknowns ([Check]): whatever two
// callers were told about a key fits one order of their calls, in which it is taken
// once, by one set of arguments, and ends once.
//
// The order is searched for by porcupine (linearizability), key by key.
//
// It must never know how calls are made, or what the target holds: that is
// package judge's. It imports ledger for the names of states, and porcupine.
package history
