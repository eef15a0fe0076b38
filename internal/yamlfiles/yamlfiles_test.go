package yamlfiles_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/onceward/onceward/internal/strictyaml"
	"github.com/onceward/onceward/internal/yamlfiles"
)

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDigestIsOfWhatIsRead: it changes with each name and content that Read reads,
// and with nothing else.
func TestDigestIsOfWhatIsRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), "a")
	digest := func() yamlfiles.Digest {
		t.Helper()
		d, err := yamlfiles.DigestOf(dir)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	last := digest()
	for _, change := range []struct {
		what string
		make func()
	}{
		{"a content", func() { write(t, filepath.Join(dir, "a.yaml"), "b") }},
		{"a new file", func() { write(t, filepath.Join(dir, "sub", "b.yml"), "a") }},
		{"another name", func() { _ = os.Rename(filepath.Join(dir, "a.yaml"), filepath.Join(dir, "c.yaml")) }},
	} {
		change.make()
		if now := digest(); now == last {
			t.Errorf("%s does not change it", change.what)
		} else {
			last = now
		}
	}
	for _, name := range []string{".a.yaml", ".git/b.yaml", "notes.txt"} {
		write(t, filepath.Join(dir, name), "a")
		if digest() != last {
			t.Errorf("%s changes it", name)
		}
	}
	files, err := yamlfiles.Read(dir)
	if err != nil || len(files) != 2 {
		t.Errorf("read %v, %v", files, err)
	}
}

// TestHugeFiles: so much of them is read that their reader sees it.
func TestHugeFiles(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "a.yaml")
	write(t, name, "")
	if err := os.Truncate(name, 1<<40); err != nil { // it takes no space
		t.Skip(err)
	}
	if _, err := yamlfiles.DigestOf(name); err != nil {
		t.Error(err)
	}
	files, err := yamlfiles.Read(name)
	if err != nil || len(files[name]) != strictyaml.MaxFileBytes+1 {
		t.Errorf("read %d bytes, %v", len(files[name]), err)
	}
}
