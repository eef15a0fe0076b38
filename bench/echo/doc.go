// Package echo is the floor of everything over gRPC: a server that gives back
// what it gets, with the same telemetry and the same use of memory as ours, and
// otherwise as gRPC comes.
//
// It must know nothing of ledgers. It imports contest and child.
package echo
