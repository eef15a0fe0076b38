// Command renderstates writes the state machine to the file it is given.
package main

import (
	"fmt"
	"os"

	"github.com/onceward/onceward/ledger"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: renderstates FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], []byte(ledger.RenderStates()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "renderstates:", err)
		os.Exit(1)
	}
}
