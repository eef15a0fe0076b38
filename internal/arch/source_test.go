package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// sourceFile is one Go file that is no test.
type sourceFile struct {
	name      string // inside the module, with slashes
	generated bool
	doc       bool     // has a package comment
	inits     []string // where it declares func init, as file:line
}

// sourcePackage is one package as its files say it, under any build tag.
type sourcePackage struct {
	name    string
	imports []string // of files that are no tests, sorted, own ones without the module's path
	files   []sourceFile
}

// ownPrefix stands for the module's path in imports.
const ownPrefix = "<ours>/"

// module is all packages of this module by their path inside it.
type module map[string]*sourcePackage

// moduleRoot finds the folder with go.mod, above the folder of this test.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod above %s", dir)
		}
		dir = parent
	}
}

// modulePath reads the module's path from its go.mod.
func modulePath(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "module "); ok {
			return strings.TrimSpace(name), nil
		}
	}
	return "", fmt.Errorf("%s/go.mod names no module", root)
}

// readModule parses every Go file of the module. It reads files rather than ask
// the go command, so that files under other build tags count too, and so that
// the test cache notices each change.
func readModule(root string) (module, error) {
	self, err := modulePath(root)
	if err != nil {
		return nil, err
	}
	packages := module{}
	err = filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if file != root && skipped(file, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		case path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		inside, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		return packages.add(self, file, filepath.ToSlash(inside))
	})
	for _, pkg := range packages {
		slices.Sort(pkg.imports)
		pkg.imports = slices.Compact(pkg.imports)
	}
	return packages, err
}

// skipped says whether a folder holds no packages of this module: what the go
// command ignores, what is built, and modules of their own.
func skipped(dir, name string) bool {
	if name == "testdata" || name == "bin" || name == "dist" || name[0] == '.' || name[0] == '_' {
		return true
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// add parses one file into its package.
func (m module) add(self, file, inside string) error {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	pkg, ok := m[path.Dir(inside)]
	if !ok {
		pkg = &sourcePackage{name: parsed.Name.Name}
		m[path.Dir(inside)] = pkg
	}
	for _, spec := range parsed.Imports {
		imported := strings.Trim(spec.Path.Value, "`\"")
		if own, ok := strings.CutPrefix(imported, self+"/"); ok {
			imported = ownPrefix + own
		}
		pkg.imports = append(pkg.imports, imported)
	}
	source := sourceFile{
		name:      inside,
		generated: ast.IsGenerated(parsed),
		doc:       parsed.Doc != nil,
	}
	for _, decl := range parsed.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			source.inits = append(source.inits, fmt.Sprintf("%s:%d", inside, fset.Position(fn.Pos()).Line))
		}
	}
	pkg.files = append(pkg.files, source)
	return nil
}

// match says whether an imported package is one of the patterns.
func match(patterns []string, imported string) bool {
	own, isOurs := strings.CutPrefix(imported, ownPrefix)
	first, _, _ := strings.Cut(imported, "/")
	isStdlib := !isOurs && !strings.Contains(first, ".")
	for _, pattern := range patterns {
		switch pattern {
		case stdlib:
			if isStdlib {
				return true
			}
			continue
		case others:
			if !isOurs && !isStdlib {
				return true
			}
			continue
		}
		name := imported
		if isOurs {
			name = own
		}
		below, tree := strings.CutSuffix(pattern, "/...")
		// "ledger/..." means ours and "log/..." does not: no folder of ours bears
		// the name of one in the standard library.
		if name == below || tree && strings.HasPrefix(name, below+"/") {
			return true
		}
	}
	return false
}
