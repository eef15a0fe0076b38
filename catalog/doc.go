// Package catalog is the contracts that Onceward ships: for each provider a
// folder with its contract and its most used write actions, as files that an
// installation copies and makes its own.
//
// Every fact in them names the provider's document it was read in, or says
// unverified: true.
//
// The package is data and must never know how it is used. It imports the package
// definition.
package catalog
