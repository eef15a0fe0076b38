// Package demo plays a trace of agent requests three times, each time on a fake
// provider of its own, and counts what the provider holds in the end: straight
// at the provider, through Onceward, and through an Onceward that is killed in
// mid-flight again and again.
//
// [Decode] reads a trace, [Run] plays it, and a [Result] says what came of it,
// as text for people or as JSON. What an effect is, is judged by the fake
// provider's count and by the rows of notes.insert, never by replies.
//
// The package is a client: it must never know how Onceward works inside, and
// reaches it over gRPC only. It imports the contract, fakeprovider and gRPC.
// Databases and processes are its caller's ([Service]).
package demo
