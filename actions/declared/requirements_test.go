package declared_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Each requirement of the survey of providers has a test that names it, or a
// line in decision 011 that says "not": a test that goes away is noticed.
func TestRequirementsHaveTests(t *testing.T) {
	t.Parallel()
	tested := testedRequirements(t)
	answered, refused := decidedRequirements(t)
	for n := 1; n <= 30; n++ {
		switch {
		case !answered[n]:
			t.Errorf("decision 011 says nothing about requirement %d", n)
		case refused[n] && n != 14: // 14 is answered by the core, and a test here shows how
			if tested[n] {
				t.Errorf("decision 011 says that requirement %d is not here, and a test names it", n)
			}
		case !tested[n]:
			t.Errorf("no test names requirement %d", n)
		}
	}
}

// requirement is how a comment names one or more of them.
var requirement = regexp.MustCompile(`(?m)^\s*// PROVIDERS requirements? ([0-9, ]+)$`)

func testedRequirements(t *testing.T) map[int]bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	tested := map[int]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range requirement.FindAllStringSubmatch(string(text), -1) {
			for word := range strings.FieldsFuncSeq(m[1], func(c rune) bool { return c == ',' || c == ' ' }) {
				n, err := strconv.Atoi(word)
				if err != nil {
					t.Fatalf("%s: %q", file, m[0])
				}
				tested[n] = true
			}
		}
	}
	return tested
}

// decidedRequirements reads the table of decision 011. A row that begins with
// "not" is refused; one that holds it further on is answered in part.
func decidedRequirements(t *testing.T) (answered, refused map[int]bool) {
	t.Helper()
	files, err := filepath.Glob("../../docs/decisions/011-*.md")
	if err != nil || len(files) != 1 {
		t.Fatalf("decision 011: %v, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	answered, refused = map[int]bool{}, map[int]bool{}
	row := regexp.MustCompile(`(?m)^\| ([0-9]+)(?:–([0-9]+))? [^|]*\| (\*not)?`)
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		var first, last int
		if m[2] == "" {
			m[2] = m[1]
		}
		if _, err := fmt.Sscan(m[1]+" "+m[2], &first, &last); err != nil {
			t.Fatalf("%q: %v", m[0], err)
		}
		for n := first; n <= last; n++ {
			if answered[n] {
				t.Errorf("decision 011 has requirement %d twice", n)
			}
			answered[n], refused[n] = true, m[3] != ""
		}
	}
	return answered, refused
}
