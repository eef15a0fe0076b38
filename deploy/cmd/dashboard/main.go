// Command dashboard writes the Grafana dashboard from package board. Run it with
// `go generate ./...` in deploy/.
package main

import (
	"fmt"
	"os"

	"github.com/onceward/onceward/deploy/board"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dashboard FILE")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(1)
	}
}

func write(file string) error {
	raw, err := board.JSON()
	if err != nil {
		return err
	}
	return os.WriteFile(file, raw, 0o644)
}
