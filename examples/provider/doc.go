// Package provider holds the two files of docs/add-a-provider.md: a provider and
// an action that are declared and not programmed. The package is data; its tests
// hold the files against the page, and prove them.
package provider
