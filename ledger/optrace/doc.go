// Package optrace joins what is done about an operation into the trace of the
// request that recorded it: hours later, in another process, by a reviewer.
//
// The ledger keeps one span of an operation (ledger.Run.TraceParent). Whoever works
// on the operation later begins a span below it with a [Tracer]. Spans name the
// tenant, the operation, its action type and what became of it, and never anything
// of its arguments, its receipt, its key or its provider's answer.
//
// The package must never know where spans go, nor change what is done. It imports
// ledger and the API of OpenTelemetry.
package optrace
