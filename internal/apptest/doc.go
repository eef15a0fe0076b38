// Package apptest runs whole Onceward processes for end-to-end tests: against a
// real Postgres and a fake provider, in this process ([World.Start]) or as a
// child process that can be killed ([World.StartChild]).
//
// A test judges by [World.Provider], which counts effects, and by the ledger,
// not by replies alone. It must never be imported by code that ships.
package apptest
