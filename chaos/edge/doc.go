// Package edge breaks TCP edges on purpose: between callers and a server, a server
// and its provider, a server and its Postgres. Each [Edge] is a listener on loopback
// in front of one upstream; a [Fault] is applied to it and healed while connections
// are open.
//
// The faults are Toxiproxy's (github.com/Shopify/toxiproxy), used as a library: no
// second process, no port for its API. What is added here are words for what is meant
// ([HalfOpen] rather than a timeout of 0), an upstream that moves, and an answer in
// bounded time: Toxiproxy can wait for ever for a connection that ended at a bad
// moment, see [Edge.Apply].
//
// The package must never know what runs over an edge: no Postgres, no gRPC, nothing
// else of this module. It imports Toxiproxy and the standard library.
package edge
