// Package simulated makes the subjects of a proof out of declared actions: each
// with the adapter that would serve it, before a simulated provider that plays
// the same contract.
//
// The package must never know a ledger. It imports proof, simulator and the
// packages of declared actions.
package simulated
