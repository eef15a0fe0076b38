// Package forecast predicts what enforcing would have done with requests that
// were only observed: it replays them in the order of time, in memory, against
// the budgets that they would have been charged to, the intents that would have
// fenced them, and each other's keys ([Simulation]).
//
// What it cannot know it assumes, and says so: nobody saw how long an operation
// would have taken, nor how it would have ended. Everything is taken to succeed
// after [Options.OperationTime].
//
// It must never know where observations are kept or how a report is printed, and
// imports nothing but the ledger's types.
package forecast
