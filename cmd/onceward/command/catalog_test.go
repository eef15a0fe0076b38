package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A copy overwrites nothing unless it is told to, and leaves nothing half done.
func TestCatalogCopy(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	run := func(force bool) error {
		out.Reset()
		return (&catalogCopyCmd{Name: "stripe", Dir: dir, Force: force}).Run(streams{out: &out})
	}
	if err := run(false); err != nil || !strings.Contains(out.String(), "provide the environment variable") {
		t.Fatalf("got %v:\n%s", err, &out)
	}
	contract := filepath.Join(dir, "stripe", "provider.yaml")
	if err := os.WriteFile(contract, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(false); err == nil || !strings.Contains(err.Error(), "is there already: nothing was written") {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(contract); err != nil || string(text) != "mine" {
		t.Errorf("was overwritten: %.20q (%v)", text, err)
	}
	if err := run(true); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(contract); err != nil || string(text) == "mine" {
		t.Errorf("was not overwritten: %v", err)
	}
	// provider.yaml is the first file that cannot be written: those before it go.
	files, err := filepath.Glob(filepath.Join(dir, "stripe", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(contract, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := run(true); err == nil {
		t.Error("a folder was overwritten")
	}
	if left, err := os.ReadDir(filepath.Join(dir, "stripe")); err != nil || len(left) != 1 {
		t.Errorf("left over: %v (%v)", left, err)
	}
}
