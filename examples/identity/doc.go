// Package identity holds the file of docs/identity.md: issuers of tokens, and
// rules for client certificates. The package is data; its test holds the file
// against the page, and checks it as the service does.
package identity
