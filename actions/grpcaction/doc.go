// Package grpcaction is the client side of onceward.v1.AdapterService: it makes
// adapters of the action types that another process describes, in whatever
// language that is written.
//
// Start with [New] and [Client.Describe], whose adapters go into a registry
// like any other. [Client.Health] asks whether the process serves; [Compare]
// finds descriptions that changed without a new version. docs/grpc-adapters.md
// is the guide for those who write the other side.
//
// The promises:
//
//   - One Execute opens at most one stream. gRPC retries by itself where a
//     stream was refused unprocessed; here that is proof of not-applied and goes
//     back to the ledger, which decides about another attempt.
//   - Not-applied is said only when no stream was opened, when the stream was
//     refused unprocessed, or when the adapter claims it in an Outcome. Every
//     other error is ambiguous, whatever its code.
//   - The bytes of a request are made once, by rules of this package, and are
//     the ones that [actions.Renderer] gives to be frozen.
//   - An answer counts for what it claims and no more: unknown kinds, receipts
//     that are missing or broken and contradictions never become a success or a
//     failure.
//   - TLS, or plain text to this machine. No proxy of the environment, no
//     configuration from the name service.
//
// The package must never know the ledger, keys or retry policy: it makes one
// attempt and tells the truth about it. It imports the standard library, the
// packages actions and expr, the contract (proto/onceward/v1), gRPC, protobuf, the jsontext
// package and gobreaker, nothing else.
package grpcaction
