// Command adapter is Onceward with one more action type, loyalty.points.grant:
// an example of a binary with adapters of your own. docs/adapters.md explains
// it.
//
// It is the onceward command with all its subcommands:
//
//	LOYALTY_URL=https://loyalty.example.com LOYALTY_TOKEN_FILE=token go run ./examples/adapter dev
//
// points.go is the adapter, main.go registers it. An adapter must never know
// the ledger or the server: points.go imports actions and httpaction only.
package main
