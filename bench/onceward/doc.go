// Package onceward is what this repository makes: the server in a process of its
// own, called over gRPC as agents call it.
//
// With bench/naive under the same server it is also what it would be without
// group commit. It imports internal/app, which runs the real thing.
package onceward
