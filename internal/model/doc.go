// Package model is Onceward as a small machine that can be walked through
// exhaustively: a key or two, workers, reconcilers, a reviewer, a provider and a
// clock, in every order in which they can act, crash, be late and be lied to by
// the network.
//
// It decides nothing itself. Where an operation goes is ledger.Next's word; what
// an answer means is dispatch.Judge's, what an event means dispatch.Weigh's, and
// what to do about a doubt that of a real reconciler.Reconciler, which works on
// the model's ledger. The package models what is I/O: rows with their guards, as
// the statements of ledger/postgres have them, requests under way, a provider's
// store, and time in ticks. That the real store guards as this one does is shown
// by the tests of ledger/postgres, against a reference of rows of their own.
//
// A [Scenario] says which provider it is and how much may go wrong. [Search] goes
// from the empty ledger through all that can happen, in order of length, and
// checks the laws ([Laws]) at every step, so that what it reports is a shortest
// counterexample. docs/decisions/016-model.md says what this proves, and under
// which assumptions about providers and people.
//
// The package must never know SQL, gRPC, HTTP or a real clock. It imports actions,
// ledger, dispatch and reconciler, and only tests import it. A Model is not safe
// for concurrent use.
package model
