// Package echo is the floor of everything over gRPC: a server that gives back
// what it gets, with the same settings and the same telemetry as ours.
//
// It must know nothing of ledgers. It imports contest and child.
package echo
