// Command temporal measures a durable, keyed action on Temporal: a workflow
// whose id is the key and whose single step calls a provider that answers at
// once. The server runs in this process, on the Postgres it is given.
//
// It prints a line of JSON for each measurement on standard output, everything
// else on standard error; README.md says how it is set up. It is a module of its
// own, so that nothing of Temporal's comes near Onceward's dependencies.
package main
