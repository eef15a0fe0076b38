package provider

import (
	"os"
	"strings"
	"testing"
)

// The guide shows the files as they are, and they stay short.
func TestPageShowsTheFiles(t *testing.T) {
	page, err := os.ReadFile("../../docs/add-a-provider.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, name := range []string{"provider.yaml", "parcelkit.label.create.yaml"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "```yaml\n"+string(text)+"```") {
			t.Errorf("docs/add-a-provider.md does not show %s as it is", name)
		}
		lines += strings.Count(string(text), "\n")
	}
	if lines >= 60 {
		t.Errorf("the example has %d lines: the guide promises under 60", lines)
	}
}
