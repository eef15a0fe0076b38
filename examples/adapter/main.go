package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/cmd/onceward/command"
)

func main() {
	points, err := newPoints(options{
		BaseURL: cmp.Or(os.Getenv("LOYALTY_URL"), "https://loyalty.example.com"),
		Token:   tokenFile(os.Getenv("LOYALTY_TOKEN_FILE")),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "adapter:", err)
		os.Exit(1)
	}
	os.Exit(command.Main(os.Args[1:], command.Options{Adapters: []actions.Adapter{points}}))
}

// tokenFile reads the token anew for each attempt: it can be rotated without a
// restart, and while it cannot be read nothing is sent.
func tokenFile(path string) func() (string, error) {
	return func() (string, error) {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("LOYALTY_TOKEN_FILE: %w", err)
		}
		return strings.TrimSpace(string(data)), nil
	}
}
