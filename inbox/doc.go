// Package inbox takes in what providers say by themselves: an HTTP handler for
// their webhooks.
//
//	POST /v1/webhooks/{tenant}/{provider}
//
// A message is read within bounds, verified by the provider's actions.Source,
// and its events are stored before it is acknowledged. What they mean for an
// operation is found out by the reconciler afterwards. So the answer is quick,
// an event that is sent again does nothing, and one that could not be stored is
// answered so that the provider sends it again.
//
// The tenant is the one of the address, never of the body: an event that names
// an operation of another tenant does nothing.
//
//	200  stored, or known already: {"stored": 1}
//	400  verified, and not what the provider's contract says
//	401  not verified
//	404  no such tenant or provider
//	408  too slow, 413 too large
//	503  not stored; send it again after Retry-After
//
// Bodies and secrets are never logged; a body is named by its SHA-256.
//
// The package must never know gRPC, SQL, or what moves an operation. It imports
// actions, ledger and the standard library.
package inbox
