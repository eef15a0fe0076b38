// Package admin is what those who run a process ask it: /metrics, /healthz, /readyz
// and, where they are switched on, Go's profiles. [New] makes the HTTP server;
// [Probe] looks at something at regular times and does not change its mind at once.
//
// A stranger may learn whether a process is ready, and nothing else: metrics name
// tenants and profiles are memory, so that both want a token as soon as there is one,
// and profiles never go without.
//
// The package must never know the ledger, a tenant or what a metric counts. It imports
// the standard library and the Prometheus client's handler.
package admin
