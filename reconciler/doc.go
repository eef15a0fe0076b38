// Package reconciler repairs: it resolves doubt, and does what is due.
//
// A round expires leases, weighs what providers said by themselves, makes
// deferred attempts, resolves unknown operations, lapses approvals, watches for
// late landings and sweeps what is past its window. Many replicas may run it at
// once: rows are leased one by one, every write is fenced, and a reconciler that
// dies is taken over when its lease ends. [nextStep] is the pure heart: the plan
// for one doubt.
//
// The package must never know the server, gRPC or SQL. It imports actions,
// ledger and dispatch.
package reconciler
