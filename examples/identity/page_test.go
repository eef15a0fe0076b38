package identity

import (
	"os"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/identity"
)

// The page shows the file as it is, and the service would take it.
func TestPageShowsTheFile(t *testing.T) {
	page, err := os.ReadFile("../../docs/identity.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("identity.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```yaml\n"+string(text)+"```") {
		t.Error("docs/identity.md does not show identity.yaml as it is")
	}
	if err := identity.Check("identity.yaml"); err != nil {
		t.Error(err)
	}
}
