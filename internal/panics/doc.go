// Package panics says where a program panicked, for the log, without what the
// panic says: its text is made by an adapter or a library, which may well put
// into it what it was working on: a token, an argument, an answer.
//
// It must never know who panicked or about what. It imports the standard library
// only.
package panics
