// Package command is the onceward command line: one file for each subcommand.
//
// A binary with adapters of your own calls [Main] with them:
//
//	os.Exit(command.Main(os.Args[1:], command.Options{Adapters: mine}))
//
// It wires and prints; decisions are elsewhere. It may import everything.
package command
