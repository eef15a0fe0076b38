package arch

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestEachLawHasTests compares docs/laws.md with the tests: a law that nothing
// tests is a promise, and a test of a law that is not written down tests nothing.
func TestEachLawHasTests(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "laws.md"))
	if err != nil {
		t.Fatal(err)
	}
	written := numbers(regexp.MustCompile(`(?m)^\| L([0-9]+) \|`), string(page))
	tested := map[int]bool{}
	test := regexp.MustCompile(`(?m)^func TestLaw([0-9]+)_`)
	err = fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		maps.Copy(tested, numbers(test, string(text)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(written) == 0 || !maps.Equal(written, tested) {
		t.Errorf("docs/laws.md has the laws %v, and there are tests of %v",
			slices.Sorted(maps.Keys(written)), slices.Sorted(maps.Keys(tested)))
	}
}

// numbers are those that the first group of a pattern finds.
func numbers(pattern *regexp.Regexp, text string) map[int]bool {
	found := map[int]bool{}
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		if n, err := strconv.Atoi(match[1]); err == nil {
			found[n] = true
		}
	}
	return found
}
