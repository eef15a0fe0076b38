// Package fakeprovider is an HTTP server that plays three real providers and
// misbehaves on request: payments (with idempotency keys), e-mail (without
// keys, with a search that lags) and a CRM (with a unique natural key). In their
// place it plays what [Resource] values describe.
//
// It exists so that a test asserts on the target and not on the reply: each
// accepted write is an [Effect], and effects can be counted by operation or by
// what the write is about. Use [New] and [Start]; script misbehaviour with
// [Provider.Next], [Provider.NextLookup] and [Provider.ForMatch], or from
// another process through the control API under /_fake/ (see README.md).
//
// Faults stand on the provider's side of the wire. Nothing in a request can
// choose one, because a real provider's clients cannot either.
//
// The package must never know Onceward: no ledger, no operation states, no
// adapter types. It imports only the standard library, so that it can be used
// to test any client. It is for tests and demonstrations on loopback; the
// control API is not authenticated.
package fakeprovider
