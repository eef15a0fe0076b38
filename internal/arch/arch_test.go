package arch

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// readThisModule reads the module that this test is in.
func readThisModule(t *testing.T) module {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	packages, err := readModule(root)
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

func TestPackagesOfTheRulesExist(t *testing.T) {
	packages := readThisModule(t)
	for _, name := range mustExist {
		if packages[name] == nil {
			t.Errorf("package %s does not exist: was it renamed? then rename it in rules_test.go", name)
		}
	}
}

func TestImportArrows(t *testing.T) {
	for _, breach := range importBreaches(readThisModule(t)) {
		t.Error(breach)
	}
}

func TestPackageNamesSayWhatIsInside(t *testing.T) {
	packages := readThisModule(t)
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		for _, part := range []string{path.Base(name), packages[name].name} {
			if slices.Contains(meaningless, part) {
				t.Errorf("package %s: %q says nothing about what is inside", name, part)
			}
		}
	}
}

// What is registered by an import is registered by accident; constructors and
// explicit lists do it here. Generated code is not ours to change.
func TestNothingRunsByBeingImported(t *testing.T) {
	packages := readThisModule(t)
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		for _, file := range packages[name].files {
			if file.generated {
				continue
			}
			for _, place := range file.inits {
				t.Errorf("%s: func init: pass what it sets up to a constructor", place)
			}
		}
	}
}

// A reader finds what a package is for, and what it must never know, in one
// place. Generated packages are described by their sources.
func TestPackagesSayWhatTheyAre(t *testing.T) {
	packages := readThisModule(t)
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		var ownFiles, documented []string
		for _, file := range packages[name].files {
			if file.generated {
				continue
			}
			ownFiles = append(ownFiles, path.Base(file.name))
			if file.doc {
				documented = append(documented, path.Base(file.name))
			}
		}
		if len(ownFiles) == 0 {
			continue
		}
		want := "doc.go"
		if len(ownFiles) == 1 && packages[name].name == "main" {
			want = ownFiles[0] // a command in one file describes itself at its top
		}
		if !slices.Equal(documented, []string{want}) {
			t.Errorf("package %s: the package comment belongs in %s and nowhere else; it is in %q", name, want, documented)
		}
	}
}

// importBreaches returns one line for each import that a rule forbids.
func importBreaches(packages module) []string {
	var breaches []string
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		self := []string{ownPrefix + name}
		for _, rule := range arrows {
			if !match(rule.from, self[0]) || match(rule.but, self[0]) {
				continue
			}
			for _, imported := range packages[name].imports {
				if rule.may != nil && !match(rule.may, imported) && !match(rule.never, imported) {
					breaches = append(breaches, breach(append(self, imported), rule.why))
				}
			}
			for _, chain := range packages.reach(name, rule.never) {
				breaches = append(breaches, breach(chain, rule.why))
			}
		}
		for _, gate := range gates {
			if match(gate.from, self[0]) {
				continue
			}
			for _, imported := range packages[name].imports {
				if match(gate.to, imported) {
					breaches = append(breaches, breach(append(self, imported), gate.why))
				}
			}
		}
	}
	return breaches
}

func breach(chain []string, why string) string {
	return fmt.Sprintf("%s: not allowed: %s", strings.ReplaceAll(strings.Join(chain, " -> "), ownPrefix, ""), why)
}

// reach returns the shortest chain of imports from a package to each forbidden
// one, through packages of this module. What other modules import is theirs.
func (m module) reach(from string, forbidden []string) [][]string {
	var found [][]string
	seen := map[string]bool{}
	queue := [][]string{{ownPrefix + from}}
	for len(queue) > 0 {
		chain := queue[0]
		queue = queue[1:]
		own, isOurs := strings.CutPrefix(chain[len(chain)-1], ownPrefix)
		if !isOurs || m[own] == nil {
			continue
		}
		for _, imported := range m[own].imports {
			if seen[imported] {
				continue
			}
			seen[imported] = true
			next := append(slices.Clone(chain), imported)
			if match(forbidden, imported) {
				found = append(found, next)
				continue
			}
			queue = append(queue, next)
		}
	}
	return found
}
