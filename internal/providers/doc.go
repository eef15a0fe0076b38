// Package providers makes the action types of an installation out of its
// definition files: it reads and checks them, builds an adapter for each action,
// resolves references to secrets, and takes changed files over while the service
// runs. A change with a fault changes nothing.
//
// The package must never know requests or operations. It imports actions and the
// packages below it.
package providers
