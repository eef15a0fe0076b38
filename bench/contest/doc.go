// Package contest is what is measured, and how: a [Contestant] that does one
// durable, keyed action at a time, a closed loop of callers around it, and the
// [Entry] that runs in each round.
//
// It must know no contestant. It imports the standard library, machine and
// google/uuid.
package contest
