// Package grpcprovider holds the file of a provider whose actions come from a
// process of its own, as docs/contracts.md shows it. The package is data; its
// test holds the file against the page, and checks it.
package grpcprovider
