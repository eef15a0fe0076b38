// Package mailprovider holds the files of an action that sends a mail by SMTP, as
// docs/contracts.md shows them. The package is data; its tests hold the files
// against the page, and check them.
package mailprovider
