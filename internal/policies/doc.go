// Package policies keeps the tenants' policies of an installation in force: it
// reads their files, takes changes over while the service runs, and goes on with
// the last good ones where a change has a fault.
//
// The package must never know requests; what a policy says is decided in package
// policy. It imports policy, and what reads files.
package policies
