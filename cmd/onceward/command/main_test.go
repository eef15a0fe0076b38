package command

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/onceward/onceward/internal/pgtest"
)

// TestMain makes the test binary also the program: in scripts, and in children
// of the program, "onceward" is this binary.
func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){
		"onceward": func() { os.Exit(Main(os.Args[1:], Options{})) },
	})
}

// tests are the package's tests, with the Postgres that they share.
type tests struct{ m *testing.M }

func (t tests) Run() int { return pgtest.Main(t.m) }
