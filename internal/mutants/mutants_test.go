package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	seed = flag.Bool("mutants", false, "seed every fault, and want a test to catch it")
	only = flag.String("mutant", "", "only those with this in their names")
)

const (
	root    = "../.."
	timeout = 10 * time.Minute // for one: to build what it touches, and to run the test
)

func read(path string) ([]byte, error) { return os.ReadFile(filepath.Join(root, path)) }

// A fault that does not apply any more, or whose test is gone, would be caught for
// ever.
func TestMutantsApply(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, m := range All() {
		if names[m.Name] {
			t.Errorf("two are called %q", m.Name)
		}
		names[m.Name] = true
		if _, err := m.Changed(read); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		if !hasTest(t, m) {
			t.Errorf("%s: no test in %s is called %s", m.Name, m.Package, m.Run)
		}
	}
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// hasTest reports whether there is a test that a mutant names.
func hasTest(t *testing.T, m Mutant) bool {
	t.Helper()
	name, _, _ := strings.Cut(m.Run, "$/")
	run, err := regexp.Compile(name)
	if err != nil {
		t.Fatalf("%s: %v", m.Name, err)
	}
	files, err := filepath.Glob(filepath.Join(root, m.Package, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range testFunc.FindAllSubmatch(text, -1) {
			if run.Match(f[1]) {
				return true
			}
		}
	}
	return false
}

// Edits that cannot be are refused, or a mutant would be the program itself.
func TestEditsThatDoNotApply(t *testing.T) {
	t.Parallel()
	file := func(string) ([]byte, error) { return []byte("package a\n\nvar x, x2 = 1, 1\n"), nil }
	for what, e := range map[string]Edit{
		"text that is not there":   {"a.go", "var y", "var z"},
		"text that is there twice": {"a.go", "1", "2"},
		"nothing that changes":     {"a.go", "var", "var"},
		"what is no Go":            {"a.go", "var", "func"},
	} {
		if _, err := (Mutant{Edits: []Edit{e}}).Changed(file); err == nil {
			t.Errorf("%s is changed", what)
		}
	}
	both := Mutant{Edits: []Edit{{"a.go", "var", "const"}, {"a.go", "x2", "y"}}}
	if got, err := both.Changed(file); err != nil || string(got["a.go"]) != "package a\n\nconst x, y = 1, 1\n" {
		t.Errorf("got %q, %v", got["a.go"], err)
	}
}

// Every fault is caught by the test that is there for it.
func TestMutantsAreCaught(t *testing.T) {
	if !*seed {
		t.Skip("a run of the tests for each fault: make mutants")
	}
	counts := map[string]int{}
	for _, m := range All() {
		if !strings.Contains(m.Name, *only) {
			continue
		}
		began := time.Now()
		verdict := try(t, m)
		t.Logf("%-9s %5.1fs  %s: %s (%s %s)", verdict, time.Since(began).Seconds(), m.Law, m.Name, m.Package, m.Run)
		if counts[verdict]++; verdict != caught {
			t.Errorf("%s: %s", verdict, m.Name)
		}
	}
	t.Logf("%d caught, %d survived, %d broken", counts[caught], counts[survived], counts[broken])
}

// What came of a mutant.
const (
	caught   = "caught"
	survived = "SURVIVED"
	broken   = "BROKEN" // it proves nothing
)

// try runs the test of a mutant on the mutant.
func try(t *testing.T, m Mutant) string {
	t.Helper()
	files, err := m.Changed(read)
	if err != nil {
		t.Errorf("%s: %v", m.Name, err)
		return broken
	}
	dir, replace := t.TempDir(), map[string]string{}
	for path, text := range files {
		was, err := filepath.Abs(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		now := filepath.Join(dir, strings.ReplaceAll(path, "/", "_"))
		if err := os.WriteFile(now, text, 0o600); err != nil {
			t.Fatal(err)
		}
		replace[was] = now
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	test := exec.CommandContext(ctx, "go", "test", "-count=1", "-failfast", "-overlay="+file, "-run="+m.Run, "./"+m.Package)
	test.Dir, test.WaitDelay = root, 10*time.Second
	out, err := test.CombinedOutput()
	var failed *exec.ExitError
	switch {
	case err == nil && !strings.Contains(string(out), "no tests to run"):
		return survived
	case errors.As(err, &failed) && strings.Contains(string(out), "--- FAIL: "):
		return caught
	default: // it does not build, or took too long, or there is no such test
		t.Logf("%s", out)
		return broken
	}
}
