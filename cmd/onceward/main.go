// Command onceward is the write firewall for AI agents: server, client and
// tools in one binary. `onceward --help` lists what it does.
//
// A binary with adapters of your own is this file with Options.Adapters.
package main

import (
	"os"

	"github.com/onceward/onceward/cmd/onceward/command"
)

func main() {
	os.Exit(command.Main(os.Args[1:], command.Options{}))
}
