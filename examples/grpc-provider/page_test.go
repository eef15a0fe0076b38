package grpcprovider

import (
	"os"
	"strings"
	"testing"

	"github.com/onceward/onceward/actions/declared"
	"github.com/onceward/onceward/actions/definition"
)

// The page shows the files as they are, and nothing is wrong with them.
func TestPageShowsTheFiles(t *testing.T) {
	page, err := os.ReadFile("../../docs/contracts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"provider.yaml"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "```yaml\n"+string(text)+"```") {
			t.Errorf("docs/contracts.md does not show %s as it is", name)
		}
	}
	set, err := definition.Load(".")
	if err != nil {
		t.Fatal(err)
	}
	faults, err := declared.Check(set)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Error(f)
	}
}
