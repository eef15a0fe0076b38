// Command restate measures a durable, keyed action on Restate: a handler that
// is called with an idempotency key and whose single step calls a provider that
// answers at once. The server is a child process with its own log on disk; the
// handler is served by this process.
//
// It prints a line of JSON for each measurement on standard output, everything
// else on standard error; README.md says how it is set up. It is a module of its
// own, so that nothing of Restate's comes near Onceward's dependencies.
package main
