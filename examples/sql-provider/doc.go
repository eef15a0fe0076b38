// Package sqlprovider holds the files of an action that writes to a Postgres, as
// docs/contracts.md shows them. The package is data; its tests hold the files
// against the page, and check them.
package sqlprovider
