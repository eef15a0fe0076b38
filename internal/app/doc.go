// Package app puts Onceward together: store, dispatcher, server, reconciler,
// and how they start and stop. The command line and the end-to-end tests run
// the same one.
//
// It must hold no decisions of its own. It imports everything but cmd.
package app
