package arch

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestLinksOfTheDocs follows every link between our own pages: the file must be
// there, and the heading that the link names.
func TestLinksOfTheDocs(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := readPages(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 20 {
		t.Errorf("%d pages: were they looked for in the right place?", len(pages))
	}
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(root, filepath.FromSlash(name)))
		return err == nil
	}
	for _, dead := range deadLinks(pages, exists) {
		t.Error(dead)
	}
}

func TestDeadLinksAreSeen(t *testing.T) {
	pages := map[string]string{
		"README.md": "# Top\n[a](docs/a.md) [b](docs/a.md#two-words-no-more) [c](#top) [d](https://example.com/x) `[not](one.md)`\n" +
			"```\n[not](one.md)\n# no heading\n```\n[gone](docs/b.md) [e](docs/a.md#three) [f](#no-heading) [g](code.go)\n",
		"docs/a.md": "## Two `words`, no more\n[up](../README.md) [gone](../a.md)\n",
	}
	got := deadLinks(pages, func(name string) bool { return pages[name] != "" || name == "code.go" })
	want := []string{
		"README.md: docs/b.md is not there",
		"README.md: docs/a.md has no heading #three",
		"README.md: README.md has no heading #no-heading",
		"docs/a.md: a.md is not there",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// readPages returns every page of the tree by its path, with slashes.
func readPages(tree fs.FS) (map[string]string, error) {
	pages := map[string]string{}
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			hidden := name != "." && strings.HasPrefix(entry.Name(), ".")
			if hidden || entry.Name() == "bin" || entry.Name() == "node_modules" {
				return fs.SkipDir
			}
			return nil
		case path.Ext(name) != ".md":
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		pages[name] = string(text)
		return err
	})
	return pages, err
}

// deadLinks returns what is wrong with links from page to page and to other files.
// Links into the world are not followed: a test must not depend on it.
func deadLinks(pages map[string]string, exists func(name string) bool) []string {
	var (
		block   = regexp.MustCompile("(?s)(?:^|\n) *```.*?\n *```")
		code    = regexp.MustCompile("`[^`\n]*`")
		link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
		heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
		outside = regexp.MustCompile(`^[a-z]+:`)
		dropped = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	)
	headings := map[string]map[string]bool{}
	for name, text := range pages {
		headings[name] = map[string]bool{}
		for _, h := range heading.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1) {
			// As the forges make anchors: lower case, marks dropped, hyphens for spaces.
			anchor := dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(h[1])), "")
			headings[name][strings.ReplaceAll(anchor, " ", "-")] = true
		}
	}
	var dead []string
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		prose := code.ReplaceAllString(block.ReplaceAllString(pages[name], ""), "")
		for _, found := range link.FindAllStringSubmatch(prose, -1) {
			if outside.MatchString(found[1]) {
				continue
			}
			file, anchor, _ := strings.Cut(found[1], "#")
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			if !exists(target) {
				dead = append(dead, name+": "+target+" is not there")
			} else if known, isPage := headings[target]; isPage && anchor != "" && !known[anchor] {
				dead = append(dead, name+": "+target+" has no heading #"+anchor)
			}
		}
	}
	return dead
}
